"""ListOffsets: finds offsets by timestamp, or by a special one: earliest, latest, largest timestamp and the like.

Generated from definitions/02_list_offsets.def; change that, not this.
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
    read_string,
    read_tags,
    write_array,
    write_string,
    write_tags,
)

unpack_b = Struct(">b").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ihqq = Struct(">ihqq").unpack_from
unpack_q = Struct(">q").unpack_from
pack_b = Struct(">b").pack
pack_i = Struct(">i").pack
pack_ihqq = Struct(">ihqq").pack
pack_q = Struct(">q").pack


class ListOffsetsRequestPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,  # version >= 4
        timestamp: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        (self.partition_index,) = unpack_i(data, pos)
        pos += 4
        if version >= 4:
            (self.current_leader_epoch,) = unpack_i(data, pos)
            pos += 4
        else:
            self.current_leader_epoch = -1
        (self.timestamp,) = unpack_q(data, pos)
        pos += 8
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        write(pack_i(self.partition_index))
        if version >= 4:
            write(pack_i(self.current_leader_epoch))
        write(pack_q(self.timestamp))
        if flexible:
            write_tags(write, self.unknown_tags)


class ListOffsetsRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        self.name, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_array(data, pos, version, flexible, ListOffsetsRequestPartition.read_from)
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
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ListOffsetsRequest(Request):
    """ListOffsetsRequest, version 1 to 11."""

    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")

    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,  # version >= 2
        topics: list[ListOffsetsRequestTopic] = EMPTY,
        timeout_ms: int = 0,  # version >= 10
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        (self.replica_id,) = unpack_i(data, pos)
        pos += 4
        if version >= 2:
            (self.isolation_level,) = unpack_b(data, pos)
            pos += 1
        else:
            self.isolation_level = 0
        self.topics, pos = read_array(data, pos, version, flexible, ListOffsetsRequestTopic.read_from)
        if version >= 10:
            (self.timeout_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.timeout_ms = 0
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        write(pack_i(self.replica_id))
        if version >= 2:
            write(pack_b(self.isolation_level))
        write_array(write, self.topics, version, flexible)
        if version >= 10:
            write(pack_i(self.timeout_ms))
        if flexible:
            write_tags(write, self.unknown_tags)


class ListOffsetsResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,  # version >= 4
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        self.partition_index, self.error_code, self.timestamp, self.offset = unpack_ihqq(data, pos)
        pos += 22
        if version >= 4:
            (self.leader_epoch,) = unpack_i(data, pos)
            pos += 4
        else:
            self.leader_epoch = -1
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        write(pack_ihqq(self.partition_index, self.error_code, self.timestamp, self.offset))
        if version >= 4:
            write(pack_i(self.leader_epoch))
        if flexible:
            write_tags(write, self.unknown_tags)


class ListOffsetsResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        self.name, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_array(data, pos, version, flexible, ListOffsetsResponsePartition.read_from)
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
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ListOffsetsResponse(Response):
    """ListOffsetsResponse, version 1 to 11."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 2
        topics: list[ListOffsetsResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
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
        self.topics, pos = read_array(data, pos, version, flexible, ListOffsetsResponseTopic.read_from)
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
        write_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
