"""PushTelemetry: sends client metrics to the broker.

Generated from definitions/72_push_telemetry.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response
from moldau.wire.primitives import NO_TAGS, ZERO_UUID, Data, Write, read_bytes, read_tags, write_bytes, write_tags

unpack_16sitb = Struct(">16si?b").unpack_from
unpack_ih = Struct(">ih").unpack_from
pack_16sitb = Struct(">16si?b").pack
pack_ih = Struct(">ih").pack


class PushTelemetryRequest(Request):
    """PushTelemetryRequest, version 0."""

    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics")

    API_KEY = 72
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.client_instance_id, self.subscription_id, self.terminating, self.compression_type = unpack_16sitb(
            data, pos
        )
        pos += 22
        self.metrics, pos = read_bytes(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_16sitb(self.client_instance_id, self.subscription_id, self.terminating, self.compression_type))
        write_bytes(write, self.metrics, True)
        write_tags(write, self.unknown_tags)


class PushTelemetryResponse(Response):
    """PushTelemetryResponse, version 0."""

    __slots__ = ("throttle_time_ms", "error_code")

    API_KEY = 72
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code = unpack_ih(data, pos)
        pos += 6
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih(self.throttle_time_ms, self.error_code))
        write_tags(write, self.unknown_tags)
