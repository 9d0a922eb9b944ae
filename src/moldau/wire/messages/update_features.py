"""UpdateFeatures: raises or lowers the finalized versions of cluster features.

Generated from definitions/57_update_features.def; change that, not this.
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
    read_tags,
    write_array,
    write_nullable_string,
    write_string,
    write_tags,
)

unpack_b = Struct(">b").unpack_from
unpack_h = Struct(">h").unpack_from
unpack_i = Struct(">i").unpack_from
unpack_ih = Struct(">ih").unpack_from
unpack_t = Struct(">?").unpack_from
pack_b = Struct(">b").pack
pack_h = Struct(">h").pack
pack_i = Struct(">i").pack
pack_ih = Struct(">ih").pack
pack_t = Struct(">?").pack


class UpdateFeaturesRequestFeatureUpdate(WireStruct):
    """An element of `feature_updates`."""

    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")

    def __init__(
        self,
        *,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,  # version == 0
        upgrade_type: int = 1,  # version >= 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.feature, pos = read_string(data, pos, True)
        (self.max_version_level,) = unpack_h(data, pos)
        pos += 2
        if version == 0:
            (self.allow_downgrade,) = unpack_t(data, pos)
            pos += 1
        else:
            self.allow_downgrade = False
        if version >= 1:
            (self.upgrade_type,) = unpack_b(data, pos)
            pos += 1
        else:
            self.upgrade_type = 1
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.feature, True)
        write(pack_h(self.max_version_level))
        if version == 0:
            write(pack_t(self.allow_downgrade))
        if version >= 1:
            write(pack_b(self.upgrade_type))
        write_tags(write, self.unknown_tags)


class UpdateFeaturesRequest(Request):
    """UpdateFeaturesRequest, version 0 to 2."""

    __slots__ = ("timeout_ms", "feature_updates", "validate_only")

    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[UpdateFeaturesRequestFeatureUpdate] = EMPTY,
        validate_only: bool = False,  # version >= 1
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = [] if feature_updates is EMPTY else feature_updates
        self.validate_only = validate_only
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.timeout_ms,) = unpack_i(data, pos)
        pos += 4
        self.feature_updates, pos = read_array(data, pos, version, True, UpdateFeaturesRequestFeatureUpdate.read_from)
        if version >= 1:
            (self.validate_only,) = unpack_t(data, pos)
            pos += 1
        else:
            self.validate_only = False
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_i(self.timeout_ms))
        write_array(write, self.feature_updates, version, True)
        if version >= 1:
            write(pack_t(self.validate_only))
        write_tags(write, self.unknown_tags)


class UpdateFeaturesResponseFeature(WireStruct):
    """An element of `results`."""

    __slots__ = ("feature", "error_code", "error_message")

    def __init__(
        self,
        *,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.feature, pos = read_string(data, pos, True)
        (self.error_code,) = unpack_h(data, pos)
        pos += 2
        self.error_message, pos = read_nullable_string(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write_string(write, self.feature, True)
        write(pack_h(self.error_code))
        write_nullable_string(write, self.error_message, True)
        write_tags(write, self.unknown_tags)


class UpdateFeaturesResponse(Response):
    """UpdateFeaturesResponse, version 0 to 2."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")

    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdateFeaturesResponseFeature] = EMPTY,  # version <= 1
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
        if version <= 1:
            self.results, pos = read_array(data, pos, version, True, UpdateFeaturesResponseFeature.read_from)
        else:
            self.results = []
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_nullable_string(write, self.error_message, True)
        if version <= 1:
            write_array(write, self.results, version, True)
        write_tags(write, self.unknown_tags)
