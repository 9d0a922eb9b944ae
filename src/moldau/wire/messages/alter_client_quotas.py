"""AlterClientQuotas: sets and removes quotas.

Generated from definitions/49_alter_client_quotas.def; change that, not this.
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
    read_string,
    read_tags,
    write_array,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_dt = Struct(">d?").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_t = Struct(">?").unpack_from
pack_dt = Struct(">d?").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_t = Struct(">?").pack


class AlterClientQuotasRequestEntity(WireStruct):
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


class AlterClientQuotasRequestOp(WireStruct):
    """An element of `ops`."""

    __slots__ = ("key", "value", "remove")

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.key, pos = read_string(data, pos, flexible)
        self.value, self.remove = unpack_dt(data, pos)
        pos += 9
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
        write(pack_dt(self.value, self.remove))
        if flexible:
            write_tags(write, self.unknown_tags)


class AlterClientQuotasRequestEntry(WireStruct):
    """An element of `entries`."""

    __slots__ = ("entity", "ops")

    def __init__(
        self,
        *,
        entity: list[AlterClientQuotasRequestEntity] = EMPTY,
        ops: list[AlterClientQuotasRequestOp] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.entity = [] if entity is EMPTY else entity
        self.ops = [] if ops is EMPTY else ops
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.entity, pos = read_array(data, pos, version, flexible, AlterClientQuotasRequestEntity.read_from)
        self.ops, pos = read_array(data, pos, version, flexible, AlterClientQuotasRequestOp.read_from)
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
        write_array(write, self.ops, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class AlterClientQuotasRequest(Request):
    """AlterClientQuotasRequest, version 0 to 1."""

    __slots__ = ("entries", "validate_only")

    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        entries: list[AlterClientQuotasRequestEntry] = EMPTY,
        validate_only: bool = False,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.entries = [] if entries is EMPTY else entries
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        self.entries, pos = read_array(data, pos, version, flexible, AlterClientQuotasRequestEntry.read_from)
        (self.validate_only,) = unpack_t(data, pos)
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
        write_array(write, self.entries, version, flexible)
        write(pack_t(self.validate_only))
        if flexible:
            write_tags(write, self.unknown_tags)


class AlterClientQuotasResponseEntity(WireStruct):
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


class AlterClientQuotasResponseEntry(WireStruct):
    """An element of `entries`."""

    __slots__ = ("error_code", "error_message", "entity")

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[AlterClientQuotasResponseEntity] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is EMPTY else entity
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, flexible)
        self.entity, pos = read_array(data, pos, version, flexible, AlterClientQuotasResponseEntity.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write(pack_h(self.error_code))
        write_nullable_string(write, self.error_message, flexible)
        write_array(write, self.entity, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class AlterClientQuotasResponse(Response):
    """AlterClientQuotasResponse, version 0 to 1."""

    __slots__ = ("throttle_time_ms", "entries")

    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[AlterClientQuotasResponseEntry] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is EMPTY else entries
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 1
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.entries, pos = read_array(data, pos, version, flexible, AlterClientQuotasResponseEntry.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 1
        write(pack_i(self.throttle_time_ms))
        write_array(write, self.entries, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
