"""ConsumerGroupDescribe: describes consumer groups of the new protocol.

Generated from definitions/69_consumer_group_describe.def; change that, not this.
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
    read_strings,
    read_tags,
    write_array,
    write_nullable_string,
    write_numbers,
    write_string,
    write_strings,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_b = Struct(">b").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ii = Struct(">ii").unpack_from
unpack_t = Struct(">?").unpack_from
pack_16s = Struct(">16s").pack
pack_b = Struct(">b").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_ii = Struct(">ii").pack
pack_t = Struct(">?").pack


class ConsumerGroupDescribeRequest(Request):
    """ConsumerGroupDescribeRequest, version 0 to 1."""

    __slots__ = ("group_ids", "include_authorized_operations")

    API_KEY = 69
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_ids: list[str] = EMPTY,
        include_authorized_operations: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_ids = [] if group_ids is EMPTY else group_ids
        self.include_authorized_operations = include_authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_ids, pos = read_strings(data, pos, True)
        (self.include_authorized_operations,) = unpack_t(data, pos)
        pos += 1
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_strings(write, self.group_ids, True)
        write(pack_t(self.include_authorized_operations))
        write_tags(write, self.unknown_tags)


class ConsumerGroupDescribeResponseTopicPartitions(WireStruct):
    """An element of `topic_partitions`."""

    __slots__ = ("topic_id", "topic_name", "partitions")

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.topic_id,) = unpack_16s(data, pos)
        pos += 16
        self.topic_name, pos = read_string(data, pos, True)
        self.partitions, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_16s(self.topic_id))
        write_string(write, self.topic_name, True)
        write_numbers(write, self.partitions, True, "i")
        write_tags(write, self.unknown_tags)


class ConsumerGroupDescribeResponseAssignment(WireStruct):
    """What is in `assignment` and `target_assignment`."""

    __slots__ = ("topic_partitions",)

    def __init__(
        self,
        *,
        topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic_partitions, pos = read_array(
            data, pos, version, True, ConsumerGroupDescribeResponseTopicPartitions.read_from
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


class ConsumerGroupDescribeResponseMember(WireStruct):
    """An element of `members`."""

    __slots__ = (
        "member_id",
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = EMPTY,
        subscribed_topic_regex: str | None = None,
        assignment: ConsumerGroupDescribeResponseAssignment | None = None,
        target_assignment: ConsumerGroupDescribeResponseAssignment | None = None,
        member_type: int = -1,  # version >= 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is EMPTY else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = ConsumerGroupDescribeResponseAssignment() if assignment is None else assignment
        self.target_assignment = (
            ConsumerGroupDescribeResponseAssignment() if target_assignment is None else target_assignment
        )
        self.member_type = member_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.member_id, pos = read_string(data, pos, True)
        self.instance_id, pos = read_nullable_string(data, pos, True)
        self.rack_id, pos = read_nullable_string(data, pos, True)
        (self.member_epoch,) = unpack_i(data, pos)
        pos += 4
        self.client_id, pos = read_string(data, pos, True)
        self.client_host, pos = read_string(data, pos, True)
        self.subscribed_topic_names, pos = read_strings(data, pos, True)
        self.subscribed_topic_regex, pos = read_nullable_string(data, pos, True)
        self.assignment, pos = ConsumerGroupDescribeResponseAssignment.read_from(data, pos, version)
        self.target_assignment, pos = ConsumerGroupDescribeResponseAssignment.read_from(data, pos, version)
        if version >= 1:
            (self.member_type,) = unpack_b(data, pos)
            pos += 1
        else:
            self.member_type = -1
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.member_id, True)
        write_nullable_string(write, self.instance_id, True)
        write_nullable_string(write, self.rack_id, True)
        write(pack_i(self.member_epoch))
        write_string(write, self.client_id, True)
        write_string(write, self.client_host, True)
        write_strings(write, self.subscribed_topic_names, True)
        write_nullable_string(write, self.subscribed_topic_regex, True)
        self.assignment.write_to(write, version)
        self.target_assignment.write_to(write, version)
        if version >= 1:
            write(pack_b(self.member_type))
        write_tags(write, self.unknown_tags)


class ConsumerGroupDescribeResponseGroup(WireStruct):
    """An element of `groups`."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[ConsumerGroupDescribeResponseMember] = EMPTY,
        authorized_operations: int = -2147483648,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = [] if members is EMPTY else members
        self.authorized_operations = authorized_operations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.group_id, pos = read_string(data, pos, True)
        self.group_state, pos = read_string(data, pos, True)
        self.group_epoch, self.assignment_epoch = unpack_ii(data, pos)
        pos += 8
        self.assignor_name, pos = read_string(data, pos, True)
        self.members, pos = read_array(data, pos, version, True, ConsumerGroupDescribeResponseMember.read_from)
        (self.authorized_operations,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_h(self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_string(write, self.group_id, True)
        write_string(write, self.group_state, True)
        write(pack_ii(self.group_epoch, self.assignment_epoch))
        write_string(write, self.assignor_name, True)
        write_array(write, self.members, version, True)
        write(pack_i(self.authorized_operations))
        write_tags(write, self.unknown_tags)


class ConsumerGroupDescribeResponse(Response):
    """ConsumerGroupDescribeResponse, version 0 to 1."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 69
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[ConsumerGroupDescribeResponseGroup] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is EMPTY else groups
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.groups, pos = read_array(data, pos, version, True, ConsumerGroupDescribeResponseGroup.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.groups, version, True)
        write_tags(write, self.unknown_tags)
