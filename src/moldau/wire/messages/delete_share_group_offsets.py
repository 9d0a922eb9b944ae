"""DeleteShareGroupOffsets: deletes what a share group has read of topics.

Generated from definitions/92_delete_share_group_offsets.def; change that, not this.
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
    read_tags,
    write_array,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_16sh = Struct(">16sh").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_16sh = Struct(">16sh").pack
pack_ih = Struct(">ih").pack


class DeleteShareGroupOffsetsRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("topic_name",)

    def __init__(
        self,
        *,
        topic_name: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_name = topic_name
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic_name, pos = read_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic_name, True)
        write_tags(write, self.unknown_tags)


class DeleteShareGroupOffsetsRequest(Request):
    """DeleteShareGroupOffsetsRequest, version 0."""

    __slots__ = ("group_id", "topics")

    API_KEY = 92
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteShareGroupOffsetsRequestTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.group_id, pos = read_string(data, pos, True)
        self.topics, pos = read_array(data, pos, version, True, DeleteShareGroupOffsetsRequestTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.group_id, True)
        write_array(write, self.topics, version, True)
        write_tags(write, self.unknown_tags)


class DeleteShareGroupOffsetsResponseTopic(WireStruct):
    """An element of `responses`."""

    __slots__ = ("topic_name", "topic_id", "error_code", "error_message")

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.topic_name, pos = read_string(data, pos, True)
        self.topic_id, self.error_code = unpack_16sh(data, pos)
        pos += 18
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.topic_name, True)
        write(pack_16sh(self.topic_id, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_tags(write, self.unknown_tags)


class DeleteShareGroupOffsetsResponse(Response):
    """DeleteShareGroupOffsetsResponse, version 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")

    API_KEY = 92
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is EMPTY else responses
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.responses, pos = read_array(data, pos, version, True, DeleteShareGroupOffsetsResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_array(write, self.responses, version, True)
        write_tags(write, self.unknown_tags)
