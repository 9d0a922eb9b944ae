"""Produce: appends record batches to partitions, and says at which offset each began.

Generated from definitions/00_produce.def; change that, not this.
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
    read_nullable_records,
    read_nullable_string,
    read_string,
    read_tags,
    write_array,
    write_nullable_bytes,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_hi = Struct(">hi").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ihq = Struct(">ihq").unpack_from
unpack_ii = Struct(">ii").unpack_from
unpack_q = Struct(">q").unpack_from
pack_16s = Struct(">16s").pack
pack_hi = Struct(">hi").pack
pack_i = Struct(">i").pack
pack_ihq = Struct(">ihq").pack
pack_ii = Struct(">ii").pack
pack_q = Struct(">q").pack


class ProduceRequestPartition(WireStruct):
    """An element of `partition_data`."""

    __slots__ = ("index", "records")

    def __init__(
        self,
        *,
        index: int = 0,
        records: Buffer | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.index = index
        self.records = records
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        (self.index,) = unpack_i(data, pos)
        pos += 4
        self.records, pos = read_nullable_records(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        write(pack_i(self.index))
        write_nullable_bytes(write, self.records, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ProduceRequestTopic(WireStruct):
    """An element of `topic_data`."""

    __slots__ = ("name", "topic_id", "partition_data")

    def __init__(
        self,
        *,
        name: str = "",  # version <= 12
        topic_id: bytes = ZERO_UUID,  # version >= 13
        partition_data: list[ProduceRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is EMPTY else partition_data
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        if version <= 12:
            self.name, pos = read_string(data, pos, flexible)
        else:
            self.name = ""
        if version >= 13:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        self.partition_data, pos = read_array(data, pos, version, flexible, ProduceRequestPartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        if version <= 12:
            write_string(write, self.name, flexible)
        if version >= 13:
            write(pack_16s(self.topic_id))
        write_array(write, self.partition_data, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ProduceRequest(Request):
    """ProduceRequest, version 0 to 13."""

    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")

    API_KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9
    HAS_RECORDS = True

    def __init__(
        self,
        *,
        transactional_id: str | None = None,  # version >= 3
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[ProduceRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is EMPTY else topic_data
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        if version >= 3:
            self.transactional_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.transactional_id = None
        self.acks, self.timeout_ms = unpack_hi(data, pos)
        pos += 6
        self.topic_data, pos = read_array(data, pos, version, flexible, ProduceRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        if version >= 3:
            write_nullable_string(write, self.transactional_id, flexible)
        write(pack_hi(self.acks, self.timeout_ms))
        write_array(write, self.topic_data, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ProduceResponseRecordError(WireStruct):
    """An element of `record_errors`."""

    __slots__ = ("batch_index", "batch_index_error_message")

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        (self.batch_index,) = unpack_i(data, pos)
        pos += 4
        self.batch_index_error_message, pos = read_nullable_string(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        write(pack_i(self.batch_index))
        write_nullable_string(write, self.batch_index_error_message, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ProduceResponseCurrentLeader(WireStruct):
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


class ProduceResponsePartition(WireStruct):
    """An element of `partition_responses`."""

    __slots__ = (
        "index",
        "error_code",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "error_message",
        "current_leader",
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,  # version >= 2
        log_start_offset: int = -1,  # version >= 5
        record_errors: list[ProduceResponseRecordError] = EMPTY,  # version >= 8
        error_message: str | None = None,  # version >= 8
        current_leader: ProduceResponseCurrentLeader | None = None,  # version >= 10, tag 0
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is EMPTY else record_errors
        self.error_message = error_message
        self.current_leader = current_leader
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        self.index, self.error_code, self.base_offset = unpack_ihq(data, pos)
        pos += 14
        if version >= 2:
            (self.log_append_time_ms,) = unpack_q(data, pos)
            pos += 8
        else:
            self.log_append_time_ms = -1
        if version >= 5:
            (self.log_start_offset,) = unpack_q(data, pos)
            pos += 8
        else:
            self.log_start_offset = -1
        if version >= 8:
            self.record_errors, pos = read_array(data, pos, version, flexible, ProduceResponseRecordError.read_from)
            self.error_message, pos = read_nullable_string(data, pos, flexible)
        else:
            self.record_errors = []
            self.error_message = None
        self.current_leader = None
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                tags, pos = read_tags(data, pos)
                if version >= 10 and (raw := tags.pop(0, None)) is not None:
                    self.current_leader, _ = ProduceResponseCurrentLeader.read_from(raw, 0, version)
                self.unknown_tags = tags
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        write(pack_ihq(self.index, self.error_code, self.base_offset))
        if version >= 2:
            write(pack_q(self.log_append_time_ms))
        if version >= 5:
            write(pack_q(self.log_start_offset))
        if version >= 8:
            write_array(write, self.record_errors, version, flexible)
            write_nullable_string(write, self.error_message, flexible)
        if flexible:
            tags = dict(self.unknown_tags)
            if version >= 10 and self.current_leader is not None:
                tags[0] = content(self.current_leader.write_to, version)
            write_tags(write, tags)


class ProduceResponseTopic(WireStruct):
    """An element of `responses`."""

    __slots__ = ("name", "topic_id", "partition_responses")

    def __init__(
        self,
        *,
        name: str = "",  # version <= 12
        topic_id: bytes = ZERO_UUID,  # version >= 13
        partition_responses: list[ProduceResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is EMPTY else partition_responses
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        if version <= 12:
            self.name, pos = read_string(data, pos, flexible)
        else:
            self.name = ""
        if version >= 13:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        self.partition_responses, pos = read_array(data, pos, version, flexible, ProduceResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        if version <= 12:
            write_string(write, self.name, flexible)
        if version >= 13:
            write(pack_16s(self.topic_id))
        write_array(write, self.partition_responses, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ProduceResponseNodeEndpoint(WireStruct):
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


class ProduceResponse(Response):
    """ProduceResponse, version 0 to 13."""

    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")

    API_KEY = 0
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        responses: list[ProduceResponseTopic] = EMPTY,
        throttle_time_ms: int = 0,  # version >= 1
        node_endpoints: list[ProduceResponseNodeEndpoint] = EMPTY,  # version >= 10, tag 0
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.responses = [] if responses is EMPTY else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        self.responses, pos = read_array(data, pos, version, flexible, ProduceResponseTopic.read_from)
        if version >= 1:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        self.node_endpoints = []
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                tags, pos = read_tags(data, pos)
                if version >= 10 and (raw := tags.pop(0, None)) is not None:
                    self.node_endpoints, _ = read_array(raw, 0, version, True, ProduceResponseNodeEndpoint.read_from)
                self.unknown_tags = tags
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        write_array(write, self.responses, version, flexible)
        if version >= 1:
            write(pack_i(self.throttle_time_ms))
        if flexible:
            tags = dict(self.unknown_tags)
            if version >= 10 and self.node_endpoints:
                tags[0] = content(write_array, self.node_endpoints, version, True)
            write_tags(write, tags)
