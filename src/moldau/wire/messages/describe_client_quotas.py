"""DescribeClientQuotas: lists the quotas that match a filter.

Generated from definitions/48_describe_client_quotas.def; change that, not this.
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
    read_string,
    read_tags,
    write_array,
    write_nullable_array,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_b = Struct(">b").unpack_from
unpack_d = Struct(">d").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_t = Struct(">?").unpack_from
pack_b = Struct(">b").pack
pack_d = Struct(">d").pack
pack_ih = Struct(">ih").pack
pack_t = Struct(">?").pack


class DescribeClientQuotasRequestComponent(WireStruct):
    """An element of `components`."""

    __slots__ = ("entity_type", "match_type", "match")

    def __init__(
        self,
        *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.entity_type, pos = read_string(data, pos, flexible)
        (self.match_type,) = unpack_b(data, pos)
        pos += 1
        self.match, pos = read_nullable_string(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write_string(write, self.entity_type, flexible)
        write(pack_b(self.match_type))
        write_nullable_string(write, self.match, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeClientQuotasRequest(Request):
    """DescribeClientQuotasRequest, version 0 to 1."""

    __slots__ = ("components", "strict")

    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        components: list[DescribeClientQuotasRequestComponent] = EMPTY,
        strict: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.components = [] if components is EMPTY else components
        self.strict = strict
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.components, pos = read_array(data, pos, version, flexible, DescribeClientQuotasRequestComponent.read_from)
        (self.strict,) = unpack_t(data, pos)
        pos += 1
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write_array(write, self.components, version, flexible)
        write(pack_t(self.strict))
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeClientQuotasResponseEntity(WireStruct):
    """An element of `entity`."""

    __slots__ = ("entity_type", "entity_name")

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.entity_type, pos = read_string(data, pos, flexible)
        self.entity_name, pos = read_nullable_string(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write_string(write, self.entity_type, flexible)
        write_nullable_string(write, self.entity_name, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeClientQuotasResponseValue(WireStruct):
    """An element of `values`."""

    __slots__ = ("key", "value")

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.key = key
        self.value = value
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.key, pos = read_string(data, pos, flexible)
        (self.value,) = unpack_d(data, pos)
        pos += 8
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write_string(write, self.key, flexible)
        write(pack_d(self.value))
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeClientQuotasResponseEntry(WireStruct):
    """An element of `entries`."""

    __slots__ = ("entity", "values")

    def __init__(
        self,
        *,
        entity: list[DescribeClientQuotasResponseEntity] = EMPTY,
        values: list[DescribeClientQuotasResponseValue] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.entity = [] if entity is EMPTY else entity
        self.values = [] if values is EMPTY else values
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.entity, pos = read_array(data, pos, version, flexible, DescribeClientQuotasResponseEntity.read_from)
        self.values, pos = read_array(data, pos, version, flexible, DescribeClientQuotasResponseValue.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write_array(write, self.entity, version, flexible)
        write_array(write, self.values, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeClientQuotasResponse(Response):
    """DescribeClientQuotasResponse, version 0 to 1."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")

    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[DescribeClientQuotasResponseEntry] | None = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = [] if entries is EMPTY else entries
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, flexible)
        self.entries, pos = read_nullable_array(
            data, pos, version, flexible, DescribeClientQuotasResponseEntry.read_from
        )
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, flexible)
        write_nullable_array(write, self.entries, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
