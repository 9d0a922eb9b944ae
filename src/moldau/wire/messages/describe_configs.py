"""DescribeConfigs: returns the configuration of topics, brokers and other resources, with sources and synonyms.

Generated from definitions/32_describe_configs.def; change that, not this.
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
    read_nullable_string,
    read_nullable_strings,
    read_string,
    read_tags,
    write_array,
    write_nullable_string,
    write_nullable_strings,
    write_string,
    write_tags,
)

unpack_b = Struct(">b").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_t = Struct(">?").unpack_from
unpack_tbt = Struct(">?b?").unpack_from
pack_b = Struct(">b").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_t = Struct(">?").pack
pack_tbt = Struct(">?b?").pack


class DescribeConfigsRequestResource(WireStruct):
    """An element of `resources`."""

    __slots__ = ("resource_type", "resource_name", "configuration_keys")

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = [] if configuration_keys is EMPTY else configuration_keys
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        (self.resource_type,) = unpack_b(data, pos)
        pos += 1
        self.resource_name, pos = read_string(data, pos, flexible)
        self.configuration_keys, pos = read_nullable_strings(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write(pack_b(self.resource_type))
        write_string(write, self.resource_name, flexible)
        write_nullable_strings(write, self.configuration_keys, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeConfigsRequest(Request):
    """DescribeConfigsRequest, version 1 to 4."""

    __slots__ = ("resources", "include_synonyms", "include_documentation")

    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsRequestResource] = EMPTY,
        include_synonyms: bool = False,
        include_documentation: bool = False,  # version >= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.resources = [] if resources is EMPTY else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.resources, pos = read_array(data, pos, version, flexible, DescribeConfigsRequestResource.read_from)
        (self.include_synonyms,) = unpack_t(data, pos)
        pos += 1
        if version >= 3:
            (self.include_documentation,) = unpack_t(data, pos)
            pos += 1
        else:
            self.include_documentation = False
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write_array(write, self.resources, version, flexible)
        write(pack_t(self.include_synonyms))
        if version >= 3:
            write(pack_t(self.include_documentation))
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeConfigsResponseSynonym(WireStruct):
    """An element of `synonyms`."""

    __slots__ = ("name", "value", "source")

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        source: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.name, pos = read_string(data, pos, flexible)
        self.value, pos = read_nullable_string(data, pos, flexible)
        (self.source,) = unpack_b(data, pos)
        pos += 1
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write_string(write, self.name, flexible)
        write_nullable_string(write, self.value, flexible)
        write(pack_b(self.source))
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeConfigsResponseConfig(WireStruct):
    """An element of `configs`."""

    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
        "synonyms",
        "config_type",
        "documentation",
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsResponseSynonym] = EMPTY,
        config_type: int = 0,  # version >= 3
        documentation: str | None = "",  # version >= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is EMPTY else synonyms
        self.config_type = config_type
        self.documentation = documentation
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.name, pos = read_string(data, pos, flexible)
        self.value, pos = read_nullable_string(data, pos, flexible)
        self.read_only, self.config_source, self.is_sensitive = unpack_tbt(data, pos)
        pos += 3
        self.synonyms, pos = read_array(data, pos, version, flexible, DescribeConfigsResponseSynonym.read_from)
        if version >= 3:
            (self.config_type,) = unpack_b(data, pos)
            pos += 1
            self.documentation, pos = read_nullable_string(data, pos, flexible)
        else:
            self.config_type = 0
            self.documentation = ""
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write_string(write, self.name, flexible)
        write_nullable_string(write, self.value, flexible)
        write(pack_tbt(self.read_only, self.config_source, self.is_sensitive))
        write_array(write, self.synonyms, version, flexible)
        if version >= 3:
            write(pack_b(self.config_type))
            write_nullable_string(write, self.documentation, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeConfigsResponseResource(WireStruct):
    """An element of `results`."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResponseConfig] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is EMPTY else configs
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, flexible)
        (self.resource_type,) = unpack_b(data, pos)
        pos += 1
        self.resource_name, pos = read_string(data, pos, flexible)
        self.configs, pos = read_array(data, pos, version, flexible, DescribeConfigsResponseConfig.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write(pack_h(self.error_code))
        write_nullable_string(write, self.error_message, flexible)
        write(pack_b(self.resource_type))
        write_string(write, self.resource_name, flexible)
        write_array(write, self.configs, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeConfigsResponse(Response):
    """DescribeConfigsResponse, version 1 to 4."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResponseResource] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.results, pos = read_array(data, pos, version, flexible, DescribeConfigsResponseResource.read_from)
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
        write_array(write, self.results, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
