"""CreateDelegationToken: issues a delegation token.

Generated from definitions/38_create_delegation_token.def; change that, not this.
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
    read_bytes,
    read_nullable_string,
    read_string,
    read_tags,
    write_array,
    write_bytes,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_q = Struct(">q").unpack_from
unpack_qqq = Struct(">qqq").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_q = Struct(">q").pack
pack_qqq = Struct(">qqq").pack


class CreateDelegationTokenRequestRenewer(WireStruct):
    """An element of `renewers`."""

    __slots__ = ("principal_type", "principal_name")

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.principal_type, pos = read_string(data, pos, flexible)
        self.principal_name, pos = read_string(data, pos, flexible)
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_string(write, self.principal_type, flexible)
        write_string(write, self.principal_name, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class CreateDelegationTokenRequest(Request):
    """CreateDelegationTokenRequest, version 1 to 3."""

    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms")

    API_KEY = 38
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        owner_principal_type: str | None = "",  # version >= 3
        owner_principal_name: str | None = "",  # version >= 3
        renewers: list[CreateDelegationTokenRequestRenewer] = EMPTY,
        max_lifetime_ms: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is EMPTY else renewers
        self.max_lifetime_ms = max_lifetime_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        if version >= 3:
            self.owner_principal_type, pos = read_nullable_string(data, pos, flexible)
            self.owner_principal_name, pos = read_nullable_string(data, pos, flexible)
        else:
            self.owner_principal_type = ""
            self.owner_principal_name = ""
        self.renewers, pos = read_array(data, pos, version, flexible, CreateDelegationTokenRequestRenewer.read_from)
        (self.max_lifetime_ms,) = unpack_q(data, pos)
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
        if version >= 3:
            write_nullable_string(write, self.owner_principal_type, flexible)
            write_nullable_string(write, self.owner_principal_name, flexible)
        write_array(write, self.renewers, version, flexible)
        write(pack_q(self.max_lifetime_ms))
        if flexible:
            write_tags(write, self.unknown_tags)


class CreateDelegationTokenResponse(Response):
    """CreateDelegationTokenResponse, version 1 to 3."""

    __slots__ = (
        "error_code",
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
        "token_id",
        "hmac",
        "throttle_time_ms",
    )

    API_KEY = 38
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",  # version >= 3
        token_requester_principal_name: str = "",  # version >= 3
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.principal_type, pos = read_string(data, pos, flexible)
        self.principal_name, pos = read_string(data, pos, flexible)
        if version >= 3:
            self.token_requester_principal_type, pos = read_string(data, pos, flexible)
            self.token_requester_principal_name, pos = read_string(data, pos, flexible)
        else:
            self.token_requester_principal_type = ""
            self.token_requester_principal_name = ""
        self.issue_timestamp_ms, self.expiry_timestamp_ms, self.max_timestamp_ms = unpack_qqq(data, pos)
        pos += 24
        self.token_id, pos = read_string(data, pos, flexible)
        self.hmac, pos = read_bytes(data, pos, flexible)
        (self.throttle_time_ms,) = unpack_i(data, pos)
        pos += 4
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
        write_string(write, self.principal_type, flexible)
        write_string(write, self.principal_name, flexible)
        if version >= 3:
            write_string(write, self.token_requester_principal_type, flexible)
            write_string(write, self.token_requester_principal_name, flexible)
        write(pack_qqq(self.issue_timestamp_ms, self.expiry_timestamp_ms, self.max_timestamp_ms))
        write_string(write, self.token_id, flexible)
        write_bytes(write, self.hmac, flexible)
        write(pack_i(self.throttle_time_ms))
        if flexible:
            write_tags(write, self.unknown_tags)
