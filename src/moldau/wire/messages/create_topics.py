"""CreateTopics: creates topics.

Generated from definitions/19_create_topics.def; change that, not this.
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
unpack_ih = Struct(">ih").unpack_from
unpack_it = Struct(">i?").unpack_from
unpack_tbt = Struct(">?b?").unpack_from
pack_16s = Struct(">16s").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_it = Struct(">i?").pack
pack_tbt = Struct(">?b?").pack


class CreateTopicsRequestAssignment(WireStruct):
    """An element of `assignments`."""

    __slots__ = ("partition_index", "broker_ids")

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: list[int] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is EMPTY else broker_ids
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 5
        (self.partition_index,) = unpack_i(data, pos)
        pos += 4
        self.broker_ids, pos = read_numbers(data, pos, flexible, "i")
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 5
        write(pack_i(self.partition_index))
        write_numbers(write, self.broker_ids, flexible, "i")
        if flexible:
            write_tags(write, self.unknown_tags)


class CreateTopicsRequestConfig(WireStruct):
    """An element of `configs`."""

    __slots__ = ("name", "value")

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 5
        self.name, pos = read_string(data, pos, flexible)
        self.value, pos = read_nullable_string(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 5
        write_string(write, self.name, flexible)
        write_nullable_string(write, self.value, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class CreateTopicsRequestTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreateTopicsRequestAssignment] = EMPTY,
        configs: list[CreateTopicsRequestConfig] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is EMPTY else assignments
        self.configs = [] if configs is EMPTY else configs
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 5
        self.name, pos = read_string(data, pos, flexible)
        self.num_partitions, self.replication_factor = unpack_ih(data, pos)
        pos += 6
        self.assignments, pos = read_array(data, pos, version, flexible, CreateTopicsRequestAssignment.read_from)
        self.configs, pos = read_array(data, pos, version, flexible, CreateTopicsRequestConfig.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 5
        write_string(write, self.name, flexible)
        write(pack_ih(self.num_partitions, self.replication_factor))
        write_array(write, self.assignments, version, flexible)
        write_array(write, self.configs, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class CreateTopicsRequest(Request):
    """CreateTopicsRequest, version 2 to 7."""

    __slots__ = ("topics", "timeout_ms", "validate_only")

    API_KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        topics: list[CreateTopicsRequestTopic] = EMPTY,
        timeout_ms: int = 60000,
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
        flexible = version >= 5
        self.topics, pos = read_array(data, pos, version, flexible, CreateTopicsRequestTopic.read_from)
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
        flexible = version >= 5
        write_array(write, self.topics, version, flexible)
        write(pack_it(self.timeout_ms, self.validate_only))
        if flexible:
            write_tags(write, self.unknown_tags)


class CreateTopicsResponseConfig(WireStruct):
    """An element of `configs`."""

    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.value, pos = read_nullable_string(data, pos, True)
        self.read_only, self.config_source, self.is_sensitive = unpack_tbt(data, pos)
        pos += 3
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_nullable_string(write, self.value, True)
        write(pack_tbt(self.read_only, self.config_source, self.is_sensitive))
        write_tags(write, self.unknown_tags)


class CreateTopicsResponseTopic(WireStruct):
    """An element of `topics`."""

    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,  # version >= 7
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,  # version >= 5, tag 0
        num_partitions: int = -1,  # version >= 5
        replication_factor: int = -1,  # version >= 5
        configs: list[CreateTopicsResponseConfig] | None = EMPTY,  # version >= 5
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = [] if configs is EMPTY else configs
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 5
        self.name, pos = read_string(data, pos, flexible)
        if version >= 7:
            (self.topic_id,) = unpack_16s(data, pos)
            pos += 16
        else:
            self.topic_id = ZERO_UUID
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, flexible)
        if version >= 5:
            self.num_partitions, self.replication_factor = unpack_ih(data, pos)
            pos += 6
            self.configs, pos = read_nullable_array(data, pos, version, flexible, CreateTopicsResponseConfig.read_from)
        else:
            self.num_partitions = -1
            self.replication_factor = -1
            self.configs = []
        self.topic_config_error_code = 0
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                tags, pos = read_tags(data, pos)
                if (raw := tags.pop(0, None)) is not None:
                    (self.topic_config_error_code,) = unpack_h(raw)
                self.unknown_tags = tags
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 5
        write_string(write, self.name, flexible)
        if version >= 7:
            write(pack_16s(self.topic_id))
        write(pack_h(self.error_code))
        write_nullable_string(write, self.error_message, flexible)
        if version >= 5:
            write(pack_ih(self.num_partitions, self.replication_factor))
            write_nullable_array(write, self.configs, version, flexible)
        if flexible:
            tags = dict(self.unknown_tags)
            if self.topic_config_error_code != 0:
                tags[0] = pack_h(self.topic_config_error_code)
            write_tags(write, tags)


class CreateTopicsResponse(Response):
    """CreateTopicsResponse, version 2 to 7."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[CreateTopicsResponseTopic] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 5
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.topics, pos = read_array(data, pos, version, flexible, CreateTopicsResponseTopic.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 5
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.topics, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
