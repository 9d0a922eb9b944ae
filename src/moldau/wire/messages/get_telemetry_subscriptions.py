"""GetTelemetrySubscriptions: asks which client metrics the broker wants.

Generated from definitions/71_get_telemetry_subscriptions.def; change that, not this.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Self

from moldau.wire.message import Request, Response
from moldau.wire.primitives import (
    EMPTY,
    NO_TAGS,
    ZERO_UUID,
    Data,
    Write,
    read_numbers,
    read_strings,
    read_tags,
    write_numbers,
    write_strings,
    write_tags,
)

unpack_16s = Struct(">16s").unpack_from
unpack_ih16si = Struct(">ih16si").unpack_from
unpack_iit = Struct(">ii?").unpack_from
pack_16s = Struct(">16s").pack
pack_ih16si = Struct(">ih16si").pack
pack_iit = Struct(">ii?").pack


class GetTelemetrySubscriptionsRequest(Request):
    """GetTelemetrySubscriptionsRequest, version 0."""

    __slots__ = ("client_instance_id",)

    API_KEY = 71
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        client_instance_id: bytes = ZERO_UUID,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.client_instance_id = client_instance_id
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        (self.client_instance_id,) = unpack_16s(data, pos)
        pos += 16
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_16s(self.client_instance_id))
        write_tags(write, self.unknown_tags)


class GetTelemetrySubscriptionsResponse(Response):
    """GetTelemetrySubscriptionsResponse, version 0."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "client_instance_id",
        "subscription_id",
        "accepted_compression_types",
        "push_interval_ms",
        "telemetry_max_bytes",
        "delta_temporality",
        "requested_metrics",
    )

    API_KEY = 71
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = EMPTY,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = EMPTY,
        unknown_tags: Mapping[int, bytes] = NO_TAGS,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.accepted_compression_types = [] if accepted_compression_types is EMPTY else accepted_compression_types
        self.push_interval_ms = push_interval_ms
        self.telemetry_max_bytes = telemetry_max_bytes
        self.delta_temporality = delta_temporality
        self.requested_metrics = [] if requested_metrics is EMPTY else requested_metrics
        self.unknown_tags = unknown_tags

    @classmethod
    def read_from(cls, data: Data, pos: int, version: int) -> tuple[Self, int]:
        self = cls.__new__(cls)
        self.throttle_time_ms, self.error_code, self.client_instance_id, self.subscription_id = unpack_ih16si(data, pos)
        pos += 26
        self.accepted_compression_types, pos = read_numbers(data, pos, True, "b")
        self.push_interval_ms, self.telemetry_max_bytes, self.delta_temporality = unpack_iit(data, pos)
        pos += 9
        self.requested_metrics, pos = read_strings(data, pos, True)
        self.unknown_tags = NO_TAGS
        if data[pos]:
            self.unknown_tags, pos = read_tags(data, pos)
        else:
            pos += 1
        return self, pos

    def write_to(self, write: Write, version: int) -> None:
        write(pack_ih16si(self.throttle_time_ms, self.error_code, self.client_instance_id, self.subscription_id))
        write_numbers(write, self.accepted_compression_types, True, "b")
        write(pack_iit(self.push_interval_ms, self.telemetry_max_bytes, self.delta_temporality))
        write_strings(write, self.requested_metrics, True)
        write_tags(write, self.unknown_tags)
