"""ApiVersions: tells a client which APIs and versions the broker serves; the first request of most connections.

Generated from definitions/18_api_versions.def; change that, not this.
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
    content,
    read_array,
    read_string,
    read_tags,
    write_array,
    write_string,
    write_tags,
)

unpack_h = Struct(">h").unpack_from
unpack_hh = Struct(">hh").unpack_from
unpack_hhh = Struct(">hhh").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_q = Struct(">q").unpack_from
unpack_t = Struct(">?").unpack_from
pack_h = Struct(">h").pack
pack_hh = Struct(">hh").pack
pack_hhh = Struct(">hhh").pack
pack_i = Struct(">i").pack
pack_q = Struct(">q").pack
pack_t = Struct(">?").pack


class ApiVersionsRequest(Request):
    """ApiVersionsRequest, version 0 to 4."""

    __slots__ = ("client_software_name", "client_software_version")

    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        client_software_name: str = "",  # version >= 3
        client_software_version: str = "",  # version >= 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        if version >= 3:
            self.client_software_name, pos = read_string(data, pos, flexible)
            self.client_software_version, pos = read_string(data, pos, flexible)
        else:
            self.client_software_name = ""
            self.client_software_version = ""
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        if version >= 3:
            write_string(write, self.client_software_name, flexible)
            write_string(write, self.client_software_version, flexible)
        if flexible:
            write_tags(write, self.unknown_tags)


class ApiVersionsResponseApiKey(WireStruct):
    """An element of `api_keys`."""

    __slots__ = ("api_key", "min_version", "max_version")

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        self.api_key, self.min_version, self.max_version = unpack_hhh(data, pos)
        pos += 6
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                self.unknown_tags, pos = read_tags(data, pos)
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write(pack_hhh(self.api_key, self.min_version, self.max_version))
        if flexible:
            write_tags(write, self.unknown_tags)


class ApiVersionsResponseSupportedFeature(WireStruct):
    """An element of `supported_features`."""

    __slots__ = ("name", "min_version", "max_version")

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.min_version, self.max_version = unpack_hh(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write(pack_hh(self.min_version, self.max_version))
        write_tags(write, self.unknown_tags)


class ApiVersionsResponseFinalizedFeature(WireStruct):
    """An element of `finalized_features`."""

    __slots__ = ("name", "max_version_level", "min_version_level")

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.name, pos = read_string(data, pos, True)
        self.max_version_level, self.min_version_level = unpack_hh(data, pos)
        pos += 4
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.name, True)
        write(pack_hh(self.max_version_level, self.min_version_level))
        write_tags(write, self.unknown_tags)


class ApiVersionsResponse(Response):
    """ApiVersionsResponse, version 0 to 4."""

    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    )

    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersionsResponseApiKey] = EMPTY,
        throttle_time_ms: int = 0,  # version >= 1
        supported_features: list[ApiVersionsResponseSupportedFeature] = EMPTY,  # version >= 3, tag 0
        finalized_features_epoch: int = -1,  # version >= 3, tag 1
        finalized_features: list[ApiVersionsResponseFinalizedFeature] = EMPTY,  # version >= 3, tag 2
        zk_migration_ready: bool = False,  # version >= 3, tag 3
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is EMPTY else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is EMPTY else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is EMPTY else finalized_features
        self.zk_migration_ready = zk_migration_ready
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        flexible = version >= 3
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.api_keys, pos = read_array(data, pos, version, flexible, ApiVersionsResponseApiKey.read_from)
        if version >= 1:
            (self.throttle_time_ms,) = unpack_i(data, pos)
            pos += 4
        else:
            self.throttle_time_ms = 0
        self.supported_features = []
        self.finalized_features_epoch = -1
        self.finalized_features = []
        self.zk_migration_ready = False
        self.unknown_tags = NO_TAGS
        if flexible:
            if data[pos]:
                tags, pos = read_tags(data, pos)
                if (raw := tags.pop(0, None)) is not None:
                    self.supported_features, _ = read_array(
                        raw, 0, version, True, ApiVersionsResponseSupportedFeature.read_from
                    )
                if (raw := tags.pop(1, None)) is not None:
                    (self.finalized_features_epoch,) = unpack_q(raw)
                if (raw := tags.pop(2, None)) is not None:
                    self.finalized_features, _ = read_array(
                        raw, 0, version, True, ApiVersionsResponseFinalizedFeature.read_from
                    )
                if (raw := tags.pop(3, None)) is not None:
                    (self.zk_migration_ready,) = unpack_t(raw)
                self.unknown_tags = tags
            else:
                pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        flexible = version >= 3
        write(pack_h(self.error_code))
        write_array(write, self.api_keys, version, flexible)
        if version >= 1:
            write(pack_i(self.throttle_time_ms))
        if flexible:
            tags = dict(self.unknown_tags)
            if self.supported_features:
                tags[0] = content(write_array, self.supported_features, version, True)
            if self.finalized_features_epoch != -1:
                tags[1] = pack_q(self.finalized_features_epoch)
            if self.finalized_features:
                tags[2] = content(write_array, self.finalized_features, version, True)
            if self.zk_migration_ready:
                tags[3] = pack_t(self.zk_migration_ready)
            write_tags(write, tags)
