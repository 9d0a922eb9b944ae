"""What a member of a consumer group owns now, in __consumer_offsets; key type 8.

Generated from definitions/stored/consumer_group_current_member_assignment.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Message, WireStruct
from moldau.wire.primitives import (
    EMPTY,
    NO_TAGS,
    ZERO_UUID,
    Data,
    Write,
    read_array,
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_numbers,
    write_string,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_iib = Struct(">iib").unpack_from
pack_16s = Struct(">16s").pack
pack_iib = Struct(">iib").pack


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """ConsumerGroupCurrentMemberAssignmentKey, version 8."""

    __slots__ = ("group_id", "member_id")

    MIN_VERSION = 8
    MAX_VERSION = 8
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, False)
        self.member_id, pos = read_string(data, pos, False)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, False)
        write_string(write, self.member_id, False)


class ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(WireStruct):
    """An element of `assigned_partitions` and `partitions_pending_revocation`."""

    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.topic_id,) = unpack_16s(data, pos)
        pos += 16
        self.partitions, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_16s(self.topic_id))
        write_numbers(write, self.partitions, True, "i")
        write_tags(write, self.unknown_tags)


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """ConsumerGroupCurrentMemberAssignmentValue, version 0."""

    __slots__ = (
        "member_epoch",
        "previous_member_epoch",
        "state",
        "assigned_partitions",
        "partitions_pending_revocation",
    )

    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions] = EMPTY,
        partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is EMPTY else assigned_partitions
        self.partitions_pending_revocation = (
            [] if partitions_pending_revocation is EMPTY else partitions_pending_revocation
        )
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.member_epoch, self.previous_member_epoch, self.state = unpack_iib(data, pos)
        pos += 9
        self.assigned_partitions, pos = read_array(
            data, pos, version, True, ConsumerGroupCurrentMemberAssignmentValueTopicPartitions.read_from
        )
        self.partitions_pending_revocation, pos = read_array(
            data, pos, version, True, ConsumerGroupCurrentMemberAssignmentValueTopicPartitions.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_iib(self.member_epoch, self.previous_member_epoch, self.state))
        write_array(write, self.assigned_partitions, version, True)
        write_array(write, self.partitions_pending_revocation, version, True)
        write_tags(write, self.unknown_tags)
