"""OffsetForLeaderEpoch: returns where a leader epoch ended in the log, so that a reader can find where it diverged.

Generated from definitions/23_offset_for_leader_epoch.def; change that, not this.
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

unpack_hiiq = Struct(">hiiq").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_iii = Struct(">iii").unpack_from
pack_hiiq = Struct(">hiiq").pack
pack_i = Struct(">i").pack
pack_iii = Struct(">iii").pack


class OffsetForLeaderEpochRequestPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.partition, self.current_leader_epoch, self.leader_epoch = unpack_iii(data, pos)
        pos += 12
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write(pack_iii(self.partition, self.current_leader_epoch, self.leader_epoch))
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetForLeaderEpochRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[OffsetForLeaderEpochRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.topic, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_array(data, pos, version, flexible, OffsetForLeaderEpochRequestPartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write_string(write, self.topic, flexible)
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetForLeaderEpochRequest(Request):
    """OffsetForLeaderEpochRequest, version 2 to 4."""

    __slots__ = ("replica_id", "topics")

    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        replica_id: int = -2,  # version >= 3
        topics: list[OffsetForLeaderEpochRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        if version >= 3:
            (self.replica_id,) = unpack_i(data, pos)
            pos += 4
        else:
            self.replica_id = -2
        self.topics, pos = read_array(data, pos, version, flexible, OffsetForLeaderEpochRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        if version >= 3:
            write(pack_i(self.replica_id))
        write_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetForLeaderEpochResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.error_code, self.partition, self.leader_epoch, self.end_offset = unpack_hiiq(data, pos)
        pos += 18
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write(pack_hiiq(self.error_code, self.partition, self.leader_epoch, self.end_offset))
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetForLeaderEpochResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[OffsetForLeaderEpochResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.topic, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_array(data, pos, version, flexible, OffsetForLeaderEpochResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write_string(write, self.topic, flexible)
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetForLeaderEpochResponse(Response):
    """OffsetForLeaderEpochResponse, version 2 to 4."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderEpochResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.topics, pos = read_array(data, pos, version, flexible, OffsetForLeaderEpochResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
