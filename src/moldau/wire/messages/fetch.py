"""Fetch: reads record batches from partitions, waiting for new ones where asked; consumers and followers both use it.

Generated from definitions/01_fetch.def; change that, not this.
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
    Buffer,
    Data,
    Write,
    content,
    read_array,
    read_nullable_array,
    read_nullable_records,
    read_nullable_string,
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_nullable_array,
    write_nullable_bytes,
    write_nullable_string,
    write_numbers,
    write_string,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_hi = Struct(">hi").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ihqq = Struct(">ihqq").unpack_from
unpack_ii = Struct(">ii").unpack_from
unpack_iiib = Struct(">iiib").unpack_from
unpack_iq = Struct(">iq").unpack_from
unpack_q = Struct(">q").unpack_from
unpack_qi = Struct(">qi").unpack_from
unpack_qq = Struct(">qq").unpack_from
pack_16s = Struct(">16s").pack
pack_hi = Struct(">hi").pack
pack_i = Struct(">i").pack
pack_ihqq = Struct(">ihqq").pack
pack_ii = Struct(">ii").pack
pack_iiib = Struct(">iiib").pack
pack_iq = Struct(">iq").pack
pack_q = Struct(">q").pack
pack_qi = Struct(">qi").pack
pack_qq = Struct(">qq").pack


class FetchRequestReplicaState(WireStruct):
    """What is in `replica_state`."""

    __slots__ = ("replica_id", "replica_epoch")

    def __init__(
        self,
        *,
        replica_id: int = -1,
        replica_epoch: int = -1,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.replica_id, self.replica_epoch = unpack_iq(data, pos)
        pos += 12
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_iq(self.replica_id, self.replica_epoch))
        write_tags(write, self.unknown_tags)


class FetchRequestPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = (
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
        "replica_directory_id",
        "high_watermark",
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,  # version >= 9
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,  # version >= 12
        log_start_offset: int = -1,  # version >= 5
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_UUID,  # version >= 17, tag 0
        high_watermark: int = 9223372036854775807,  # version >= 18, tag 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 12
        (self.partition,) = unpack_i(data, pos)
        pos += 4
        if version >= 9:
            (self.current_leader_epoch,) = unpack_i(data, pos)
            pos += 4
        else:
            self.current_leader_epoch = -1
        (self.fetch_offset,) = unpack_q(data, pos)
        pos += 8
        if version >= 12:
            (self.last_fetched_epoch,) = unpack_i(data, pos)
            pos += 4
        else:
            self.last_fetched_epoch = -1
        if version >= 5:
            (self.log_start_offset,) = unpack_q(data, pos)
            pos += 8
        else:
            self.log_start_offset = -1
        (self.partition_max_bytes,) = unpack_i(data, pos)
        pos += 4
        self.replica_directory_id = ZERO_UUID
        self.high_watermark = 9223372036854775807
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                tags, pos = read_tags(data, pos)
                if version >= 17 and (raw := tags.pop(0, None)) is not None:
                    (self.replica_directory_id,) = unpack_16s(raw)
                if version >= 18 and (raw := tags.pop(1, None)) is not None:
                    (self.high_watermark,) = unpack_q(raw)
                self.unknown_tags = tags
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 12
        write(pack_i(self.partition))
        if version >= 9:
            write(pack_i(self.current_leader_epoch))
        write(pack_q(self.fetch_offset))
        if version >= 12:
            write(pack_i(self.last_fetched_epoch))
        if version >= 5:
            write(pack_q(self.log_start_offset))
        write(pack_i(self.partition_max_bytes))
        if flexible:
            tags = dict(self.unknown_tags)
            if version >= 17 and self.replica_directory_id != ZERO_UUID:
                tags[0] = pack_16s(self.replica_directory_id)
            if version >= 18 and self.high_watermark != 9223372036854775807:
                tags[1] = pack_q(self.high_watermark)
            write_tags(write, tags)


class FetchRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic", "topic_id", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",  # version <= 12
        topic_id: bytes = ZERO_UUID,  # version >= 13
        partitions: list[FetchRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 12
        if version <= 12:
            self.topic, pos = read_string(data, pos, flexible)
        else:
            self.topic = ""
        if version >= 13:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        self.partitions, pos = read_array(data, pos, version, flexible, FetchRequestPartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 12
        if version <= 12:
            write_string(write, self.topic, flexible)
        if version >= 13:
            write(pack_16s(self.topic_id))
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class FetchRequestForgottenTopic(WireStruct):
    """An element of `forgotten_topics_data`."""

    __slots__ = ("topic", "topic_id", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",  # version <= 12
        topic_id: bytes = ZERO_UUID,  # version >= 13
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 12
        if version <= 12:
            self.topic, pos = read_string(data, pos, flexible)
        else:
            self.topic = ""
        if version >= 13:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        self.partitions, pos = read_numbers(data, pos, flexible, "i")
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 12
        if version <= 12:
            write_string(write, self.topic, flexible)
        if version >= 13:
            write(pack_16s(self.topic_id))
        write_numbers(write, self.partitions, flexible, "i")
        if flexible:
            write_tags(write, self.unknown_tags)


class FetchRequest(Request):
    """FetchRequest, version 4 to 18."""

    __slots__ = (
        "cluster_id",
        "replica_id",
        "replica_state",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
        "rack_id",
    )

    API_KEY = 1
    MIN_VERSION = 4
    MAX_VERSION = 18
    FLEXIBLE_FROM = 12

    def __init__(
        self,
        *,
        cluster_id: str | None = None,  # version >= 12, tag 0
        replica_id: int = -1,  # version <= 14
        replica_state: FetchRequestReplicaState | None = None,  # version >= 15, tag 1
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,  # version >= 7
        session_epoch: int = -1,  # version >= 7
        topics: list[FetchRequestTopic] = EMPTY,
        forgotten_topics_data: list[FetchRequestForgottenTopic] = EMPTY,  # version >= 7
        rack_id: str = "",  # version >= 11
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = [] if topics is EMPTY else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is EMPTY else forgotten_topics_data
        self.rack_id = rack_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 12
        if version <= 14:
            (self.replica_id,) = unpack_i(data, pos)
            pos += 4
        else:
            self.replica_id = -1
        self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level = unpack_iiib(data, pos)
        pos += 13
        if version >= 7:
            self.session_id, self.session_epoch = unpack_ii(data, pos)
            pos += 8
        else:
            self.session_id = 0
            self.session_epoch = -1
        self.topics, pos = read_array(data, pos, version, flexible, FetchRequestTopic.read_from)
        if version >= 7:
            self.forgotten_topics_data, pos = read_array(
                data, pos, version, flexible, FetchRequestForgottenTopic.read_from
            )
        else:
            self.forgotten_topics_data = []
        if version >= 11:
            self.rack_id, pos = read_string(data, pos, flexible)
        else:
            self.rack_id = ""
        self.cluster_id = None
        self.replica_state = None
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                tags, pos = read_tags(data, pos)
                if (raw := tags.pop(0, None)) is not None:
                    self.cluster_id, _ = read_nullable_string(raw, 0, True)
                if version >= 15 and (raw := tags.pop(1, None)) is not None:
                    self.replica_state, _ = FetchRequestReplicaState.read_from(raw, 0, version)
                self.unknown_tags = tags
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 12
        if version <= 14:
            write(pack_i(self.replica_id))
        write(pack_iiib(self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level))
        if version >= 7:
            write(pack_ii(self.session_id, self.session_epoch))
        write_array(write, self.topics, version, flexible)
        if version >= 7:
            write_array(write, self.forgotten_topics_data, version, flexible)
        if version >= 11:
            write_string(write, self.rack_id, flexible)
        if flexible:
            tags = dict(self.unknown_tags)
            if self.cluster_id is not None:
                tags[0] = content(write_nullable_string, self.cluster_id, True)
            if version >= 15 and self.replica_state is not None:
                tags[1] = content(self.replica_state.write_to, version)
            write_tags(write, tags)


class FetchResponseDivergingEpoch(WireStruct):
    """What is in `diverging_epoch`."""

    __slots__ = ("epoch", "end_offset")

    def __init__(
        self,
        *,
        epoch: int = -1,
        end_offset: int = -1,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.epoch, self.end_offset = unpack_iq(data, pos)
        pos += 12
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_iq(self.epoch, self.end_offset))
        write_tags(write, self.unknown_tags)


class FetchResponseCurrentLeader(WireStruct):
    """What is in `current_leader`."""

    __slots__ = ("leader_id", "leader_epoch")

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.leader_id, self.leader_epoch = unpack_ii(data, pos)
        pos += 8
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ii(self.leader_id, self.leader_epoch))
        write_tags(write, self.unknown_tags)


class FetchResponseSnapshotId(WireStruct):
    """What is in `snapshot_id`."""

    __slots__ = ("end_offset", "epoch")

    def __init__(
        self,
        *,
        end_offset: int = -1,
        epoch: int = -1,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.end_offset, self.epoch = unpack_qi(data, pos)
        pos += 12
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_qi(self.end_offset, self.epoch))
        write_tags(write, self.unknown_tags)


class FetchResponseAbortedTransaction(WireStruct):
    """An element of `aborted_transactions`."""

    __slots__ = ("producer_id", "first_offset")

    def __init__(
        self,
        *,
        producer_id: int = 0,
        first_offset: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 12
        self.producer_id, self.first_offset = unpack_qq(data, pos)
        pos += 16
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 12
        write(pack_qq(self.producer_id, self.first_offset))
        if flexible:
            write_tags(write, self.unknown_tags)


class FetchResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = (
        "partition_index",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "diverging_epoch",
        "current_leader",
        "snapshot_id",
        "aborted_transactions",
        "preferred_read_replica",
        "records",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,  # version >= 5
        diverging_epoch: FetchResponseDivergingEpoch | None = None,  # version >= 12, tag 0
        current_leader: FetchResponseCurrentLeader | None = None,  # version >= 12, tag 1
        snapshot_id: FetchResponseSnapshotId | None = None,  # version >= 12, tag 2
        aborted_transactions: list[FetchResponseAbortedTransaction] | None = EMPTY,
        preferred_read_replica: int = -1,  # version >= 11
        records: Buffer | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.aborted_transactions = [] if aborted_transactions is EMPTY else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 12
        self.partition_index, self.error_code, self.high_watermark, self.last_stable_offset = unpack_ihqq(data, pos)
        pos += 22
        if version >= 5:
            (self.log_start_offset,) = unpack_q(data, pos)
            pos += 8
        else:
            self.log_start_offset = -1
        self.aborted_transactions, pos = read_nullable_array(
            data, pos, version, flexible, FetchResponseAbortedTransaction.read_from
        )
        if version >= 11:
            (self.preferred_read_replica,) = unpack_i(data, pos)
            pos += 4
        else:
            self.preferred_read_replica = -1
        self.records, pos = read_nullable_records(data, pos, flexible)
        self.diverging_epoch = None
        self.current_leader = None
        self.snapshot_id = None
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                tags, pos = read_tags(data, pos)
                if (raw := tags.pop(0, None)) is not None:
                    self.diverging_epoch, _ = FetchResponseDivergingEpoch.read_from(raw, 0, version)
                if (raw := tags.pop(1, None)) is not None:
                    self.current_leader, _ = FetchResponseCurrentLeader.read_from(raw, 0, version)
                if (raw := tags.pop(2, None)) is not None:
                    self.snapshot_id, _ = FetchResponseSnapshotId.read_from(raw, 0, version)
                self.unknown_tags = tags
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 12
        write(pack_ihqq(self.partition_index, self.error_code, self.high_watermark, self.last_stable_offset))
        if version >= 5:
            write(pack_q(self.log_start_offset))
        write_nullable_array(write, self.aborted_transactions, version, flexible)
        if version >= 11:
            write(pack_i(self.preferred_read_replica))
        write_nullable_bytes(write, self.records, flexible)
        if flexible:
            tags = dict(self.unknown_tags)
            if self.diverging_epoch is not None:
                tags[0] = content(self.diverging_epoch.write_to, version)
            if self.current_leader is not None:
                tags[1] = content(self.current_leader.write_to, version)
            if self.snapshot_id is not None:
                tags[2] = content(self.snapshot_id.write_to, version)
            write_tags(write, tags)


class FetchResponseTopic(WireStruct):
    """An element of `responses`."""

    __slots__ = ("topic", "topic_id", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",  # version <= 12
        topic_id: bytes = ZERO_UUID,  # version >= 13
        partitions: list[FetchResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 12
        if version <= 12:
            self.topic, pos = read_string(data, pos, flexible)
        else:
            self.topic = ""
        if version >= 13:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        self.partitions, pos = read_array(data, pos, version, flexible, FetchResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 12
        if version <= 12:
            write_string(write, self.topic, flexible)
        if version >= 13:
            write(pack_16s(self.topic_id))
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class FetchResponseNodeEndpoint(WireStruct):
    """An element of `node_endpoints`."""

    __slots__ = ("node_id", "host", "port", "rack")

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.node_id,) = unpack_i(data, pos)
        pos += 4
        self.host, pos = read_string(data, pos, True)
        (self.port,) = unpack_i(data, pos)
        pos += 4
        self.rack, pos = read_nullable_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.node_id))
        write_string(write, self.host, True)
        write(pack_i(self.port))
        write_nullable_string(write, self.rack, True)
        write_tags(write, self.unknown_tags)


class FetchResponse(Response):
    """FetchResponse, version 4 to 18."""

    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")

    API_KEY = 1
    MIN_VERSION = 4
    MAX_VERSION = 18
    FLEXIBLE_FROM = 12
    HAS_RECORDS = True

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,  # version >= 7
        session_id: int = 0,  # version >= 7
        responses: list[FetchResponseTopic] = EMPTY,
        node_endpoints: list[FetchResponseNodeEndpoint] = EMPTY,  # version >= 16, tag 0
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is EMPTY else responses
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 12
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        if version >= 7:
            self.error_code, self.session_id = unpack_hi(data, pos)
            pos += 6
        else:
            self.error_code = 0
            self.session_id = 0
        self.responses, pos = read_array(data, pos, version, flexible, FetchResponseTopic.read_from)
        self.node_endpoints = []
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                tags, pos = read_tags(data, pos)
                if version >= 16 and (raw := tags.pop(0, None)) is not None:
                    self.node_endpoints, _ = read_array(raw, 0, version, True, FetchResponseNodeEndpoint.read_from)
                self.unknown_tags = tags
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 12
        write(pack_i(self.throttle_time_ms))
        if version >= 7:
            write(pack_hi(self.error_code, self.session_id))
        write_array(write, self.responses, version, flexible)
        if flexible:
            tags = dict(self.unknown_tags)
            if version >= 16 and self.node_endpoints:
                tags[0] = content(write_array, self.node_endpoints, version, True)
            write_tags(write, tags)
