"""SaslAuthenticate: carries one step of the SASL exchange.

Generated from definitions/36_sasl_authenticate.def; change that, not this.
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
    read_bytes,
    read_nullable_string,
    read_tags,
    write_bytes,
    write_nullable_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_q = Struct(">q").unpack_from
pack_h = Struct(">h").pack
pack_q = Struct(">q").pack


class SaslAuthenticateRequest(Request):
    """SaslAuthenticateRequest, version 0 to 2."""

    __slots__ = ("auth_bytes",)

    API_KEY = 36
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        auth_bytes: bytes = b"",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.auth_bytes = auth_bytes
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.auth_bytes, pos = read_bytes(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_bytes(write, self.auth_bytes, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class SaslAuthenticateResponse(Response):
    """SaslAuthenticateResponse, version 0 to 2."""

    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")

    API_KEY = 36
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,  # version >= 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, flexible)
        self.auth_bytes, pos = read_bytes(data, pos, flexible)
        if version >= 1:
            (self.session_lifetime_ms,) = unpack_q(data, pos)
            pos += 8
        else:
            self.session_lifetime_ms = 0
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
        write_bytes(write, self.auth_bytes, flexible)
        if version >= 1:
            write(pack_q(self.session_lifetime_ms))
        if flexible:
            write_tags(write, self.unknown_tags)
