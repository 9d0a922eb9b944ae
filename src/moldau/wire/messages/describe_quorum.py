"""DescribeQuorum: describes the metadata quorum.

Generated from definitions/55_describe_quorum.def; change that, not this.
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
unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_iiq = Struct(">iiq").unpack_from
unpack_q = Struct(">q").unpack_from
unpack_qq = Struct(">qq").unpack_from
unpack_u = Struct(">H").unpack_from
pack_16s = Struct(">16s").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_iiq = Struct(">iiq").pack
pack_q = Struct(">q").pack
pack_qq = Struct(">qq").pack
pack_u = Struct(">H").pack


class DescribeQuorumRequestPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.partition_index,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.partition_index))
        write_tags(write, self.unknown_tags)


class DescribeQuorumRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[DescribeQuorumRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic_name, pos = read_string(data, pos, True)
        self.partitions, pos = read_array(data, pos, version, True, DescribeQuorumRequestPartition.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic_name, True)
        write_array(write, self.partitions, version, True)
        write_tags(write, self.unknown_tags)


class DescribeQuorumRequest(Request):
    """DescribeQuorumRequest, version 0 to 2."""

    __slots__ = ("topics",)

    API_KEY = 55
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[DescribeQuorumRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topics, pos = read_array(data, pos, version, True, DescribeQuorumRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class DescribeQuorumResponseReplica(WireStruct):
    """An element of `current_voters` and `observers`."""

    __slots__ = (
        "replica_id",
        "replica_directory_id",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
    )

    def __init__(
        self,
        *,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,  # version >= 2
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,  # version >= 1
        last_caught_up_timestamp: int = -1,  # version >= 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.replica_id,) = unpack_i(data, pos)
        pos += 4
        if version >= 2:
            (self.replica_directory_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.replica_directory_id = ZERO_UUID
        (self.log_end_offset,) = unpack_q(data, pos)
        pos += 8
        if version >= 1:
            self.last_fetch_timestamp, self.last_caught_up_timestamp = unpack_qq(data, pos)
            pos += 16
        else:
            self.last_fetch_timestamp = -1
            self.last_caught_up_timestamp = -1
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.replica_id))
        if version >= 2:
            write(pack_16s(self.replica_directory_id))
        write(pack_q(self.log_end_offset))
        if version >= 1:
            write(pack_qq(self.last_fetch_timestamp, self.last_caught_up_timestamp))
        write_tags(write, self.unknown_tags)


class DescribeQuorumResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "leader_id",
        "leader_epoch",
        "high_watermark",
        "current_voters",
        "observers",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",  # version >= 2
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[DescribeQuorumResponseReplica] = EMPTY,
        observers: list[DescribeQuorumResponseReplica] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = [] if current_voters is EMPTY else current_voters
        self.observers = [] if observers is EMPTY else observers
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.partition_index, self.error_code = unpack_ih(data, pos)
        pos += 6
        if version >= 2:
            self.error_message, pos = read_nullable_string(data, pos, True)
        else:
            self.error_message = ""
        self.leader_id, self.leader_epoch, self.high_watermark = unpack_iiq(data, pos)
        pos += 16
        self.current_voters, pos = read_array(data, pos, version, True, DescribeQuorumResponseReplica.read_from)
        self.observers, pos = read_array(data, pos, version, True, DescribeQuorumResponseReplica.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.partition_index, self.error_code))
        if version >= 2:
            write_nullable_string(write, self.error_message, True)
        write(pack_iiq(self.leader_id, self.leader_epoch, self.high_watermark))
        write_array(write, self.current_voters, version, True)
        write_array(write, self.observers, version, True)
        write_tags(write, self.unknown_tags)


class DescribeQuorumResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic_name", "partitions")

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[DescribeQuorumResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic_name, pos = read_string(data, pos, True)
        self.partitions, pos = read_array(data, pos, version, True, DescribeQuorumResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic_name, True)
        write_array(write, self.partitions, version, True)
        write_tags(write, self.unknown_tags)


class DescribeQuorumResponseListener(WireStruct):
    """An element of `listeners`."""

    __slots__ = ("name", "host", "port")

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.host, pos = read_string(data, pos, True)
        (self.port,) = unpack_u(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_string(write, self.host, True)
        write(pack_u(self.port))
        write_tags(write, self.unknown_tags)


class DescribeQuorumResponseNode(WireStruct):
    """An element of `nodes`."""

    __slots__ = ("node_id", "listeners")

    def __init__(
        self,
        *,
        node_id: int = 0,
        listeners: list[DescribeQuorumResponseListener] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.node_id = node_id
        self.listeners = [] if listeners is EMPTY else listeners
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.node_id,) = unpack_i(data, pos)
        pos += 4
        self.listeners, pos = read_array(data, pos, version, True, DescribeQuorumResponseListener.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.node_id))
        write_array(write, self.listeners, version, True)
        write_tags(write, self.unknown_tags)


class DescribeQuorumResponse(Response):
    """DescribeQuorumResponse, version 0 to 2."""

    __slots__ = ("error_code", "error_message", "topics", "nodes")

    API_KEY = 55
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",  # version >= 2
        topics: list[DescribeQuorumResponseTopic] = EMPTY,
        nodes: list[DescribeQuorumResponseNode] = EMPTY,  # version >= 2
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is EMPTY else topics
        self.nodes = [] if nodes is EMPTY else nodes
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        if version >= 2:
            self.error_message, pos = read_nullable_string(data, pos, True)
        else:
            self.error_message = ""
        self.topics, pos = read_array(data, pos, version, True, DescribeQuorumResponseTopic.read_from)
        if version >= 2:
            self.nodes, pos = read_array(data, pos, version, True, DescribeQuorumResponseNode.read_from)
        else:
            self.nodes = []
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_h(self.error_code))
        if version >= 2:
            write_nullable_string(write, self.error_message, True)
        write_array(write, self.topics, version, True)
        if version >= 2:
            write_array(write, self.nodes, version, True)
        write_tags(write, self.unknown_tags)
