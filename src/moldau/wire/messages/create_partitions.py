"""CreatePartitions: grows topics to a larger number of partitions.

Generated from definitions/37_create_partitions.def; change that, not this.
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
    read_nullable_string,
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_nullable_array,
    write_nullable_string,
    write_numbers,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_it = Struct(">i?").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_it = Struct(">i?").pack


class CreatePartitionsRequestAssignment(WireStruct):
    """An element of `assignments`."""

    __slots__ = ("broker_ids",)

    def __init__(
        self,
        *,
        broker_ids: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.broker_ids = [] if broker_ids is EMPTY else broker_ids
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.broker_ids, pos = read_numbers(data, pos, flexible, "i")
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_numbers(write, self.broker_ids, flexible, "i")
        if flexible:
            write_tags(write, self.unknown_tags)


class CreatePartitionsRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "count", "assignments")

    def __init__(
        self,
        *,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsRequestAssignment] | None = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = [] if assignments is EMPTY else assignments
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.name, pos = read_string(data, pos, flexible)
        (self.count,) = unpack_i(data, pos)
        pos += 4
        self.assignments, pos = read_nullable_array(
            data, pos, version, flexible, CreatePartitionsRequestAssignment.read_from
        )
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
        write(pack_i(self.count))
        write_nullable_array(write, self.assignments, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class CreatePartitionsRequest(Request):
    """CreatePartitionsRequest, version 0 to 3."""

    __slots__ = ("topics", "timeout_ms", "validate_only")

    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsRequestTopic] = EMPTY,
        timeout_ms: int = 0,
        validate_only: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.topics, pos = read_array(data, pos, version, flexible, CreatePartitionsRequestTopic.read_from)
        self.timeout_ms, self.validate_only = unpack_it(data, pos)
        pos += 5
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
        write(pack_it(self.timeout_ms, self.validate_only))
        if flexible:
            write_tags(write, self.unknown_tags)


class CreatePartitionsResponseTopic(WireStruct):
    """An element of `results`."""

    __slots__ = ("name", "error_code", "error_message")

    def __init__(
        self,
        *,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.name, pos = read_string(data, pos, flexible)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, flexible)
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
        write(pack_h(self.error_code))
        write_nullable_string(write, self.error_message, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class CreatePartitionsResponse(Response):
    """CreatePartitionsResponse, version 0 to 3."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.results, pos = read_array(data, pos, version, flexible, CreatePartitionsResponseTopic.read_from)
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
        write_array(write, self.results, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
