"""Topic settings of a log: one immutable value, replaced as a whole when a setting changes.

Each field is the topic setting of that name, with underscores for dots. Names, units and defaults are Kafka's.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.records import Codec
from moldau.settings.schema_validation import NOT_VALIDATED, STRATEGIES, STRATEGY_CLASSES, TOPIC_NAME_STRATEGY

MAX_LONG = 2**63 - 1

CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""Values of `compression.type`; the value `producer`, not listed here, keeps the producer's codec."""


_STRATEGIES = dict(zip(STRATEGY_CLASSES, STRATEGIES, strict=True))


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The configuration of one topic's logs."""

    cleanup_policy: str = "delete"
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    confluent_key_schema_validation: bool = False
    confluent_key_subject_name_strategy: str = TOPIC_NAME_STRATEGY
    confluent_value_schema_validation: bool = False
    confluent_value_subject_name_strategy: str = TOPIC_NAME_STRATEGY
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
    moldau_key_schema_validation: str = NOT_VALIDATED
    moldau_value_schema_validation: str = NOT_VALIDATED
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
        """The age at which a segment is rolled. Only complete segments can be cleaned, so `max.compaction.lag.ms`
        limits the age too."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def append_time(self) -> bool:
        """Whether the broker's clock replaces the producers' timestamps."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def codec(self) -> Codec | None:
        """The codec that every batch must have; None if the producer's codec is kept."""
        return CODECS.get(self.compression_type)

    @property
    def compression_level(self) -> int | None:
        """The level for `codec`; None if it has no levels, or for the library's default."""
        levels = {
            "gzip": self.compression_gzip_level if self.compression_gzip_level >= 0 else None,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    @property
    def validates_schemas(self) -> bool:
        return self.key_subjects is not None or self.value_subjects is not None

    @property
    def key_subjects(self) -> str | None:
        """The strategy for the subjects that must have the schemas of keys; None: keys need no schema."""
        if self.moldau_key_schema_validation != NOT_VALIDATED:
            return self.moldau_key_schema_validation
        return _STRATEGIES[self.confluent_key_subject_name_strategy] if self.confluent_key_schema_validation else None

    @property
    def value_subjects(self) -> str | None:
        """The same for values."""
        if self.moldau_value_schema_validation != NOT_VALIDATED:
            return self.moldau_value_schema_validation
        strategy = self.confluent_value_subject_name_strategy
        return _STRATEGIES[strategy] if self.confluent_value_schema_validation else None
