"""UnregisterBroker: removes the registration of a broker that will not come back.

Generated from definitions/64_unregister_broker.def; change that, not this.
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
    read_tags,
    write_nullable_string,
    write_tags,
)

unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack


class UnregisterBrokerRequest(Request):
    """UnregisterBrokerRequest, version 0."""

    __slots__ = ("broker_id",)

    API_KEY = 64
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        broker_id: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.broker_id = broker_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.broker_id,) = unpack_i(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.broker_id))
        write_tags(write, self.unknown_tags)


class UnregisterBrokerResponse(Response):
    """UnregisterBrokerResponse, version 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    API_KEY = 64
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_tags(write, self.unknown_tags)
