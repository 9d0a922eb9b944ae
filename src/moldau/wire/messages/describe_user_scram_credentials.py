"""DescribeUserScramCredentials: lists which SCRAM mechanisms users have credentials for.

Generated from definitions/50_describe_user_scram_credentials.def; change that, not this.
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
    read_nullable_array,
    read_nullable_string,
    read_string,
    read_tags,
    write_array,
    write_nullable_array,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_bi = Struct(">bi").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_bi = Struct(">bi").pack
pack_h = Struct(">h").pack
pack_ih = Struct(">ih").pack


class DescribeUserScramCredentialsRequestUser(WireStruct):
    """An element of `users`."""

    __slots__ = ("name",)

    def __init__(
        self,
        *,
        name: str = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write_tags(write, self.unknown_tags)


class DescribeUserScramCredentialsRequest(Request):
    """DescribeUserScramCredentialsRequest, version 0."""

    __slots__ = ("users",)

    API_KEY = 50
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        users: list[DescribeUserScramCredentialsRequestUser] | None = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.users = [] if users is EMPTY else users
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.users, pos = read_nullable_array(
            data, pos, version, True, DescribeUserScramCredentialsRequestUser.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_nullable_array(write, self.users, version, True)
        write_tags(write, self.unknown_tags)


class DescribeUserScramCredentialsResponseCredentialInfo(WireStruct):
    """An element of `credential_infos`."""

    __slots__ = ("mechanism", "iterations")

    def __init__(
        self,
        *,
        mechanism: int = 0,
        iterations: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.mechanism, self.iterations = unpack_bi(data, pos)
        pos += 5
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_bi(self.mechanism, self.iterations))
        write_tags(write, self.unknown_tags)


class DescribeUserScramCredentialsResponseUser(WireStruct):
    """An element of `results`."""

    __slots__ = ("user", "error_code", "error_message", "credential_infos")

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: list[DescribeUserScramCredentialsResponseCredentialInfo] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = [] if credential_infos is EMPTY else credential_infos
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.user, pos = read_string(data, pos, True)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.credential_infos, pos = read_array(
            data, pos, version, True, DescribeUserScramCredentialsResponseCredentialInfo.read_from
        )
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.user, True)
        write(pack_h(self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_array(write, self.credential_infos, version, True)
        write_tags(write, self.unknown_tags)


class DescribeUserScramCredentialsResponse(Response):
    """DescribeUserScramCredentialsResponse, version 0."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")

    API_KEY = 50
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResponseUser] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is EMPTY else results
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.results, pos = read_array(data, pos, version, True, DescribeUserScramCredentialsResponseUser.read_from)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_array(write, self.results, version, True)
        write_tags(write, self.unknown_tags)
