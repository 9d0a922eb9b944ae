"""DeleteTopics: deletes topics, by name or by id.

Generated from definitions/20_delete_topics.def; change that, not this.
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
    read_strings,
    read_tags,
    require,
    write_array,
    write_nullable_string,
    write_string,
    write_strings,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
pack_16s = Struct(">16s").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack


class DeleteTopicsRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "topic_id")

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_nullable_string(data, pos, True)
        (self.topic_id,) = unpack_16s(data, pos)
        pos += 16
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_nullable_string(write, self.name, True)
        write(pack_16s(self.topic_id))
        write_tags(write, self.unknown_tags)


class DeleteTopicsRequest(Request):
    """DeleteTopicsRequest, version 1 to 6."""

    __slots__ = ("topics", "topic_names", "timeout_ms")

    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        topics: list[DeleteTopicsRequestTopic] = EMPTY,  # version >= 6
        topic_names: list[str] = EMPTY,  # version <= 5
        timeout_ms: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.topic_names = [] if topic_names is EMPTY else topic_names
        self.timeout_ms = timeout_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        if version >= 6:
            self.topics, pos = read_array(data, pos, version, flexible, DeleteTopicsRequestTopic.read_from)
        else:
            self.topics = []
        if version <= 5:
            self.topic_names, pos = read_strings(data, pos, flexible)
        else:
            self.topic_names = []
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
        flexible = version >= 4
        if version >= 6:
            write_array(write, self.topics, version, flexible)
        if version <= 5:
            write_strings(write, self.topic_names, flexible)
        write(pack_i(self.timeout_ms))
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteTopicsResponseTopic(WireStruct):
    """An element of `responses`."""

    __slots__ = ("name", "topic_id", "error_code", "error_message")

    def __init__(
        self,
        *,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,  # version >= 6
        error_code: int = 0,
        error_message: str | None = None,  # version >= 5
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        if version >= 6:
            self.name, pos = read_nullable_string(data, pos, flexible)
        else:
            self.name, pos = read_string(data, pos, flexible)
        if version >= 6:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        if version >= 5:
            self.error_message, pos = read_nullable_string(data, pos, flexible)
        else:
            self.error_message = None
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        if version >= 6:
            write_nullable_string(write, self.name, flexible)
        else:
            write_string(write, require(self.name, "name", version), flexible)
        if version >= 6:
            write(pack_16s(self.topic_id))
        write(pack_h(self.error_code))
        if version >= 5:
            write_nullable_string(write, self.error_message, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteTopicsResponse(Response):
    """DeleteTopicsResponse, version 1 to 6."""

    __slots__ = ("throttle_time_ms", "responses")

    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeleteTopicsResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is EMPTY else responses
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.responses, pos = read_array(data, pos, version, flexible, DeleteTopicsResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.responses, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
