"""Heartbeat: keeps a member of a classic group alive.

Generated from definitions/12_heartbeat.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response
from moldau.wire.primitives import (
    NO_TAGS,
    Data,
    Write,
    read_nullable_string,
    read_string,
    read_tags,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack


class HeartbeatRequest(Request):
    """HeartbeatRequest, version 0 to 4."""

    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")

    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,  # version >= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        self.group_id, pos = read_string(data, pos, flexible)
        (self.generation_id,) = unpack_i(data, pos)
        pos += 4
        self.member_id, pos = read_string(data, pos, flexible)
        if version >= 3:
            self.group_instance_id, pos = read_nullable_string(data, pos, flexible)
        else:
            self.group_instance_id = None
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        write_string(write, self.group_id, flexible)
        write(pack_i(self.generation_id))
        write_string(write, self.member_id, flexible)
        if version >= 3:
            write_nullable_string(write, self.group_instance_id, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class HeartbeatResponse(Response):
    """HeartbeatResponse, version 0 to 4."""

    __slots__ = ("throttle_time_ms", "error_code")

    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,  # version >= 1
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 4
        if version >= 1:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 4
        if version >= 1:
            write(pack_i(self.throttle_time_ms))
        write(pack_h(self.error_code))
        if flexible:
            write_tags(write, self.unknown_tags)
