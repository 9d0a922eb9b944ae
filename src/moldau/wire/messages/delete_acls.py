"""DeleteAcls: deletes the access rules that match filters.

Generated from definitions/31_delete_acls.def; change that, not this.
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

unpack_b = Struct(">b").unpack_from
unpack_bb = Struct(">bb").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
pack_b = Struct(">b").pack
pack_bb = Struct(">bb").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack


class DeleteAclsRequestFilter(WireStruct):
    """An element of `filters`."""

    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.resource_type_filter,) = unpack_b(data, pos)
        pos += 1
        self.resource_name_filter, pos = read_nullable_string(data, pos, flexible)
        (self.pattern_type_filter,) = unpack_b(data, pos)
        pos += 1
        self.principal_filter, pos = read_nullable_string(data, pos, flexible)
        self.host_filter, pos = read_nullable_string(data, pos, flexible)
        self.operation, self.permission_type = unpack_bb(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_b(self.resource_type_filter))
        write_nullable_string(write, self.resource_name_filter, flexible)
        write(pack_b(self.pattern_type_filter))
        write_nullable_string(write, self.principal_filter, flexible)
        write_nullable_string(write, self.host_filter, flexible)
        write(pack_bb(self.operation, self.permission_type))
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteAclsRequest(Request):
    """DeleteAclsRequest, version 1 to 3."""

    __slots__ = ("filters",)

    API_KEY = 31
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        filters: list[DeleteAclsRequestFilter] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.filters = [] if filters is EMPTY else filters
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.filters, pos = read_array(data, pos, version, flexible, DeleteAclsRequestFilter.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_array(write, self.filters, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteAclsResponseMatchingAcl(WireStruct):
    """An element of `matching_acls`."""

    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, flexible)
        (self.resource_type,) = unpack_b(data, pos)
        pos += 1
        self.resource_name, pos = read_string(data, pos, flexible)
        (self.pattern_type,) = unpack_b(data, pos)
        pos += 1
        self.principal, pos = read_string(data, pos, flexible)
        self.host, pos = read_string(data, pos, flexible)
        self.operation, self.permission_type = unpack_bb(data, pos)
        pos += 2
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
        write_nullable_string(write, self.error_message, flexible)
        write(pack_b(self.resource_type))
        write_string(write, self.resource_name, flexible)
        write(pack_b(self.pattern_type))
        write_string(write, self.principal, flexible)
        write_string(write, self.host, flexible)
        write(pack_bb(self.operation, self.permission_type))
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteAclsResponseFilter(WireStruct):
    """An element of `filter_results`."""

    __slots__ = ("error_code", "error_message", "matching_acls")

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: list[DeleteAclsResponseMatchingAcl] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = [] if matching_acls is EMPTY else matching_acls
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, flexible)
        self.matching_acls, pos = read_array(data, pos, version, flexible, DeleteAclsResponseMatchingAcl.read_from)
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
        write_nullable_string(write, self.error_message, flexible)
        write_array(write, self.matching_acls, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DeleteAclsResponse(Response):
    """DeleteAclsResponse, version 1 to 3."""

    __slots__ = ("throttle_time_ms", "filter_results")

    API_KEY = 31
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsResponseFilter] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = [] if filter_results is EMPTY else filter_results
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
        self.filter_results, pos = read_array(data, pos, version, flexible, DeleteAclsResponseFilter.read_from)
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
        write_array(write, self.filter_results, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
