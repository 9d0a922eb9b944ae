"""A classic group in __consumer_offsets; key type 2.

Generated from definitions/stored/group_metadata.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Message, WireStruct
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

unpack_i = Struct(">i").unpack_from
unpack_q = Struct(">q").unpack_from
pack_i = Struct(">i").pack
pack_q = Struct(">q").pack


class GroupMetadataKey(Message):
    """GroupMetadataKey, version 2."""

    __slots__ = ("group",)

    MIN_VERSION = 2
    MAX_VERSION = 2
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group = group
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group, pos = read_string(data, pos, False)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group, False)


class GroupMetadataValueMember(WireStruct):
    """An element of `members`."""

    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "rebalance_timeout",
        "session_timeout",
        "subscription",
        "assignment",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,  # version >= 3
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = -1,  # version >= 1
        session_timeout: int = 0,
        subscription: bytes = b"",
        assignment: bytes = b"",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.member_id, pos = read_string(data, pos, flexible)
        if version >= 3:
            self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.group_instance_id = None
        self.client_id, pos = read_string(data, pos, flexible)
        self.client_host, pos = read_string(data, pos, flexible)
        if version >= 1:
            (self.rebalance_timeout,) = unpack_i(data, pos)
            pos += 4
        else:
            self.rebalance_timeout = -1
        (self.session_timeout,) = unpack_i(data, pos)
        pos += 4
        self.subscription, pos = read_bytes(data, pos, flexible)
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
        if version >= 3:
            write_nullable_string(write, self.group_instance_id, flexible)
        write_string(write, self.client_id, flexible)
        write_string(write, self.client_host, flexible)
        if version >= 1:
            write(pack_i(self.rebalance_timeout))
        write(pack_i(self.session_timeout))
        write_bytes(write, self.subscription, flexible)
        write_bytes(write, self.assignment, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class GroupMetadataValue(Message):
    """GroupMetadataValue, version 0 to 4."""

    __slots__ = ("protocol_type", "generation", "protocol", "leader", "current_state_timestamp", "members")

    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = -1,  # version >= 2
        members: list[GroupMetadataValueMember] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = [] if members is EMPTY else members
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.protocol_type, pos = read_string(data, pos, flexible)
        (self.generation,) = unpack_i(data, pos)
        pos += 4
        self.protocol, pos = read_nullable_string(data, pos, flexible)
        self.leader, pos = read_nullable_string(data, pos, flexible)
        if version >= 2:
            (self.current_state_timestamp,) = unpack_q(data, pos)
            pos += 8
        else:
            self.current_state_timestamp = -1
        self.members, pos = read_array(data, pos, version, flexible, GroupMetadataValueMember.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write_string(write, self.protocol_type, flexible)
        write(pack_i(self.generation))
        write_nullable_string(write, self.protocol, flexible)
        write_nullable_string(write, self.leader, flexible)
        if version >= 2:
            write(pack_q(self.current_state_timestamp))
        write_array(write, self.members, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
