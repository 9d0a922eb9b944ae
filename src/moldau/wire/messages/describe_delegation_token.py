"""DescribeDelegationToken: lists delegation tokens.

Generated from definitions/41_describe_delegation_token.def; change that, not this.
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
    read_nullable_array,
    read_string,
    read_tags,
    write_array,
    write_bytes,
    write_nullable_array,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_qqq = Struct(">qqq").unpack_from
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_qqq = Struct(">qqq").pack


class DescribeDelegationTokenRequestOwner(WireStruct):
    """An element of `owners`."""

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


class DescribeDelegationTokenRequest(Request):
    """DescribeDelegationTokenRequest, version 1 to 3."""

    __slots__ = ("owners",)

    API_KEY = 41
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenRequestOwner] | None = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.owners = [] if owners is EMPTY else owners
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.owners, pos = read_nullable_array(
            data, pos, version, flexible, DescribeDelegationTokenRequestOwner.read_from
        )
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 2
        write_nullable_array(write, self.owners, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeDelegationTokenResponseRenewer(WireStruct):
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


class DescribeDelegationTokenResponseToken(WireStruct):
    """An element of `tokens`."""

    __slots__ = (
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp",
        "expiry_timestamp",
        "max_timestamp",
        "token_id",
        "hmac",
        "renewers",
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",  # version >= 3
        token_requester_principal_name: str = "",  # version >= 3
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribeDelegationTokenResponseRenewer] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = [] if renewers is EMPTY else renewers
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        self.principal_type, pos = read_string(data, pos, flexible)
        self.principal_name, pos = read_string(data, pos, flexible)
        if version >= 3:
            self.token_requester_principal_type, pos = read_string(data, pos, flexible)
            self.token_requester_principal_name, pos = read_string(data, pos, flexible)
        else:
            self.token_requester_principal_type = ""
            self.token_requester_principal_name = ""
        self.issue_timestamp, self.expiry_timestamp, self.max_timestamp = unpack_qqq(data, pos)
        pos += 24
        self.token_id, pos = read_string(data, pos, flexible)
        self.hmac, pos = read_bytes(data, pos, flexible)
        self.renewers, pos = read_array(data, pos, version, flexible, DescribeDelegationTokenResponseRenewer.read_from)
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
        if version >= 3:
            write_string(write, self.token_requester_principal_type, flexible)
            write_string(write, self.token_requester_principal_name, flexible)
        write(pack_qqq(self.issue_timestamp, self.expiry_timestamp, self.max_timestamp))
        write_string(write, self.token_id, flexible)
        write_bytes(write, self.hmac, flexible)
        write_array(write, self.renewers, version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class DescribeDelegationTokenResponse(Response):
    """DescribeDelegationTokenResponse, version 1 to 3."""

    __slots__ = ("error_code", "tokens", "throttle_time_ms")

    API_KEY = 41
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        tokens: list[DescribeDelegationTokenResponseToken] = EMPTY,
        throttle_time_ms: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is EMPTY else tokens
        self.throttle_time_ms = throttle_time_ms
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 2
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.tokens, pos = read_array(data, pos, version, flexible, DescribeDelegationTokenResponseToken.read_from)
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
        write_array(write, self.tokens, version, flexible)
        write(pack_i(self.throttle_time_ms))
        if flexible:
            write_tags(write, self.unknown_tags)
