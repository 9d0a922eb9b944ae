"""ExpireDelegationToken: changes when a delegation token expires, or ends it at once.

Generated from definitions/40_expire_delegation_token.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response
from moldau.wire.primitives import NO_TAGS, Data, Write, read_bytes, read_tags, write_bytes, write_tags

unpack_hqi = Struct(">hqi").unpack_from
unpack_q = Struct(">q").unpack_from
pack_hqi = Struct(">hqi").pack
pack_q = Struct(">q").pack


class ExpireDelegationTokenRequest(Request):
    """ExpireDelegationTokenRequest, version 1 to 2."""

    __slots__ = ("hmac", "expiry_time_period_ms")

    API_KEY = 40
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        expiry_time_period_ms: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.hmac = hmac
        self.expiry_time_period_ms = expiry_time_period_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.hmac, pos = read_bytes(data, pos, flexible)
        (self.expiry_time_period_ms,) = unpack_q(data, pos)
        pos += 8
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_bytes(write, self.hmac, flexible)
        write(pack_q(self.expiry_time_period_ms))
        if flexible:
            write_tags(write, self.unknown_tags)


class ExpireDelegationTokenResponse(Response):
    """ExpireDelegationTokenResponse, version 1 to 2."""

    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")

    API_KEY = 40
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.error_code, self.expiry_timestamp_ms, self.throttle_time_ms = unpack_hqi(data, pos)
        pos += 14
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write(pack_hqi(self.error_code, self.expiry_timestamp_ms, self.throttle_time_ms))
        if flexible:
            write_tags(write, self.unknown_tags)
