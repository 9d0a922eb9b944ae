"""Metadata: tells a client the brokers, the topics, and who leads each partition.

Generated from definitions/03_metadata.def; change that, not this.
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
    read_nullable_array,
    read_nullable_string,
    read_numbers,
    read_string,
    read_tags,
    require,
    write_array,
    write_nullable_array,
    write_nullable_string,
    write_numbers,
    write_string,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_hii = Struct(">hii").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_t = Struct(">?").unpack_from
pack_16s = Struct(">16s").pack
pack_h = Struct(">h").pack
pack_hii = Struct(">hii").pack
pack_i = Struct(">i").pack
pack_t = Struct(">?").pack


class MetadataRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic_id", "name")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,  # version >= 10
        name: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_id = topic_id
        self.name = name
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        if version >= 10:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        if version >= 10:
            self.name, pos = read_nullable_string(data, pos, flexible)
        else:
            self.name, pos = read_string(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        if version >= 10:
            write(pack_16s(self.topic_id))
        if version >= 10:
            write_nullable_string(write, self.name, flexible)
        else:
            write_string(write, require(self.name, "name", version), flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class MetadataRequest(Request):
    """MetadataRequest, version 0 to 13."""

    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )

    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = EMPTY,
        allow_auto_topic_creation: bool = True,  # version >= 4
        include_cluster_authorized_operations: bool = False,  # 8 <= version <= 10
        include_topic_authorized_operations: bool = False,  # version >= 8
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        if version >= 1:
            self.topics, pos = read_nullable_array(data, pos, version, flexible, MetadataRequestTopic.read_from)
        else:
            self.topics, pos = read_array(data, pos, version, flexible, MetadataRequestTopic.read_from)
        if version >= 4:
            (self.allow_auto_topic_creation,) = unpack_t(data, pos)
            pos += 1
        else:
            self.allow_auto_topic_creation = True
        if 8 <= version <= 10:
            (self.include_cluster_authorized_operations,) = unpack_t(data, pos)
            pos += 1
        else:
            self.include_cluster_authorized_operations = False
        if version >= 8:
            (self.include_topic_authorized_operations,) = unpack_t(data, pos)
            pos += 1
        else:
            self.include_topic_authorized_operations = False
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        if version >= 1:
            write_nullable_array(write, self.topics, version, flexible)
        else:
            write_array(write, require(self.topics, "topics", version), version, flexible)
        if version >= 4:
            write(pack_t(self.allow_auto_topic_creation))
        if 8 <= version <= 10:
            write(pack_t(self.include_cluster_authorized_operations))
        if version >= 8:
            write(pack_t(self.include_topic_authorized_operations))
        if flexible:
            write_tags(write, self.unknown_tags)


class MetadataResponseBroker(WireStruct):
    """An element of `brokers`."""

    __slots__ = ("node_id", "host", "port", "rack")

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,  # version >= 1
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
        flexible = version >= 9
        (self.node_id,) = unpack_i(data, pos)
        pos += 4
        self.host, pos = read_string(data, pos, flexible)
        (self.port,) = unpack_i(data, pos)
        pos += 4
        if version >= 1:
            self.rack, pos = read_nullable_string(data, pos, flexible)
        else:
            self.rack = None
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        write(pack_i(self.node_id))
        write_string(write, self.host, flexible)
        write(pack_i(self.port))
        if version >= 1:
            write_nullable_string(write, self.rack, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class MetadataResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,  # version >= 7
        replica_nodes: list[int] = EMPTY,
        isr_nodes: list[int] = EMPTY,
        offline_replicas: list[int] = EMPTY,  # version >= 5
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is EMPTY else replica_nodes
        self.isr_nodes = [] if isr_nodes is EMPTY else isr_nodes
        self.offline_replicas = [] if offline_replicas is EMPTY else offline_replicas
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        self.error_code, self.partition_index, self.leader_id = unpack_hii(data, pos)
        pos += 10
        if version >= 7:
            (self.leader_epoch,) = unpack_i(data, pos)
            pos += 4
        else:
            self.leader_epoch = -1
        self.replica_nodes, pos = read_numbers(data, pos, flexible, "i")
        self.isr_nodes, pos = read_numbers(data, pos, flexible, "i")
        if version >= 5:
            self.offline_replicas, pos = read_numbers(data, pos, flexible, "i")
        else:
            self.offline_replicas = []
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        write(pack_hii(self.error_code, self.partition_index, self.leader_id))
        if version >= 7:
            write(pack_i(self.leader_epoch))
        write_numbers(write, self.replica_nodes, flexible, "i")
        write_numbers(write, self.isr_nodes, flexible, "i")
        if version >= 5:
            write_numbers(write, self.offline_replicas, flexible, "i")
        if flexible:
            write_tags(write, self.unknown_tags)


class MetadataResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,  # version >= 10
        is_internal: bool = False,  # version >= 1
        partitions: list[MetadataResponsePartition] = EMPTY,
        topic_authorized_operations: int = -2147483648,  # version >= 8
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is EMPTY else partitions
        self.topic_authorized_operations = topic_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        if version >= 12:
            self.name, pos = read_nullable_string(data, pos, flexible)
        else:
            self.name, pos = read_string(data, pos, flexible)
        if version >= 10:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        if version >= 1:
            (self.is_internal,) = unpack_t(data, pos)
            pos += 1
        else:
            self.is_internal = False
        self.partitions, pos = read_array(data, pos, version, flexible, MetadataResponsePartition.read_from)
        if version >= 8:
            (self.topic_authorized_operations,) = unpack_i(data, pos)
            pos += 4
        else:
            self.topic_authorized_operations = -2147483648
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 9
        write(pack_h(self.error_code))
        if version >= 12:
            write_nullable_string(write, self.name, flexible)
        else:
            write_string(write, require(self.name, "name", version), flexible)
        if version >= 10:
            write(pack_16s(self.topic_id))
        if version >= 1:
            write(pack_t(self.is_internal))
        write_array(write, self.partitions, version, flexible)
        if version >= 8:
            write(pack_i(self.topic_authorized_operations))
        if flexible:
            write_tags(write, self.unknown_tags)


class MetadataResponse(Response):
    """MetadataResponse, version 0 to 13."""

    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "cluster_authorized_operations",
        "error_code",
    )

    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 3
        brokers: list[MetadataResponseBroker] = EMPTY,
        cluster_id: str | None = None,  # version >= 2
        controller_id: int = -1,  # version >= 1
        topics: list[MetadataResponseTopic] = EMPTY,
        cluster_authorized_operations: int = -2147483648,  # 8 <= version <= 10
        error_code: int = 0,  # version >= 13
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = [] if brokers is EMPTY else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = [] if topics is EMPTY else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 9
        if version >= 3:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        self.brokers, pos = read_array(data, pos, version, flexible, MetadataResponseBroker.read_from)
        if version >= 2:
            self.cluster_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.cluster_id = None
        if version >= 1:
            (self.controller_id,) = unpack_i(data, pos)
            pos += 4
        else:
            self.controller_id = -1
        self.topics, pos = read_array(data, pos, version, flexible, MetadataResponseTopic.read_from)
        if 8 <= version <= 10:
            (self.cluster_authorized_operations,) = unpack_i(data, pos)
            pos += 4
        else:
            self.cluster_authorized_operations = -2147483648
        if version >= 13:
            (self.error_code,) = unpack_h(data, pos)
            pos += 2
        else:
            self.error_code = 0
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
            write(pack_i(self.throttle_time_ms))
        write_array(write, self.brokers, version, flexible)
        if version >= 2:
            write_nullable_string(write, self.cluster_id, flexible)
        if version >= 1:
            write(pack_i(self.controller_id))
        write_array(write, self.topics, version, flexible)
        if 8 <= version <= 10:
            write(pack_i(self.cluster_authorized_operations))
        if version >= 13:
            write(pack_h(self.error_code))
        if flexible:
            write_tags(write, self.unknown_tags)
