"""ListPartitionReassignments: lists the partition moves under way.

Generated from definitions/46_list_partition_reassignments.def; change that, not this.
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
    read_nullable_array,
    read_nullable_string,
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_nullable_array,
    write_nullable_string,
    write_numbers,
    write_string,
    write_tags,
)

unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack


class ListPartitionReassignmentsRequestTopic(WireStruct):
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


class ListPartitionReassignmentsRequest(Request):
    """ListPartitionReassignmentsRequest, version 0."""

    __slots__ = ("timeout_ms", "topics")

    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsRequestTopic] | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.timeout_ms,) = unpack_i(data, pos)
        pos += 4
        self.topics, pos = read_nullable_array(
            data, pos, version, True, ListPartitionReassignmentsRequestTopic.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.timeout_ms))
        write_nullable_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class ListPartitionReassignmentsResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] = EMPTY,
        adding_replicas: list[int] = EMPTY,
        removing_replicas: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = [] if replicas is EMPTY else replicas
        self.adding_replicas = [] if adding_replicas is EMPTY else adding_replicas
        self.removing_replicas = [] if removing_replicas is EMPTY else removing_replicas
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.partition_index,) = unpack_i(data, pos)
        pos += 4
        self.replicas, pos = read_numbers(data, pos, True, "i")
        self.adding_replicas, pos = read_numbers(data, pos, True, "i")
        self.removing_replicas, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.partition_index))
        write_numbers(write, self.replicas, True, "i")
        write_numbers(write, self.adding_replicas, True, "i")
        write_numbers(write, self.removing_replicas, True, "i")
        write_tags(write, self.unknown_tags)


class ListPartitionReassignmentsResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListPartitionReassignmentsResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.partitions, pos = read_array(
            data, pos, version, True, ListPartitionReassignmentsResponsePartition.read_from
        )
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


class ListPartitionReassignmentsResponse(Response):
    """ListPartitionReassignmentsResponse, version 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")

    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[ListPartitionReassignmentsResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.topics, pos = read_array(data, pos, version, True, ListPartitionReassignmentsResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)
