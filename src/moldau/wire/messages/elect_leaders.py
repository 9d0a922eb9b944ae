"""ElectLeaders: makes the preferred, or any live, replica the leader of partitions.

Generated from definitions/43_elect_leaders.def; change that, not this.
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

unpack_b = Struct(">b").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_b = Struct(">b").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack


class ElectLeadersRequestTopicPartitions(WireStruct):
    """An element of `topic_partitions`."""

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
        flexible = version >= 2
        self.topic, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_numbers(data, pos, flexible, "i")
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_string(write, self.topic, flexible)
        write_numbers(write, self.partitions, flexible, "i")
        if flexible:
            write_tags(write, self.unknown_tags)


class ElectLeadersRequest(Request):
    """ElectLeadersRequest, version 0 to 2."""

    __slots__ = ("election_type", "topic_partitions", "timeout_ms")

    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        election_type: int = 0,  # version >= 1
        topic_partitions: list[ElectLeadersRequestTopicPartitions] | None = EMPTY,
        timeout_ms: int = 60000,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        if version >= 1:
            (self.election_type,) = unpack_b(data, pos)
            pos += 1
        else:
            self.election_type = 0
        self.topic_partitions, pos = read_nullable_array(
            data, pos, version, flexible, ElectLeadersRequestTopicPartitions.read_from
        )
        (self.timeout_ms,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        if version >= 1:
            write(pack_b(self.election_type))
        write_nullable_array(write, self.topic_partitions, version, flexible)
        write(pack_i(self.timeout_ms))
        if flexible:
            write_tags(write, self.unknown_tags)


class ElectLeadersResponsePartition(WireStruct):
    """An element of `partition_result`."""

    __slots__ = ("partition_id", "error_code", "error_message")

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.partition_id, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_ih(self.partition_id, self.error_code))
        write_nullable_string(write, self.error_message, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ElectLeadersResponseTopic(WireStruct):
    """An element of `replica_election_results`."""

    __slots__ = ("topic", "partition_result")

    def __init__(
        self,
        *,
        topic: str = "",
        partition_result: list[ElectLeadersResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is EMPTY else partition_result
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.topic, pos = read_string(data, pos, flexible)
        self.partition_result, pos = read_array(data, pos, version, flexible, ElectLeadersResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_string(write, self.topic, flexible)
        write_array(write, self.partition_result, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ElectLeadersResponse(Response):
    """ElectLeadersResponse, version 0 to 2."""

    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")

    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,  # version >= 1
        replica_election_results: list[ElectLeadersResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = [] if replica_election_results is EMPTY else replica_election_results
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        if version >= 1:
            (self.error_code,) = unpack_h(data, pos)
            pos += 2
        else:
            self.error_code = 0
        self.replica_election_results, pos = read_array(
            data, pos, version, flexible, ElectLeadersResponseTopic.read_from
        )
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_i(self.throttle_time_ms))
        if version >= 1:
            write(pack_h(self.error_code))
        write_array(write, self.replica_election_results, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
