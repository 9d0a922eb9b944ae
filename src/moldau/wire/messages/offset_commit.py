"""OffsetCommit: stores how far a consumer group has read.

Generated from definitions/08_offset_commit.def; change that, not this.
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
    read_nullable_string,
    read_string,
    read_tags,
    write_array,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_iq = Struct(">iq").unpack_from
unpack_q = Struct(">q").unpack_from
pack_16s = Struct(">16s").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_iq = Struct(">iq").pack
pack_q = Struct(">q").pack


class OffsetCommitRequestPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,  # version >= 6
        committed_metadata: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 8
        self.partition_index, self.committed_offset = unpack_iq(data, pos)
        pos += 12
        if version >= 6:
            (self.committed_leader_epoch,) = unpack_i(data, pos)
            pos += 4
        else:
            self.committed_leader_epoch = -1
        self.committed_metadata, pos = read_nullable_string(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 8
        write(pack_iq(self.partition_index, self.committed_offset))
        if version >= 6:
            write(pack_i(self.committed_leader_epoch))
        write_nullable_string(write, self.committed_metadata, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetCommitRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    def __init__(
        self,
        *,
        name: str = "",  # version <= 9
        topic_id: bytes = ZERO_UUID,  # version >= 10
        partitions: list[OffsetCommitRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 8
        if version <= 9:
            self.name, pos = read_string(data, pos, flexible)
        else:
            self.name = ""
        if version >= 10:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        self.partitions, pos = read_array(data, pos, version, flexible, OffsetCommitRequestPartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 8
        if version <= 9:
            write_string(write, self.name, flexible)
        if version >= 10:
            write(pack_16s(self.topic_id))
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetCommitRequest(Request):
    """OffsetCommitRequest, version 2 to 10."""

    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
    )

    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_FROM = 8

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,  # version >= 7
        retention_time_ms: int = -1,  # version <= 4
        topics: list[OffsetCommitRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 8
        self.group_id, pos = read_string(data, pos, flexible)
        (self.generation_id_or_member_epoch,) = unpack_i(data, pos)
        pos += 4
        self.member_id, pos = read_string(data, pos, flexible)
        if version >= 7:
            self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.group_instance_id = None
        if version <= 4:
            (self.retention_time_ms,) = unpack_q(data, pos)
            pos += 8
        else:
            self.retention_time_ms = -1
        self.topics, pos = read_array(data, pos, version, flexible, OffsetCommitRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 8
        write_string(write, self.group_id, flexible)
        write(pack_i(self.generation_id_or_member_epoch))
        write_string(write, self.member_id, flexible)
        if version >= 7:
            write_nullable_string(write, self.group_instance_id, flexible)
        if version <= 4:
            write(pack_q(self.retention_time_ms))
        write_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetCommitResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 8
        self.partition_index, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 8
        write(pack_ih(self.partition_index, self.error_code))
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetCommitResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    def __init__(
        self,
        *,
        name: str = "",  # version <= 9
        topic_id: bytes = ZERO_UUID,  # version >= 10
        partitions: list[OffsetCommitResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 8
        if version <= 9:
            self.name, pos = read_string(data, pos, flexible)
        else:
            self.name = ""
        if version >= 10:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        self.partitions, pos = read_array(data, pos, version, flexible, OffsetCommitResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 8
        if version <= 9:
            write_string(write, self.name, flexible)
        if version >= 10:
            write(pack_16s(self.topic_id))
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetCommitResponse(Response):
    """OffsetCommitResponse, version 2 to 10."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_FROM = 8

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 3
        topics: list[OffsetCommitResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 8
        if version >= 3:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        self.topics, pos = read_array(data, pos, version, flexible, OffsetCommitResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 8
        if version >= 3:
            write(pack_i(self.throttle_time_ms))
        write_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
