"""DescribeCluster: describes the brokers and the controller, without any topic.

Generated from definitions/60_describe_cluster.def; change that, not this.
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

unpack_b = Struct(">b").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_t = Struct(">?").unpack_from
pack_b = Struct(">b").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_t = Struct(">?").pack


class DescribeClusterRequest(Request):
    """DescribeClusterRequest, version 0 to 2."""

    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")

    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,  # version >= 1
        include_fenced_brokers: bool = False,  # version >= 2
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.include_cluster_authorized_operations,) = unpack_t(data, pos)
        pos += 1
        if version >= 1:
            (self.endpoint_type,) = unpack_b(data, pos)
            pos += 1
        else:
            self.endpoint_type = 1
        if version >= 2:
            (self.include_fenced_brokers,) = unpack_t(data, pos)
            pos += 1
        else:
            self.include_fenced_brokers = False
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_t(self.include_cluster_authorized_operations))
        if version >= 1:
            write(pack_b(self.endpoint_type))
        if version >= 2:
            write(pack_t(self.include_fenced_brokers))
        write_tags(write, self.unknown_tags)


class DescribeClusterResponseBroker(WireStruct):
    """An element of `brokers`."""

    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")

    def __init__(
        self,
        *,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,  # version >= 2
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.broker_id,) = unpack_i(data, pos)
        pos += 4
        self.host, pos = read_string(data, pos, True)
        (self.port,) = unpack_i(data, pos)
        pos += 4
        self.rack, pos = read_nullable_string(data, pos, True)
        if version >= 2:
            (self.is_fenced,) = unpack_t(data, pos)
            pos += 1
        else:
            self.is_fenced = False
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.broker_id))
        write_string(write, self.host, True)
        write(pack_i(self.port))
        write_nullable_string(write, self.rack, True)
        if version >= 2:
            write(pack_t(self.is_fenced))
        write_tags(write, self.unknown_tags)


class DescribeClusterResponse(Response):
    """DescribeClusterResponse, version 0 to 2."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "endpoint_type",
        "cluster_id",
        "controller_id",
        "brokers",
        "cluster_authorized_operations",
    )

    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,  # version >= 1
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterResponseBroker] = EMPTY,
        cluster_authorized_operations: int = -2147483648,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = [] if brokers is EMPTY else brokers
        self.cluster_authorized_operations = cluster_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        if version >= 1:
            (self.endpoint_type,) = unpack_b(data, pos)
            pos += 1
        else:
            self.endpoint_type = 1
        self.cluster_id, pos = read_string(data, pos, True)
        (self.controller_id,) = unpack_i(data, pos)
        pos += 4
        self.brokers, pos = read_array(data, pos, version, True, DescribeClusterResponseBroker.read_from)
        (self.cluster_authorized_operations,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        if version >= 1:
            write(pack_b(self.endpoint_type))
        write_string(write, self.cluster_id, True)
        write(pack_i(self.controller_id))
        write_array(write, self.brokers, version, True)
        write(pack_i(self.cluster_authorized_operations))
        write_tags(write, self.unknown_tags)
