"""AlterPartitionReassignments: starts or cancels moving partitions to other brokers.

Generated from definitions/45_alter_partition_reassignments.def; change that, not this.
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
    read_nullable_numbers,
    read_nullable_string,
    read_string,
    read_tags,
    write_array,
    write_nullable_numbers,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_t = Struct(">?").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_t = Struct(">?").pack


class AlterPartitionReassignmentsRequestPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "replicas")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.partition_index,) = unpack_i(data, pos)
        pos += 4
        self.replicas, pos = read_nullable_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.partition_index))
        write_nullable_numbers(write, self.replicas, True, "i")
        write_tags(write, self.unknown_tags)


class AlterPartitionReassignmentsRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[AlterPartitionReassignmentsRequestPartition] = EMPTY,
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
            data, pos, version, True, AlterPartitionReassignmentsRequestPartition.read_from
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


class AlterPartitionReassignmentsRequest(Request):
    """AlterPartitionReassignmentsRequest, version 0 to 1."""

    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics")

    API_KEY = 45
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,  # version >= 1
        topics: list[AlterPartitionReassignmentsRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.timeout_ms,) = unpack_i(data, pos)
        pos += 4
        if version >= 1:
            (self.allow_replication_factor_change,) = unpack_t(data, pos)
            pos += 1
        else:
            self.allow_replication_factor_change = True
        self.topics, pos = read_array(data, pos, version, True, AlterPartitionReassignmentsRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.timeout_ms))
        if version >= 1:
            write(pack_t(self.allow_replication_factor_change))
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class AlterPartitionReassignmentsResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "error_code", "error_message")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.partition_index, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_tags(write, self.unknown_tags)


class AlterPartitionReassignmentsResponseTopic(WireStruct):
    """An element of `responses`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[AlterPartitionReassignmentsResponsePartition] = EMPTY,
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
            data, pos, version, True, AlterPartitionReassignmentsResponsePartition.read_from
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


class AlterPartitionReassignmentsResponse(Response):
    """AlterPartitionReassignmentsResponse, version 0 to 1."""

    __slots__ = ("throttle_time_ms", "allow_replication_factor_change", "error_code", "error_message", "responses")

    API_KEY = 45
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,  # version >= 1
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[AlterPartitionReassignmentsResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is EMPTY else responses
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        if version >= 1:
            (self.allow_replication_factor_change,) = unpack_t(data, pos)
            pos += 1
        else:
            self.allow_replication_factor_change = True
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.responses, pos = read_array(data, pos, version, True, AlterPartitionReassignmentsResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.throttle_time_ms))
        if version >= 1:
            write(pack_t(self.allow_replication_factor_change))
        write(pack_h(self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_array(write, self.responses, version, True)
        write_tags(write, self.unknown_tags)
