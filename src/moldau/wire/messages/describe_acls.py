"""DescribeAcls: lists the access rules that match a filter.

Generated from definitions/29_describe_acls.def; change that, not this.
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
unpack_ih = Struct(">ih").unpack_from
pack_b = Struct(">b").pack
pack_bb = Struct(">bb").pack
pack_ih = Struct(">ih").pack


class DescribeAclsRequest(Request):
    """DescribeAclsRequest, version 1 to 3."""

    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )

    API_KEY = 29
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

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


class DescribeAclsResponseAcl(WireStruct):
    """An element of `acls`."""

    __slots__ = ("principal", "host", "operation", "permission_type")

    def __init__(
        self,
        *,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
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
        write_string(write, self.principal, flexible)
        write_string(write, self.host, flexible)
        write(pack_bb(self.operation, self.permission_type))
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeAclsResponseResource(WireStruct):
    """An element of `resources`."""

    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[DescribeAclsResponseAcl] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = [] if acls is EMPTY else acls
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.resource_type,) = unpack_b(data, pos)
        pos += 1
        self.resource_name, pos = read_string(data, pos, flexible)
        (self.pattern_type,) = unpack_b(data, pos)
        pos += 1
        self.acls, pos = read_array(data, pos, version, flexible, DescribeAclsResponseAcl.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_b(self.resource_type))
        write_string(write, self.resource_name, flexible)
        write(pack_b(self.pattern_type))
        write_array(write, self.acls, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeAclsResponse(Response):
    """DescribeAclsResponse, version 1 to 3."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")

    API_KEY = 29
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResponseResource] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is EMPTY else resources
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, flexible)
        self.resources, pos = read_array(data, pos, version, flexible, DescribeAclsResponseResource.read_from)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, flexible)
        write_array(write, self.resources, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
