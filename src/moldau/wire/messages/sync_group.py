"""SyncGroup: hands the leader's assignment to every member of a classic group.

Generated from definitions/14_sync_group.def; change that, not this.
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
    read_bytes,
    read_nullable_string,
    read_string,
    read_tags,
    write_array,
    write_bytes,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack


class SyncGroupRequestAssignment(WireStruct):
    """An element of `assignments`."""

    __slots__ = ("member_id", "assignment")

    def __init__(
        self,
        *,
        member_id: str = "",
        assignment: bytes = b"",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.member_id, pos = read_string(data, pos, flexible)
        self.assignment, pos = read_bytes(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write_string(write, self.member_id, flexible)
        write_bytes(write, self.assignment, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class SyncGroupRequest(Request):
    """SyncGroupRequest, version 0 to 5."""

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
    )

    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,  # version >= 3
        protocol_type: str | None = None,  # version >= 5
        protocol_name: str | None = None,  # version >= 5
        assignments: list[SyncGroupRequestAssignment] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is EMPTY else assignments
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.group_id, pos = read_string(data, pos, flexible)
        (self.generation_id,) = unpack_i(data, pos)
        pos += 4
        self.member_id, pos = read_string(data, pos, flexible)
        if version >= 3:
            self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.group_instance_id = None
        if version >= 5:
            self.protocol_type, pos = read_nullable_string(data, pos, flexible)
            self.protocol_name, pos = read_nullable_string(data, pos, flexible)
        else:
            self.protocol_type = None
            self.protocol_name = None
        self.assignments, pos = read_array(data, pos, version, flexible, SyncGroupRequestAssignment.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write_string(write, self.group_id, flexible)
        write(pack_i(self.generation_id))
        write_string(write, self.member_id, flexible)
        if version >= 3:
            write_nullable_string(write, self.group_instance_id, flexible)
        if version >= 5:
            write_nullable_string(write, self.protocol_type, flexible)
            write_nullable_string(write, self.protocol_name, flexible)
        write_array(write, self.assignments, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class SyncGroupResponse(Response):
    """SyncGroupResponse, version 0 to 5."""

    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")

    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 1
        error_code: int = 0,
        protocol_type: str | None = None,  # version >= 5
        protocol_name: str | None = None,  # version >= 5
        assignment: bytes = b"",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        if version >= 1:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        if version >= 5:
            self.protocol_type, pos = read_nullable_string(data, pos, flexible)
            self.protocol_name, pos = read_nullable_string(data, pos, flexible)
        else:
            self.protocol_type = None
            self.protocol_name = None
        self.assignment, pos = read_bytes(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        if version >= 1:
            write(pack_i(self.throttle_time_ms))
        write(pack_h(self.error_code))
        if version >= 5:
            write_nullable_string(write, self.protocol_type, flexible)
            write_nullable_string(write, self.protocol_name, flexible)
        write_bytes(write, self.assignment, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
