"""What consumers put into the opaque bytes of JoinGroup and SyncGroup. An int16 version goes before each.

Generated from definitions/data/consumer_protocol.def; change that, not this.
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
    read_nullable_bytes,
    read_nullable_string,
    read_numbers,
    read_string,
    read_strings,
    write_array,
    write_nullable_bytes,
    write_nullable_string,
    write_numbers,
    write_string,
    write_strings,
)

unpack_i = Struct(">i").unpack_from
pack_i = Struct(">i").pack


class ConsumerProtocolSubscriptionTopicPartitions(WireStruct):
    """An element of `owned_partitions`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic, pos = read_string(data, pos, False)
        self.partitions, pos = read_numbers(data, pos, False, "i")
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic, False)
        write_numbers(write, self.partitions, False, "i")


class ConsumerProtocolSubscription(Message):
    """ConsumerProtocolSubscription, version 0 to 3."""

    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")

    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        topics: list[str] = EMPTY,
        user_data: bytes | None = None,
        owned_partitions: list[ConsumerProtocolSubscriptionTopicPartitions] = EMPTY,  # version >= 1
        generation_id: int = -1,  # version >= 2
        rack_id: str | None = None,  # version >= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is EMPTY else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topics, pos = read_strings(data, pos, False)
        self.user_data, pos = read_nullable_bytes(data, pos, False)
        if version >= 1:
            self.owned_partitions, pos = read_array(
                data, pos, version, False, ConsumerProtocolSubscriptionTopicPartitions.read_from
            )
        else:
            self.owned_partitions = []
        if version >= 2:
            (self.generation_id,) = unpack_i(data, pos)
            pos += 4
        else:
            self.generation_id = -1
        if version >= 3:
            self.rack_id, pos = read_nullable_string(data, pos, False)
        else:
            self.rack_id = None
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_strings(write, self.topics, False)
        write_nullable_bytes(write, self.user_data, False)
        if version >= 1:
            write_array(write, self.owned_partitions, version, False)
        if version >= 2:
            write(pack_i(self.generation_id))
        if version >= 3:
            write_nullable_string(write, self.rack_id, False)


class ConsumerProtocolAssignmentTopicPartitions(WireStruct):
    """An element of `assigned_partitions`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic, pos = read_string(data, pos, False)
        self.partitions, pos = read_numbers(data, pos, False, "i")
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic, False)
        write_numbers(write, self.partitions, False, "i")


class ConsumerProtocolAssignment(Message):
    """ConsumerProtocolAssignment, version 0 to 3."""

    __slots__ = ("assigned_partitions", "user_data")

    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        assigned_partitions: list[ConsumerProtocolAssignmentTopicPartitions] = EMPTY,
        user_data: bytes | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is EMPTY else assigned_partitions
        self.user_data = user_data
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.assigned_partitions, pos = read_array(
            data, pos, version, False, ConsumerProtocolAssignmentTopicPartitions.read_from
        )
        self.user_data, pos = read_nullable_bytes(data, pos, False)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_array(write, self.assigned_partitions, version, False)
        write_nullable_bytes(write, self.user_data, False)
