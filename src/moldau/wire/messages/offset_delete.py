"""OffsetDelete: deletes committed offsets of a group.

Generated from definitions/47_offset_delete.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response, WireStruct
from moldau.wire.primitives import EMPTY, NO_TAGS, Data, Write, read_array, read_string, write_array, write_string

unpack_hi = Struct(">hi").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_hi = Struct(">hi").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack


class OffsetDeleteRequestPartition(WireStruct):
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
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.partition_index))


class OffsetDeleteRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, False)
        self.partitions, pos = read_array(data, pos, version, False, OffsetDeleteRequestPartition.read_from)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, False)
        write_array(write, self.partitions, version, False)


class OffsetDeleteRequest(Request):
    """OffsetDeleteRequest, version 0."""

    __slots__ = ("group_id", "topics")

    API_KEY = 47
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetDeleteRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, False)
        self.topics, pos = read_array(data, pos, version, False, OffsetDeleteRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, False)
        write_array(write, self.topics, version, False)


class OffsetDeleteResponsePartition(WireStruct):
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
        self.partition_index, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.partition_index, self.error_code))


class OffsetDeleteResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, False)
        self.partitions, pos = read_array(data, pos, version, False, OffsetDeleteResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, False)
        write_array(write, self.partitions, version, False)


class OffsetDeleteResponse(Response):
    """OffsetDeleteResponse, version 0."""

    __slots__ = ("error_code", "throttle_time_ms", "topics")

    API_KEY = 47
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.error_code, self.throttle_time_ms = unpack_hi(data, pos)
        pos += 6
        self.topics, pos = read_array(data, pos, version, False, OffsetDeleteResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_hi(self.error_code, self.throttle_time_ms))
        write_array(write, self.topics, version, False)
