"""TxnOffsetCommit: stores group offsets that take effect when the transaction commits.

Generated from definitions/28_txn_offset_commit.def; change that, not this.
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
    read_string,
    read_tags,
    write_array,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_iq = Struct(">iq").unpack_from
unpack_qh = Struct(">qh").unpack_from
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_iq = Struct(">iq").pack
pack_qh = Struct(">qh").pack


class TxnOffsetCommitRequestPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,  # version >= 2
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
        flexible = version >= 3
        self.partition_index, self.committed_offset = unpack_iq(data, pos)
        pos += 12
        if version >= 2:
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
        flexible = version >= 3
        write(pack_iq(self.partition_index, self.committed_offset))
        if version >= 2:
            write(pack_i(self.committed_leader_epoch))
        write_nullable_string(write, self.committed_metadata, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class TxnOffsetCommitRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[TxnOffsetCommitRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.name, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_array(data, pos, version, flexible, TxnOffsetCommitRequestPartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write_string(write, self.name, flexible)
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class TxnOffsetCommitRequest(Request):
    """TxnOffsetCommitRequest, version 0 to 5."""

    __slots__ = (
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        "generation_id",
        "member_id",
        "group_instance_id",
        "topics",
    )

    API_KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,  # version >= 3
        member_id: str = "",  # version >= 3
        group_instance_id: str | None = None,  # version >= 3
        topics: list[TxnOffsetCommitRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.transactional_id, pos = read_string(data, pos, flexible)
        self.group_id, pos = read_string(data, pos, flexible)
        self.producer_id, self.producer_epoch = unpack_qh(data, pos)
        pos += 10
        if version >= 3:
            (self.generation_id,) = unpack_i(data, pos)
            pos += 4
            self.member_id, pos = read_string(data, pos, flexible)
            self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.generation_id = -1
            self.member_id = ""
            self.group_instance_id = None
        self.topics, pos = read_array(data, pos, version, flexible, TxnOffsetCommitRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write_string(write, self.transactional_id, flexible)
        write_string(write, self.group_id, flexible)
        write(pack_qh(self.producer_id, self.producer_epoch))
        if version >= 3:
            write(pack_i(self.generation_id))
            write_string(write, self.member_id, flexible)
            write_nullable_string(write, self.group_instance_id, flexible)
        write_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class TxnOffsetCommitResponsePartition(WireStruct):
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
        flexible = version >= 3
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
        flexible = version >= 3
        write(pack_ih(self.partition_index, self.error_code))
        if flexible:
            write_tags(write, self.unknown_tags)


class TxnOffsetCommitResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[TxnOffsetCommitResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.name, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_array(data, pos, version, flexible, TxnOffsetCommitResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write_string(write, self.name, flexible)
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class TxnOffsetCommitResponse(Response):
    """TxnOffsetCommitResponse, version 0 to 5."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 28
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.topics, pos = read_array(data, pos, version, flexible, TxnOffsetCommitResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
