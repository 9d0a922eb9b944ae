"""OffsetFetch: returns how far consumer groups have read.

Generated from definitions/09_offset_fetch.def; change that, not this.
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
unpack_i = Struct(">i").unpack_from
unpack_iq = Struct(">iq").unpack_from
unpack_iqi = Struct(">iqi").unpack_from
unpack_t = Struct(">?").unpack_from
pack_16s = Struct(">16s").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_iq = Struct(">iq").pack
pack_iqi = Struct(">iqi").pack
pack_t = Struct(">?").pack


class OffsetFetchRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partition_indexes")

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        self.name, pos = read_string(data, pos, flexible)
        self.partition_indexes, pos = read_numbers(data, pos, flexible, "i")
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        write_string(write, self.name, flexible)
        write_numbers(write, self.partition_indexes, flexible, "i")
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetFetchRequestGroupTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "topic_id", "partition_indexes")

    def __init__(
        self,
        *,
        name: str = "",  # version <= 9
        topic_id: bytes = ZERO_UUID,  # version >= 10
        partition_indexes: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        if version <= 9:
            self.name, pos = read_string(data, pos, True)
        else:
            self.name = ""
        if version >= 10:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        self.partition_indexes, pos = read_numbers(data, pos, True, "i")
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        if version <= 9:
            write_string(write, self.name, True)
        if version >= 10:
            write(pack_16s(self.topic_id))
        write_numbers(write, self.partition_indexes, True, "i")
        write_tags(write, self.unknown_tags)


class OffsetFetchRequestGroup(WireStruct):
    """An element of `groups`."""

    __slots__ = ("group_id", "member_id", "member_epoch", "topics")

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,  # version >= 9
        member_epoch: int = -1,  # version >= 9
        topics: list[OffsetFetchRequestGroupTopic] | None = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, True)
        if version >= 9:
            self.member_id, pos = read_nullable_string(data, pos, True)
            (self.member_epoch,) = unpack_i(data, pos)
            pos += 4
        else:
            self.member_id = None
            self.member_epoch = -1
        self.topics, pos = read_nullable_array(data, pos, version, True, OffsetFetchRequestGroupTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, True)
        if version >= 9:
            write_nullable_string(write, self.member_id, True)
            write(pack_i(self.member_epoch))
        write_nullable_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class OffsetFetchRequest(Request):
    """OffsetFetchRequest, version 1 to 10."""

    __slots__ = ("group_id", "topics", "groups", "require_stable")

    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        group_id: str = "",  # version <= 7
        topics: list[OffsetFetchRequestTopic] | None = EMPTY,  # version <= 7
        groups: list[OffsetFetchRequestGroup] = EMPTY,  # version >= 8
        require_stable: bool = False,  # version >= 7
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.groups = [] if groups is EMPTY else groups
        self.require_stable = require_stable
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        if version <= 7:
            self.group_id, pos = read_string(data, pos, flexible)
            if version >= 2:
                self.topics, pos = read_nullable_array(data, pos, version, flexible, OffsetFetchRequestTopic.read_from)
            else:
                self.topics, pos = read_array(data, pos, version, flexible, OffsetFetchRequestTopic.read_from)
        else:
            self.group_id = ""
            self.topics = []
        if version >= 8:
            self.groups, pos = read_array(data, pos, version, flexible, OffsetFetchRequestGroup.read_from)
        else:
            self.groups = []
        if version >= 7:
            (self.require_stable,) = unpack_t(data, pos)
            pos += 1
        else:
            self.require_stable = False
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        if version <= 7:
            write_string(write, self.group_id, flexible)
            if version >= 2:
                write_nullable_array(write, self.topics, version, flexible)
            else:
                write_array(write, require(self.topics, "topics", version), version, flexible)
        if version >= 8:
            write_array(write, self.groups, version, flexible)
        if version >= 7:
            write(pack_t(self.require_stable))
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetFetchResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,  # version >= 5
        metadata: str | None = "",
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        self.partition_index, self.committed_offset = unpack_iq(data, pos)
        pos += 12
        if version >= 5:
            (self.committed_leader_epoch,) = unpack_i(data, pos)
            pos += 4
        else:
            self.committed_leader_epoch = -1
        self.metadata, pos = read_nullable_string(data, pos, flexible)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        write(pack_iq(self.partition_index, self.committed_offset))
        if version >= 5:
            write(pack_i(self.committed_leader_epoch))
        write_nullable_string(write, self.metadata, flexible)
        write(pack_h(self.error_code))
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetFetchResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        self.name, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_array(data, pos, version, flexible, OffsetFetchResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        write_string(write, self.name, flexible)
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class OffsetFetchResponseGroupTopicPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.partition_index, self.committed_offset, self.committed_leader_epoch = unpack_iqi(data, pos)
        pos += 16
        self.metadata, pos = read_nullable_string(data, pos, True)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_iqi(self.partition_index, self.committed_offset, self.committed_leader_epoch))
        write_nullable_string(write, self.metadata, True)
        write(pack_h(self.error_code))
        write_tags(write, self.unknown_tags)


class OffsetFetchResponseGroupTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    def __init__(
        self,
        *,
        name: str = "",  # version <= 9
        topic_id: bytes = ZERO_UUID,  # version >= 10
        partitions: list[OffsetFetchResponseGroupTopicPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        if version <= 9:
            self.name, pos = read_string(data, pos, True)
        else:
            self.name = ""
        if version >= 10:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        self.partitions, pos = read_array(data, pos, version, True, OffsetFetchResponseGroupTopicPartition.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        if version <= 9:
            write_string(write, self.name, True)
        if version >= 10:
            write(pack_16s(self.topic_id))
        write_array(write, self.partitions, version, True)
        write_tags(write, self.unknown_tags)


class OffsetFetchResponseGroup(WireStruct):
    """An element of `groups`."""

    __slots__ = ("group_id", "topics", "error_code")

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchResponseGroupTopic] = EMPTY,
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, True)
        self.topics, pos = read_array(data, pos, version, True, OffsetFetchResponseGroupTopic.read_from)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, True)
        write_array(write, self.topics, version, True)
        write(pack_h(self.error_code))
        write_tags(write, self.unknown_tags)


class OffsetFetchResponse(Response):
    """OffsetFetchResponse, version 1 to 10."""

    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")

    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 3
        topics: list[OffsetFetchResponseTopic] = EMPTY,  # version <= 7
        error_code: int = 0,  # 2 <= version <= 7
        groups: list[OffsetFetchResponseGroup] = EMPTY,  # version >= 8
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.error_code = error_code
        self.groups = [] if groups is EMPTY else groups
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 6
        if version >= 3:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        if version <= 7:
            self.topics, pos = read_array(data, pos, version, flexible, OffsetFetchResponseTopic.read_from)
        else:
            self.topics = []
        if 2 <= version <= 7:
            (self.error_code,) = unpack_h(data, pos)
            pos += 2
        else:
            self.error_code = 0
        if version >= 8:
            self.groups, pos = read_array(data, pos, version, flexible, OffsetFetchResponseGroup.read_from)
        else:
            self.groups = []
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 6
        if version >= 3:
            write(pack_i(self.throttle_time_ms))
        if version <= 7:
            write_array(write, self.topics, version, flexible)
        if 2 <= version <= 7:
            write(pack_h(self.error_code))
        if version >= 8:
            write_array(write, self.groups, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
