"""ConsumerGroupHeartbeat: joins, stays in, leaves and is assigned by a consumer group of the new protocol.

Generated from definitions/68_consumer_group_heartbeat.def; change that, not this.
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
    read_nullable_strings,
    read_nullable_struct,
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_nullable_array,
    write_nullable_string,
    write_nullable_strings,
    write_nullable_struct,
    write_numbers,
    write_string,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_ii = Struct(">ii").unpack_from
pack_16s = Struct(">16s").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_ii = Struct(">ii").pack


class ConsumerGroupHeartbeatRequestTopicPartitions(WireStruct):
    """An element of `topic_partitions`."""

    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = EMPTY,
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
        self.partitions, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_16s(self.topic_id))
        write_numbers(write, self.partitions, True, "i")
        write_tags(write, self.unknown_tags)


class ConsumerGroupHeartbeatRequest(Request):
    """ConsumerGroupHeartbeatRequest, version 0 to 1."""

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "server_assignor",
        "topic_partitions",
    )

    API_KEY = 68
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,  # version >= 1
        server_assignor: str | None = None,
        topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, True)
        self.member_id, pos = read_string(data, pos, True)
        (self.member_epoch,) = unpack_i(data, pos)
        pos += 4
        self.instance_id, pos = read_nullable_string(data, pos, True)
        self.rack_id, pos = read_nullable_string(data, pos, True)
        (self.rebalance_timeout_ms,) = unpack_i(data, pos)
        pos += 4
        self.subscribed_topic_names, pos = read_nullable_strings(data, pos, True)
        if version >= 1:
            self.subscribed_topic_regex, pos = read_nullable_string(data, pos, True)
        else:
            self.subscribed_topic_regex = None
        self.server_assignor, pos = read_nullable_string(data, pos, True)
        self.topic_partitions, pos = read_nullable_array(
            data, pos, version, True, ConsumerGroupHeartbeatRequestTopicPartitions.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, True)
        write_string(write, self.member_id, True)
        write(pack_i(self.member_epoch))
        write_nullable_string(write, self.instance_id, True)
        write_nullable_string(write, self.rack_id, True)
        write(pack_i(self.rebalance_timeout_ms))
        write_nullable_strings(write, self.subscribed_topic_names, True)
        if version >= 1:
            write_nullable_string(write, self.subscribed_topic_regex, True)
        write_nullable_string(write, self.server_assignor, True)
        write_nullable_array(write, self.topic_partitions, version, True)
        write_tags(write, self.unknown_tags)


class ConsumerGroupHeartbeatResponseTopicPartitions(WireStruct):
    """An element of `topic_partitions`."""

    __slots__ = ("topic_id", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = EMPTY,
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
        self.partitions, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_16s(self.topic_id))
        write_numbers(write, self.partitions, True, "i")
        write_tags(write, self.unknown_tags)


class ConsumerGroupHeartbeatResponseAssignment(WireStruct):
    """What is in `assignment`."""

    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        *,
        topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic_partitions, pos = read_array(
            data, pos, version, True, ConsumerGroupHeartbeatResponseTopicPartitions.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_array(write, self.topic_partitions, version, True)
        write_tags(write, self.unknown_tags)


class ConsumerGroupHeartbeatResponse(Response):
    """ConsumerGroupHeartbeatResponse, version 0 to 1."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )

    API_KEY = 68
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: ConsumerGroupHeartbeatResponseAssignment | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.member_id, pos = read_nullable_string(data, pos, True)
        self.member_epoch, self.heartbeat_interval_ms = unpack_ii(data, pos)
        pos += 8
        self.assignment, pos = read_nullable_struct(
            data, pos, version, ConsumerGroupHeartbeatResponseAssignment.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_nullable_string(write, self.member_id, True)
        write(pack_ii(self.member_epoch, self.heartbeat_interval_ms))
        write_nullable_struct(write, self.assignment, version)
        write_tags(write, self.unknown_tags)
