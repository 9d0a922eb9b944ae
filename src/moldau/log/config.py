"""The topic settings that a log obeys: one frozen value, replaced as a whole when a setting changes.

A field is the topic setting of that name with underscores for dots; names, units and defaults are Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.records import Codec

MAX_LONG = 2**63 - 1

CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""What `compression.type` may ask for; `producer` keeps what came."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """How one topic's logs behave."""

    cleanup_policy: str = "delete"
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = MAX_LONG
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is complete. Only a complete one can be cleaned, so a record that must be
        cleaned soon must not wait for longer."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def append_time(self) -> bool:
        """Whether the broker's clock replaces the producers'."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def codec(self) -> Codec | None:
        """The codec that every batch must have; None where the producer's stays."""
        return CODECS.get(self.compression_type)

    @property
    def compression_level(self) -> int | None:
        """The level for `codec`; None where it has none, or its library's own is meant."""
        levels = {
            "gzip": self.compression_gzip_level if self.compression_gzip_level >= 0 else None,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)
