"""DescribeLogDirs: describes the log directories of a broker and the partitions in them.

Generated from definitions/35_describe_log_dirs.def; change that, not this.
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
    read_nullable_array,
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_nullable_array,
    write_numbers,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_iqqt = Struct(">iqq?").unpack_from
unpack_qq = Struct(">qq").unpack_from
unpack_t = Struct(">?").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_iqqt = Struct(">iqq?").pack
pack_qq = Struct(">qq").pack
pack_t = Struct(">?").pack


class DescribeLogDirsRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic", "partitions")

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.topic, pos = read_string(data, pos, flexible)
        self.partitions, pos = read_numbers(data, pos, flexible, "i")
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_string(write, self.topic, flexible)
        write_numbers(write, self.partitions, flexible, "i")
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeLogDirsRequest(Request):
    """DescribeLogDirsRequest, version 1 to 5."""

    __slots__ = ("topics",)

    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        topics: list[DescribeLogDirsRequestTopic] | None = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.topics, pos = read_nullable_array(data, pos, version, flexible, DescribeLogDirsRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_nullable_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeLogDirsResponsePartition(WireStruct):
    """An element of `partitions`."""

    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.partition_index, self.partition_size, self.offset_lag, self.is_future_key = unpack_iqqt(data, pos)
        pos += 21
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_iqqt(self.partition_index, self.partition_size, self.offset_lag, self.is_future_key))
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeLogDirsResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "partitions")

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DescribeLogDirsResponsePartition] = EMPTY,
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
        self.partitions, pos = read_array(data, pos, version, flexible, DescribeLogDirsResponsePartition.read_from)
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


class DescribeLogDirsResponseLogDir(WireStruct):
    """An element of `results`."""

    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsResponseTopic] = EMPTY,
        total_bytes: int = -1,  # version >= 4
        usable_bytes: int = -1,  # version >= 4
        is_cordoned: bool = False,  # version >= 5
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is EMPTY else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.log_dir, pos = read_string(data, pos, flexible)
        self.topics, pos = read_array(data, pos, version, flexible, DescribeLogDirsResponseTopic.read_from)
        if version >= 4:
            self.total_bytes, self.usable_bytes = unpack_qq(data, pos)
            pos += 16
        else:
            self.total_bytes = -1
            self.usable_bytes = -1
        if version >= 5:
            (self.is_cordoned,) = unpack_t(data, pos)
            pos += 1
        else:
            self.is_cordoned = False
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_h(self.error_code))
        write_string(write, self.log_dir, flexible)
        write_array(write, self.topics, version, flexible)
        if version >= 4:
            write(pack_qq(self.total_bytes, self.usable_bytes))
        if version >= 5:
            write(pack_t(self.is_cordoned))
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeLogDirsResponse(Response):
    """DescribeLogDirsResponse, version 1 to 5."""

    __slots__ = ("throttle_time_ms", "error_code", "results")

    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,  # version >= 3
        results: list[DescribeLogDirsResponseLogDir] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is EMPTY else results
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        if version >= 3:
            (self.error_code,) = unpack_h(data, pos)
            pos += 2
        else:
            self.error_code = 0
        self.results, pos = read_array(data, pos, version, flexible, DescribeLogDirsResponseLogDir.read_from)
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
        if version >= 3:
            write(pack_h(self.error_code))
        write_array(write, self.results, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
