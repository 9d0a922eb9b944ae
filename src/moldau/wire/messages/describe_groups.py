"""DescribeGroups: describes classic groups: state, protocol, members.

Generated from definitions/15_describe_groups.def; change that, not this.
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
    read_strings,
    read_tags,
    write_array,
    write_bytes,
    write_nullable_string,
    write_string,
    write_strings,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_t = Struct(">?").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_t = Struct(">?").pack


class DescribeGroupsRequest(Request):
    """DescribeGroupsRequest, version 0 to 6."""

    __slots__ = ("groups", "include_authorized_operations")

    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        groups: list[str] = EMPTY,
        include_authorized_operations: bool = False,  # version >= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.groups = [] if groups is EMPTY else groups
        self.include_authorized_operations = include_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 5
        self.groups, pos = read_strings(data, pos, flexible)
        if version >= 3:
            (self.include_authorized_operations,) = unpack_t(data, pos)
            pos += 1
        else:
            self.include_authorized_operations = False
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 5
        write_strings(write, self.groups, flexible)
        if version >= 3:
            write(pack_t(self.include_authorized_operations))
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeGroupsResponseMember(WireStruct):
    """An element of `members`."""

    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment")

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,  # version >= 4
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 5
        self.member_id, pos = read_string(data, pos, flexible)
        if version >= 4:
            self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.group_instance_id = None
        self.client_id, pos = read_string(data, pos, flexible)
        self.client_host, pos = read_string(data, pos, flexible)
        self.member_metadata, pos = read_bytes(data, pos, flexible)
        self.member_assignment, pos = read_bytes(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 5
        write_string(write, self.member_id, flexible)
        if version >= 4:
            write_nullable_string(write, self.group_instance_id, flexible)
        write_string(write, self.client_id, flexible)
        write_string(write, self.client_host, flexible)
        write_bytes(write, self.member_metadata, flexible)
        write_bytes(write, self.member_assignment, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeGroupsResponseGroup(WireStruct):
    """An element of `groups`."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,  # version >= 6
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribeGroupsResponseMember] = EMPTY,
        authorized_operations: int = -2147483648,  # version >= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is EMPTY else members
        self.authorized_operations = authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 5
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        if version >= 6:
            self.error_message, pos = read_nullable_string(data, pos, flexible)
        else:
            self.error_message = None
        self.group_id, pos = read_string(data, pos, flexible)
        self.group_state, pos = read_string(data, pos, flexible)
        self.protocol_type, pos = read_string(data, pos, flexible)
        self.protocol_data, pos = read_string(data, pos, flexible)
        self.members, pos = read_array(data, pos, version, flexible, DescribeGroupsResponseMember.read_from)
        if version >= 3:
            (self.authorized_operations,) = unpack_i(data, pos)
            pos += 4
        else:
            self.authorized_operations = -2147483648
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 5
        write(pack_h(self.error_code))
        if version >= 6:
            write_nullable_string(write, self.error_message, flexible)
        write_string(write, self.group_id, flexible)
        write_string(write, self.group_state, flexible)
        write_string(write, self.protocol_type, flexible)
        write_string(write, self.protocol_data, flexible)
        write_array(write, self.members, version, flexible)
        if version >= 3:
            write(pack_i(self.authorized_operations))
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeGroupsResponse(Response):
    """DescribeGroupsResponse, version 0 to 6."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 1
        groups: list[DescribeGroupsResponseGroup] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is EMPTY else groups
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 5
        if version >= 1:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        self.groups, pos = read_array(data, pos, version, flexible, DescribeGroupsResponseGroup.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 5
        if version >= 1:
            write(pack_i(self.throttle_time_ms))
        write_array(write, self.groups, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
