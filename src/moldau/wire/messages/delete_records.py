"""DeleteRecords: moves the start of partitions forward, dropping the records before it.

Generated from definitions/21_delete_records.def; change that, not this.
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
    read_string,
    read_tags,
    write_array,
    write_string,
    write_tags,
)

unpack_i = Struct(">i").unpack_from
unpack_iq = Struct(">iq").unpack_from
unpack_iqh = Struct(">iqh").unpack_from
pack_i = Struct(">i").pack
pack_iq = Struct(">iq").pack
pack_iqh = Struct(">iqh").pack


class DeleteRecordsRequestPartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "offset")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.partition_index, self.offset = unpack_iq(data, pos)
        pos += 12
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_iq(self.partition_index, self.offset))
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteRecordsRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsRequestPartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.name, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_array(data, pos, version, flexible, DeleteRecordsRequestPartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_string(write, self.name, flexible)
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteRecordsRequest(Request):
    """DeleteRecordsRequest, version 0 to 2."""

    __slots__ = ("topics", "timeout_ms")

    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsRequestTopic] = EMPTY,
        timeout_ms: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.topics, pos = read_array(data, pos, version, flexible, DeleteRecordsRequestTopic.read_from)
        (self.timeout_ms,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_array(write, self.topics, version, flexible)
        write(pack_i(self.timeout_ms))
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteRecordsResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "low_watermark", "error_code")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.partition_index, self.low_watermark, self.error_code = unpack_iqh(data, pos)
        pos += 14
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_iqh(self.partition_index, self.low_watermark, self.error_code))
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteRecordsResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsResponsePartition] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.name, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_array(data, pos, version, flexible, DeleteRecordsResponsePartition.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_string(write, self.name, flexible)
        write_array(write, self.partitions, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteRecordsResponse(Response):
    """DeleteRecordsResponse, version 0 to 2."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.topics, pos = read_array(data, pos, version, flexible, DeleteRecordsResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
