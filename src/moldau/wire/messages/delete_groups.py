"""DeleteGroups: deletes empty groups and their offsets.

Generated from definitions/42_delete_groups.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response, WireStruct
from moldau.wire.primitives import (
    EMPTY,
    NO_TAGS,
    Data,
    Write,
    read_array,
    read_string,
    read_strings,
    read_tags,
    write_array,
    write_string,
    write_strings,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack


class DeleteGroupsRequest(Request):
    """DeleteGroupsRequest, version 0 to 2."""

    __slots__ = ("groups_names",)

    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        groups_names: list[str] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.groups_names = [] if groups_names is EMPTY else groups_names
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.groups_names, pos = read_strings(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_strings(write, self.groups_names, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteGroupsResponseGroup(WireStruct):
    """An element of `results`."""

    __slots__ = ("group_id", "error_code")

    def __init__(
        self,
        *,
        group_id: str = "",
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.group_id, pos = read_string(data, pos, flexible)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_string(write, self.group_id, flexible)
        write(pack_h(self.error_code))
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteGroupsResponse(Response):
    """DeleteGroupsResponse, version 0 to 2."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeleteGroupsResponseGroup] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.results, pos = read_array(data, pos, version, flexible, DeleteGroupsResponseGroup.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.results, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
