"""ListConfigResources: lists the resources that have a configuration.

Generated from definitions/74_list_config_resources.def; change that, not this.
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
    read_numbers,
    read_string,
    read_tags,
    write_array,
    write_numbers,
    write_string,
    write_tags,
)

unpack_b = Struct(">b").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_b = Struct(">b").pack
pack_ih = Struct(">ih").pack


class ListConfigResourcesRequest(Request):
    """ListConfigResourcesRequest, version 0 to 1."""

    __slots__ = ("resource_types",)

    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        resource_types: list[int] = EMPTY,  # version >= 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.resource_types = [] if resource_types is EMPTY else resource_types
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        if version >= 1:
            self.resource_types, pos = read_numbers(data, pos, True, "b")
        else:
            self.resource_types = []
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        if version >= 1:
            write_numbers(write, self.resource_types, True, "b")
        write_tags(write, self.unknown_tags)


class ListConfigResourcesResponseConfigResource(WireStruct):
    """An element of `config_resources`."""

    __slots__ = ("resource_name", "resource_type")

    def __init__(
        self,
        *,
        resource_name: str = "",
        resource_type: int = 16,  # version >= 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.resource_name, pos = read_string(data, pos, True)
        if version >= 1:
            (self.resource_type,) = unpack_b(data, pos)
            pos += 1
        else:
            self.resource_type = 16
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.resource_name, True)
        if version >= 1:
            write(pack_b(self.resource_type))
        write_tags(write, self.unknown_tags)


class ListConfigResourcesResponse(Response):
    """ListConfigResourcesResponse, version 0 to 1."""

    __slots__ = ("throttle_time_ms", "error_code", "config_resources")

    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ListConfigResourcesResponseConfigResource] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is EMPTY else config_resources
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.config_resources, pos = read_array(
            data, pos, version, True, ListConfigResourcesResponseConfigResource.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_array(write, self.config_resources, version, True)
        write_tags(write, self.unknown_tags)
