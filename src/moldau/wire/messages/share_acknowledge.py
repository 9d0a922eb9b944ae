"""ShareAcknowledge: acknowledges records acquired through a share group.

Generated from definitions/79_share_acknowledge.def; change that, not this.
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
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_nullable_string,
    write_numbers,
    write_string,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_ii = Struct(">ii").unpack_from
unpack_qq = Struct(">qq").unpack_from
unpack_t = Struct(">?").unpack_from
pack_16s = Struct(">16s").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_ii = Struct(">ii").pack
pack_qq = Struct(">qq").pack
pack_t = Struct(">?").pack


class ShareAcknowledgeRequestAcknowledgementBatche(WireStruct):
    """An element of `acknowledgement_batches`."""

    __slots__ = ("first_offset", "last_offset", "acknowledge_types")

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is EMPTY else acknowledge_types
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.first_offset, self.last_offset = unpack_qq(data, pos)
        pos += 16
        self.acknowledge_types, pos = read_numbers(data, pos, True, "b")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_qq(self.first_offset, self.last_offset))
        write_numbers(write, self.acknowledge_types, True, "b")
        write_tags(write, self.unknown_tags)


class ShareAcknowledgeRequestPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "acknowledgement_batches")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        acknowledgement_batches: list[ShareAcknowledgeRequestAcknowledgementBatche] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = [] if acknowledgement_batches is EMPTY else acknowledgement_batches
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.partition_index,) = unpack_i(data, pos)
        pos += 4
        self.acknowledgement_batches, pos = read_array(
            data, pos, version, True, ShareAcknowledgeRequestAcknowledgementBatche.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.partition_index))
        write_array(write, self.acknowledgement_batches, version, True)
        write_tags(write, self.unknown_tags)


class ShareAcknowledgeRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ShareAcknowledgeRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.topic_id,) = unpack_16s(data, pos)
        pos += 16
        self.partitions, pos = read_array(data, pos, version, True, ShareAcknowledgeRequestPartition.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_16s(self.topic_id))
        write_array(write, self.partitions, version, True)
        write_tags(write, self.unknown_tags)


class ShareAcknowledgeRequest(Request):
    """ShareAcknowledgeRequest, version 1 to 2."""

    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics")

    API_KEY = 79
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,  # version >= 2
        topics: list[ShareAcknowledgeRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_nullable_string(data, pos, True)
        self.member_id, pos = read_nullable_string(data, pos, True)
        (self.share_session_epoch,) = unpack_i(data, pos)
        pos += 4
        if version >= 2:
            (self.is_renew_ack,) = unpack_t(data, pos)
            pos += 1
        else:
            self.is_renew_ack = False
        self.topics, pos = read_array(data, pos, version, True, ShareAcknowledgeRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_nullable_string(write, self.group_id, True)
        write_nullable_string(write, self.member_id, True)
        write(pack_i(self.share_session_epoch))
        if version >= 2:
            write(pack_t(self.is_renew_ack))
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class ShareAcknowledgeResponseCurrentLeader(WireStruct):
    """What is in `current_leader`."""

    __slots__ = ("leader_id", "leader_epoch")

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
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


class ShareAcknowledgeResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "error_code", "error_message", "current_leader")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: ShareAcknowledgeResponseCurrentLeader | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader = ShareAcknowledgeResponseCurrentLeader() if current_leader is None else current_leader
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.current_leader, pos = ShareAcknowledgeResponseCurrentLeader.read_from(data, pos, version)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.partition_index, self.error_code))
        write_nullable_string(write, self.error_message, True)
        self.current_leader.write_to(write, version)
        write_tags(write, self.unknown_tags)


class ShareAcknowledgeResponseTopic(WireStruct):
    """An element of `responses`."""

    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ShareAcknowledgeResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.topic_id,) = unpack_16s(data, pos)
        pos += 16
        self.partitions, pos = read_array(data, pos, version, True, ShareAcknowledgeResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_16s(self.topic_id))
        write_array(write, self.partitions, version, True)
        write_tags(write, self.unknown_tags)


class ShareAcknowledgeResponseNodeEndpoint(WireStruct):
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


class ShareAcknowledgeResponse(Response):
    """ShareAcknowledgeResponse, version 1 to 2."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "acquisition_lock_timeout_ms",
        "responses",
        "node_endpoints",
    )

    API_KEY = 79
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,  # version >= 2
        responses: list[ShareAcknowledgeResponseTopic] = EMPTY,
        node_endpoints: list[ShareAcknowledgeResponseNodeEndpoint] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is EMPTY else responses
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        if version >= 2:
            (self.acquisition_lock_timeout_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.acquisition_lock_timeout_ms = 0
        self.responses, pos = read_array(data, pos, version, True, ShareAcknowledgeResponseTopic.read_from)
        self.node_endpoints, pos = read_array(data, pos, version, True, ShareAcknowledgeResponseNodeEndpoint.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        if version >= 2:
            write(pack_i(self.acquisition_lock_timeout_ms))
        write_array(write, self.responses, version, True)
        write_array(write, self.node_endpoints, version, True)
        write_tags(write, self.unknown_tags)
