"""DescribeTopicPartitions: describes topics page by page, for clusters too large for one Metadata answer.

Generated from definitions/75_describe_topic_partitions.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response, WireStruct
from moldau.wire.primitives import (
    EMPTY,
    NO_TAGS,
    ZERO_UUID,
    Data,
    Write,
    read_array,
    read_nullable_numbers,
    read_nullable_string,
    read_nullable_struct,
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_nullable_numbers,
    write_nullable_string,
    write_nullable_struct,
    write_numbers,
    write_string,
    write_tags,
)

unpack_16st = Struct(">16s?").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_hiii = Struct(">hiii").unpack_from
unpack_i = Struct(">i").unpack_from
pack_16st = Struct(">16s?").pack
pack_h = Struct(">h").pack
pack_hiii = Struct(">hiii").pack
pack_i = Struct(">i").pack


class DescribeTopicPartitionsRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name",)

    def __init__(
        self,
        *,
        name: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_tags(write, self.unknown_tags)


class DescribeTopicPartitionsRequestCursor(WireStruct):
    """What is in `cursor`."""

    __slots__ = ("topic_name", "partition_index")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic_name, pos = read_string(data, pos, True)
        (self.partition_index,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic_name, True)
        write(pack_i(self.partition_index))
        write_tags(write, self.unknown_tags)


class DescribeTopicPartitionsRequest(Request):
    """DescribeTopicPartitionsRequest, version 0."""

    __slots__ = ("topics", "response_partition_limit", "cursor")

    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[DescribeTopicPartitionsRequestTopic] = EMPTY,
        response_partition_limit: int = 2000,
        cursor: DescribeTopicPartitionsRequestCursor | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topics, pos = read_array(data, pos, version, True, DescribeTopicPartitionsRequestTopic.read_from)
        (self.response_partition_limit,) = unpack_i(data, pos)
        pos += 4
        self.cursor, pos = read_nullable_struct(data, pos, version, DescribeTopicPartitionsRequestCursor.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_array(write, self.topics, version, True)
        write(pack_i(self.response_partition_limit))
        write_nullable_struct(write, self.cursor, version)
        write_tags(write, self.unknown_tags)


class DescribeTopicPartitionsResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "eligible_leader_replicas",
        "last_known_elr",
        "offline_replicas",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = EMPTY,
        isr_nodes: list[int] = EMPTY,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is EMPTY else replica_nodes
        self.isr_nodes = [] if isr_nodes is EMPTY else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = [] if offline_replicas is EMPTY else offline_replicas
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.error_code, self.partition_index, self.leader_id, self.leader_epoch = unpack_hiii(data, pos)
        pos += 14
        self.replica_nodes, pos = read_numbers(data, pos, True, "i")
        self.isr_nodes, pos = read_numbers(data, pos, True, "i")
        self.eligible_leader_replicas, pos = read_nullable_numbers(data, pos, True, "i")
        self.last_known_elr, pos = read_nullable_numbers(data, pos, True, "i")
        self.offline_replicas, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_hiii(self.error_code, self.partition_index, self.leader_id, self.leader_epoch))
        write_numbers(write, self.replica_nodes, True, "i")
        write_numbers(write, self.isr_nodes, True, "i")
        write_nullable_numbers(write, self.eligible_leader_replicas, True, "i")
        write_nullable_numbers(write, self.last_known_elr, True, "i")
        write_numbers(write, self.offline_replicas, True, "i")
        write_tags(write, self.unknown_tags)


class DescribeTopicPartitionsResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = EMPTY,
        topic_authorized_operations: int = -2147483648,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is EMPTY else partitions
        self.topic_authorized_operations = topic_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.name, pos = read_nullable_string(data, pos, True)
        self.topic_id, self.is_internal = unpack_16st(data, pos)
        pos += 17
        self.partitions, pos = read_array(data, pos, version, True, DescribeTopicPartitionsResponsePartition.read_from)
        (self.topic_authorized_operations,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_h(self.error_code))
        write_nullable_string(write, self.name, True)
        write(pack_16st(self.topic_id, self.is_internal))
        write_array(write, self.partitions, version, True)
        write(pack_i(self.topic_authorized_operations))
        write_tags(write, self.unknown_tags)


class DescribeTopicPartitionsResponseCursor(WireStruct):
    """What is in `next_cursor`."""

    __slots__ = ("topic_name", "partition_index")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic_name, pos = read_string(data, pos, True)
        (self.partition_index,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic_name, True)
        write(pack_i(self.partition_index))
        write_tags(write, self.unknown_tags)


class DescribeTopicPartitionsResponse(Response):
    """DescribeTopicPartitionsResponse, version 0."""

    __slots__ = ("throttle_time_ms", "topics", "next_cursor")

    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = EMPTY,
        next_cursor: DescribeTopicPartitionsResponseCursor | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.next_cursor = next_cursor
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.topics, pos = read_array(data, pos, version, True, DescribeTopicPartitionsResponseTopic.read_from)
        self.next_cursor, pos = read_nullable_struct(
            data, pos, version, DescribeTopicPartitionsResponseCursor.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.topics, version, True)
        write_nullable_struct(write, self.next_cursor, version)
        write_tags(write, self.unknown_tags)
