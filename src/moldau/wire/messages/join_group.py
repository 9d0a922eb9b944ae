"""JoinGroup: makes a consumer a member of a classic group, and starts or joins its rebalance.

Generated from definitions/11_join_group.def; change that, not this.
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
    require,
    write_array,
    write_bytes,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_hi = Struct(">hi").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_t = Struct(">?").unpack_from
pack_hi = Struct(">hi").pack
pack_i = Struct(">i").pack
pack_t = Struct(">?").pack


class JoinGroupRequestProtocol(WireStruct):
    """An element of `protocols`."""

    __slots__ = ("name", "metadata")

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b"",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.metadata = metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        self.name, pos = read_string(data, pos, flexible)
        self.metadata, pos = read_bytes(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        write_string(write, self.name, flexible)
        write_bytes(write, self.metadata, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class JoinGroupRequest(Request):
    """JoinGroupRequest, version 0 to 9."""

    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    )

    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,  # version >= 1
        member_id: str = "",
        group_instance_id: str | None = None,  # version >= 5
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] = EMPTY,
        reason: str | None = None,  # version >= 8
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is EMPTY else protocols
        self.reason = reason
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        self.group_id, pos = read_string(data, pos, flexible)
        (self.session_timeout_ms,) = unpack_i(data, pos)
        pos += 4
        if version >= 1:
            (self.rebalance_timeout_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.rebalance_timeout_ms = -1
        self.member_id, pos = read_string(data, pos, flexible)
        if version >= 5:
            self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.group_instance_id = None
        self.protocol_type, pos = read_string(data, pos, flexible)
        self.protocols, pos = read_array(data, pos, version, flexible, JoinGroupRequestProtocol.read_from)
        if version >= 8:
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
        flexible = version >= 6
        write_string(write, self.group_id, flexible)
        write(pack_i(self.session_timeout_ms))
        if version >= 1:
            write(pack_i(self.rebalance_timeout_ms))
        write_string(write, self.member_id, flexible)
        if version >= 5:
            write_nullable_string(write, self.group_instance_id, flexible)
        write_string(write, self.protocol_type, flexible)
        write_array(write, self.protocols, version, flexible)
        if version >= 8:
            write_nullable_string(write, self.reason, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class JoinGroupResponseMember(WireStruct):
    """An element of `members`."""

    __slots__ = ("member_id", "group_instance_id", "metadata")

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,  # version >= 5
        metadata: bytes = b"",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        self.member_id, pos = read_string(data, pos, flexible)
        if version >= 5:
            self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.group_instance_id = None
        self.metadata, pos = read_bytes(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        write_string(write, self.member_id, flexible)
        if version >= 5:
            write_nullable_string(write, self.group_instance_id, flexible)
        write_bytes(write, self.metadata, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class JoinGroupResponse(Response):
    """JoinGroupResponse, version 0 to 9."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )

    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 2
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,  # version >= 7
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,  # version >= 9
        member_id: str = "",
        members: list[JoinGroupResponseMember] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = [] if members is EMPTY else members
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        if version >= 2:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        self.error_code, self.generation_id = unpack_hi(data, pos)
        pos += 6
        if version >= 7:
            self.protocol_type, pos = read_nullable_string(data, pos, flexible)
        else:
            self.protocol_type = None
        if version >= 7:
            self.protocol_name, pos = read_nullable_string(data, pos, flexible)
        else:
            self.protocol_name, pos = read_string(data, pos, flexible)
        self.leader, pos = read_string(data, pos, flexible)
        if version >= 9:
            (self.skip_assignment,) = unpack_t(data, pos)
            pos += 1
        else:
            self.skip_assignment = False
        self.member_id, pos = read_string(data, pos, flexible)
        self.members, pos = read_array(data, pos, version, flexible, JoinGroupResponseMember.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        if version >= 2:
            write(pack_i(self.throttle_time_ms))
        write(pack_hi(self.error_code, self.generation_id))
        if version >= 7:
            write_nullable_string(write, self.protocol_type, flexible)
        if version >= 7:
            write_nullable_string(write, self.protocol_name, flexible)
        else:
            write_string(write, require(self.protocol_name, "protocol_name", version), flexible)
        write_string(write, self.leader, flexible)
        if version >= 9:
            write(pack_t(self.skip_assignment))
        write_string(write, self.member_id, flexible)
        write_array(write, self.members, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
