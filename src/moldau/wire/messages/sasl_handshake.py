"""SaslHandshake: chooses the SASL mechanism of a connection.

Generated from definitions/17_sasl_handshake.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response
from moldau.wire.primitives import EMPTY, NO_TAGS, Data, Write, read_string, read_strings, write_string, write_strings

unpack_h = Struct(">h").unpack_from
pack_h = Struct(">h").pack


class SaslHandshakeRequest(Request):
    """SaslHandshakeRequest, version 0 to 1."""

    __slots__ = ("mechanism",)

    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        mechanism: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.mechanism = mechanism
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.mechanism, pos = read_string(data, pos, False)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.mechanism, False)


class SaslHandshakeResponse(Response):
    """SaslHandshakeResponse, version 0 to 1."""

    __slots__ = ("error_code", "mechanisms")

    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = None

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is EMPTY else mechanisms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.mechanisms, pos = read_strings(data, pos, False)
        self.unknown_tags = NO_TAGS
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_h(self.error_code))
        write_strings(write, self.mechanisms, False)
