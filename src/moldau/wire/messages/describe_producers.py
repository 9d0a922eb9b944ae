"""DescribeProducers: lists the producers that are active in partitions.

Generated from definitions/61_describe_producers.def; change that, not this.
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
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_nullable_string,
    write_numbers,
    write_string,
    write_tags,
)

unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_qiiqiq = Struct(">qiiqiq").unpack_from
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_qiiqiq = Struct(">qiiqiq").pack


class DescribeProducersRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.partition_indexes, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_numbers(write, self.partition_indexes, True, "i")
        write_tags(write, self.unknown_tags)


class DescribeProducersRequest(Request):
    """DescribeProducersRequest, version 0."""

    __slots__ = ("topics",)

    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[DescribeProducersRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topics, pos = read_array(data, pos, version, True, DescribeProducersRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class DescribeProducersResponseActiveProducer(WireStruct):
    """An element of `active_producers`."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (
            self.producer_id,
            self.producer_epoch,
            self.last_sequence,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_start_offset,
        ) = unpack_qiiqiq(data, pos)
        pos += 36
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(
            pack_qiiqiq(
                self.producer_id,
                self.producer_epoch,
                self.last_sequence,
                self.last_timestamp,
                self.coordinator_epoch,
                self.current_txn_start_offset,
            )
        )
        write_tags(write, self.unknown_tags)


class DescribeProducersResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "error_code", "error_message", "active_producers")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[DescribeProducersResponseActiveProducer] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = [] if active_producers is EMPTY else active_producers
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.active_producers, pos = read_array(
            data, pos, version, True, DescribeProducersResponseActiveProducer.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.partition_index, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_array(write, self.active_producers, version, True)
        write_tags(write, self.unknown_tags)


class DescribeProducersResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DescribeProducersResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.partitions, pos = read_array(data, pos, version, True, DescribeProducersResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_array(write, self.partitions, version, True)
        write_tags(write, self.unknown_tags)


class DescribeProducersResponse(Response):
    """DescribeProducersResponse, version 0."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeProducersResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.topics, pos = read_array(data, pos, version, True, DescribeProducersResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)
