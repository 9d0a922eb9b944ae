"""FindCoordinator: names the broker that coordinates a group, a transactional id or a share partition.

Generated from definitions/10_find_coordinator.def; change that, not this.
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
    read_strings,
    read_tags,
    write_array,
    write_nullable_string,
    write_string,
    write_strings,
    write_tags,
)

unpack_b = Struct(">b").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_b = Struct(">b").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack


class FindCoordinatorRequest(Request):
    """FindCoordinatorRequest, version 0 to 6."""

    __slots__ = ("key", "key_type", "coordinator_keys")

    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        key: str = "",  # version <= 3
        key_type: int = 0,  # version >= 1
        coordinator_keys: list[str] = EMPTY,  # version >= 4
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is EMPTY else coordinator_keys
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        if version <= 3:
            self.key, pos = read_string(data, pos, flexible)
        else:
            self.key = ""
        if version >= 1:
            (self.key_type,) = unpack_b(data, pos)
            pos += 1
        else:
            self.key_type = 0
        if version >= 4:
            self.coordinator_keys, pos = read_strings(data, pos, flexible)
        else:
            self.coordinator_keys = []
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        if version <= 3:
            write_string(write, self.key, flexible)
        if version >= 1:
            write(pack_b(self.key_type))
        if version >= 4:
            write_strings(write, self.coordinator_keys, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class FindCoordinatorResponseCoordinator(WireStruct):
    """An element of `coordinators`."""

    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.key, pos = read_string(data, pos, True)
        (self.node_id,) = unpack_i(data, pos)
        pos += 4
        self.host, pos = read_string(data, pos, True)
        self.port, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.key, True)
        write(pack_i(self.node_id))
        write_string(write, self.host, True)
        write(pack_ih(self.port, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_tags(write, self.unknown_tags)


class FindCoordinatorResponse(Response):
    """FindCoordinatorResponse, version 0 to 6."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")

    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 1
        error_code: int = 0,  # version <= 3
        error_message: str | None = "",  # 1 <= version <= 3
        node_id: int = 0,  # version <= 3
        host: str = "",  # version <= 3
        port: int = 0,  # version <= 3
        coordinators: list[FindCoordinatorResponseCoordinator] = EMPTY,  # version >= 4
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is EMPTY else coordinators
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        if version >= 1:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        if version <= 3:
            (self.error_code,) = unpack_h(data, pos)
            pos += 2
        else:
            self.error_code = 0
        if 1 <= version <= 3:
            self.error_message, pos = read_nullable_string(data, pos, flexible)
        else:
            self.error_message = ""
        if version <= 3:
            (self.node_id,) = unpack_i(data, pos)
            pos += 4
            self.host, pos = read_string(data, pos, flexible)
            (self.port,) = unpack_i(data, pos)
            pos += 4
        else:
            self.node_id = 0
            self.host = ""
            self.port = 0
        if version >= 4:
            self.coordinators, pos = read_array(
                data, pos, version, flexible, FindCoordinatorResponseCoordinator.read_from
            )
        else:
            self.coordinators = []
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        if version >= 1:
            write(pack_i(self.throttle_time_ms))
        if version <= 3:
            write(pack_h(self.error_code))
        if 1 <= version <= 3:
            write_nullable_string(write, self.error_message, flexible)
        if version <= 3:
            write(pack_i(self.node_id))
            write_string(write, self.host, flexible)
            write(pack_i(self.port))
        if version >= 4:
            write_array(write, self.coordinators, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)
