"""ListGroups: lists the groups that a broker coordinates.

Generated from definitions/16_list_groups.def; change that, not this.
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


class ListGroupsRequest(Request):
    """ListGroupsRequest, version 0 to 5."""

    __slots__ = ("states_filter", "types_filter")

    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        states_filter: list[str] = EMPTY,  # version >= 4
        types_filter: list[str] = EMPTY,  # version >= 5
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.states_filter = [] if states_filter is EMPTY else states_filter
        self.types_filter = [] if types_filter is EMPTY else types_filter
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        if version >= 4:
            self.states_filter, pos = read_strings(data, pos, flexible)
        else:
            self.states_filter = []
        if version >= 5:
            self.types_filter, pos = read_strings(data, pos, flexible)
        else:
            self.types_filter = []
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        if version >= 4:
            write_strings(write, self.states_filter, flexible)
        if version >= 5:
            write_strings(write, self.types_filter, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ListGroupsResponseGroup(WireStruct):
    """An element of `groups`."""

    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")

    def __init__(
        self,
        *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",  # version >= 4
        group_type: str = "",  # version >= 5
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.group_id, pos = read_string(data, pos, flexible)
        self.protocol_type, pos = read_string(data, pos, flexible)
        if version >= 4:
            self.group_state, pos = read_string(data, pos, flexible)
        else:
            self.group_state = ""
        if version >= 5:
            self.group_type, pos = read_string(data, pos, flexible)
        else:
            self.group_type = ""
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write_string(write, self.group_id, flexible)
        write_string(write, self.protocol_type, flexible)
        if version >= 4:
            write_string(write, self.group_state, flexible)
        if version >= 5:
            write_string(write, self.group_type, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ListGroupsResponse(Response):
    """ListGroupsResponse, version 0 to 5."""

    __slots__ = ("throttle_time_ms", "error_code", "groups")

    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 1
        error_code: int = 0,
        groups: list[ListGroupsResponseGroup] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is EMPTY else groups
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        if version >= 1:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.groups, pos = read_array(data, pos, version, flexible, ListGroupsResponseGroup.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        if version >= 1:
            write(pack_i(self.throttle_time_ms))
        write(pack_h(self.error_code))
        write_array(write, self.groups, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
