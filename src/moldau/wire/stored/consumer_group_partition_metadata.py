"""The topics a consumer group knows, in __consumer_offsets; key type 4.

Generated from definitions/stored/consumer_group_partition_metadata.def; change that, not this.
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
    read_string,
    read_strings,
    read_tags,
    write_array,
    write_string,
    write_strings,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_i = Struct(">i").unpack_from
pack_16s = Struct(">16s").pack
pack_i = Struct(">i").pack


class ConsumerGroupPartitionMetadataKey(Message):
    """ConsumerGroupPartitionMetadataKey, version 4."""

    __slots__ = ("group_id",)

    MIN_VERSION = 4
    MAX_VERSION = 4
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group_id: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, False)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, False)


class ConsumerGroupPartitionMetadataValuePartition(WireStruct):
    """An element of `partition_metadata`."""

    __slots__ = ("partition", "racks")

    def __init__(
        self,
        *,
        partition: int = 0,
        racks: list[str] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition = partition
        self.racks = [] if racks is EMPTY else racks
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.partition,) = unpack_i(data, pos)
        pos += 4
        self.racks, pos = read_strings(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.partition))
        write_strings(write, self.racks, True)
        write_tags(write, self.unknown_tags)


class ConsumerGroupPartitionMetadataValueTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic_id", "topic_name", "num_partitions", "partition_metadata")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: list[ConsumerGroupPartitionMetadataValuePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata = [] if partition_metadata is EMPTY else partition_metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.topic_id,) = unpack_16s(data, pos)
        pos += 16
        self.topic_name, pos = read_string(data, pos, True)
        (self.num_partitions,) = unpack_i(data, pos)
        pos += 4
        self.partition_metadata, pos = read_array(
            data, pos, version, True, ConsumerGroupPartitionMetadataValuePartition.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_16s(self.topic_id))
        write_string(write, self.topic_name, True)
        write(pack_i(self.num_partitions))
        write_array(write, self.partition_metadata, version, True)
        write_tags(write, self.unknown_tags)


class ConsumerGroupPartitionMetadataValue(Message):
    """ConsumerGroupPartitionMetadataValue, version 0."""

    __slots__ = ("topics",)

    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[ConsumerGroupPartitionMetadataValueTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topics, pos = read_array(data, pos, version, True, ConsumerGroupPartitionMetadataValueTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)
