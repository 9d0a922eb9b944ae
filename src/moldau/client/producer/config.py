"""Producer configuration: the settings in the units that the producer uses."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.client.backoff import Backoff
from moldau.client.settings import ClientSettings
from moldau.records.batch_layout import Codec

ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}

_FAST_LZ4 = 9
"""Kafka's default lz4 level. It stands for the fast mode."""


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """The settings of one producer."""

    acks: int
    batch_size: int
    linger_s: float
    buffer_memory: int
    max_request_size: int
    max_block_s: float
    max_in_flight: int
    request_timeout_ms: int
    delivery_timeout_s: float
    retries: int
    retry_backoff: Backoff
    codec: Codec
    level: int | None
    idempotent: bool
    ignore_keys: bool
    topic_idle_s: float

    @property
    def request_timeout_s(self) -> float:
        return self.request_timeout_ms / 1000

    @classmethod
    def of(cls, settings: ClientSettings) -> ProducerConfig:
        codec = Codec[settings["compression.type"].upper()]
        return cls(
            acks=ACKS[settings["acks"]],
            batch_size=settings["batch.size"],
            linger_s=settings.seconds("linger.ms"),
            buffer_memory=settings["buffer.memory"],
            max_request_size=settings["max.request.size"],
            max_block_s=settings.seconds("max.block.ms"),
            max_in_flight=settings["max.in.flight.requests.per.connection"],
            request_timeout_ms=settings["request.timeout.ms"],
            delivery_timeout_s=settings.seconds("delivery.timeout.ms"),
            retries=settings["retries"],
            retry_backoff=Backoff(settings.seconds("retry.backoff.ms"), settings.seconds("retry.backoff.max.ms")),
            codec=codec,
            level=_level(settings, codec),
            idempotent=settings["enable.idempotence"],
            ignore_keys=settings["partitioner.ignore.keys"],
            topic_idle_s=settings.seconds("metadata.max.idle.ms"),
        )


def _level(settings: ClientSettings, codec: Codec) -> int | None:
    """The compression level, or None if the codec has no levels or should use its default."""
    if codec not in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        return None
    level: int = settings[f"compression.{codec.name.lower()}.level"]
    return None if codec is Codec.LZ4 and level == _FAST_LZ4 else level
