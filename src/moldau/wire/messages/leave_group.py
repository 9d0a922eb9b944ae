"""LeaveGroup: takes members out of a classic group at once, without waiting for their session to expire.

Generated from definitions/13_leave_group.def; change that, not this.
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
    read_nullable_string,
    read_string,
    read_tags,
    write_array,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack


class LeaveGroupRequestMember(WireStruct):
    """An element of `members`."""

    __slots__ = ("member_id", "group_instance_id", "reason")

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,  # version >= 5
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.member_id, pos = read_string(data, pos, flexible)
        self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
        if version >= 5:
            self.reason, pos = read_nullable_string(data, pos, flexible)
        else:
            self.reason = None
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
        write_nullable_string(write, self.group_instance_id, flexible)
        if version >= 5:
            write_nullable_string(write, self.reason, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class LeaveGroupRequest(Request):
    """LeaveGroupRequest, version 0 to 5."""

    __slots__ = ("group_id", "member_id", "members")

    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",  # version <= 2
        members: list[LeaveGroupRequestMember] = EMPTY,  # version >= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is EMPTY else members
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.group_id, pos = read_string(data, pos, flexible)
        if version <= 2:
            self.member_id, pos = read_string(data, pos, flexible)
        else:
            self.member_id = ""
        if version >= 3:
            self.members, pos = read_array(data, pos, version, flexible, LeaveGroupRequestMember.read_from)
        else:
            self.members = []
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
        if version <= 2:
            write_string(write, self.member_id, flexible)
        if version >= 3:
            write_array(write, self.members, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class LeaveGroupResponseMember(WireStruct):
    """An element of `members`."""

    __slots__ = ("member_id", "group_instance_id", "error_code")

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.member_id, pos = read_string(data, pos, flexible)
        self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
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
        flexible = version >= 4
        write_string(write, self.member_id, flexible)
        write_nullable_string(write, self.group_instance_id, flexible)
        write(pack_h(self.error_code))
        if flexible:
            write_tags(write, self.unknown_tags)


class LeaveGroupResponse(Response):
    """LeaveGroupResponse, version 0 to 5."""

    __slots__ = ("throttle_time_ms", "error_code", "members")

    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 1
        error_code: int = 0,
        members: list[LeaveGroupResponseMember] = EMPTY,  # version >= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is EMPTY else members
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
        if version >= 3:
            self.members, pos = read_array(data, pos, version, flexible, LeaveGroupResponseMember.read_from)
        else:
            self.members = []
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
        if version >= 3:
            write_array(write, self.members, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
