"""Topic settings, with Kafka 4's names.

A topic that does not set one takes it from the broker settings in `synonyms`; the first one that is set counts.
"""

from __future__ import annotations

from functools import partial

from moldau.settings.schema_validation import SCHEMAS_OF_TOPICS
from moldau.settings.setting import LONG_MAX, Scope, Setting, SettingType, Value
from moldau.settings.table import SettingTable

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.DOUBLE,
    SettingType.LIST,
)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
MIN_SEGMENT_BYTES = 1 << 20
BATCH_OVERHEAD_BYTES = 12
"""The size of base offset and length: Kafka's default batch limit is one mebibyte plus these 12 bytes."""

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES = ("compact", "delete")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")

NO_PREALLOCATION = "segments grow as they are written"


def _throttled_replicas(value: Value) -> str | None:
    """Accept `*`, or `PARTITION:BROKER` pairs."""
    if value == ("*",) or not isinstance(value, tuple):
        return None
    for item in value:
        partition, colon, broker = item.partition(":")
        if not (colon and partition.isdecimal() and broker.isdecimal()):
            return f"{item!r} is neither * nor PARTITION:BROKER"
    return None


_topic = partial(Setting, scope=Scope.TOPIC)

_RETENTION = (
    _topic(
        "cleanup.policy",
        LIST,
        ("delete",),
        "The treatment of old records: `delete` deletes whole segments by age or size; `compact` keeps the last "
        "record of each key and refuses records without a key. Both may be given. An empty value keeps all records.",
        choices=CLEANUP_POLICIES,
        synonyms=("log.cleanup.policy",),
    ),
    _topic(
        "retention.ms",
        LONG,
        WEEK_MS,
        "The time in milliseconds that records are kept before their segment may be deleted; -1 keeps them for ever.",
        low=-1,
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ),
    _topic(
        "retention.bytes",
        LONG,
        -1,
        "The size of a partition in bytes above which its oldest segments are deleted. A negative number means no "
        "limit.",
        synonyms=("log.retention.bytes",),
    ),
    _topic(
        "file.delete.delay.ms",
        LONG,
        60_000,
        "The time in milliseconds that the files of a deleted segment stay on disk, for reads that are still running.",
        low=0,
        synonyms=("log.segment.delete.delay.ms",),
    ),
    _topic(
        "delete.retention.ms",
        LONG,
        DAY_MS,
        "The time in milliseconds that a compacted topic keeps tombstones, so that a consumer that reads from the "
        "start sees the deletions.",
        low=0,
        synonyms=("log.cleaner.delete.retention.ms",),
    ),
    _topic(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "The share of a compacted partition (0 to 1) that must be dirty before the cleaner cleans it.",
        low=0,
        high=1,
        synonyms=("log.cleaner.min.cleanable.ratio",),
    ),
    _topic(
        "min.compaction.lag.ms",
        LONG,
        0,
        "The shortest time in milliseconds that a record of a compacted topic stays uncompacted.",
        low=0,
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    ),
    _topic(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "The longest time in milliseconds that a record of a compacted topic may stay uncompacted.",
        low=1,
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    ),
)

_SEGMENTS = (
    _topic(
        "segment.bytes",
        INT,
        1 << 30,
        "The size in bytes at which a segment is closed and a new one is created.",
        low=MIN_SEGMENT_BYTES,
        synonyms=("log.segment.bytes",),
    ),
    _topic(
        "segment.ms",
        LONG,
        WEEK_MS,
        "The age in milliseconds at which a segment is closed even if it is not full, so that it can be deleted or "
        "compacted.",
        low=1,
        synonyms=("log.roll.ms", "log.roll.hours"),
    ),
    _topic(
        "segment.jitter.ms",
        LONG,
        0,
        "The largest random time in milliseconds that is subtracted from `segment.ms`, so that not all segments are "
        "closed at once.",
        low=0,
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    _topic(
        "segment.index.bytes",
        INT,
        10 << 20,
        "The largest size of an index file in bytes. A segment is closed when its index is full.",
        low=4,
        synonyms=("log.index.size.max.bytes",),
    ),
    _topic(
        "index.interval.bytes",
        INT,
        4096,
        "The number of bytes between two entries of the offset index.",
        low=0,
        synonyms=("log.index.interval.bytes",),
    ),
    _topic(
        "preallocate",
        BOOLEAN,
        False,
        "Whether a segment file gets its full size on disk when it is created.",
        synonyms=("log.preallocate",),
        no_effect=NO_PREALLOCATION,
    ),
)

_RECORDS = (
    _topic(
        "max.message.bytes",
        INT,
        (1 << 20) + BATCH_OVERHEAD_BYTES,
        "The largest record batch that is accepted, in bytes as sent by the producer (after compression).",
        low=0,
        synonyms=("message.max.bytes",),
    ),
    _topic(
        "compression.type",
        STRING,
        "producer",
        "The codec that records are stored with; `producer` keeps the producer's codec.",
        choices=CODECS,
        synonyms=("compression.type",),
    ),
    _topic(
        "compression.gzip.level",
        INT,
        -1,
        "The gzip level if the broker compresses; -1 uses the default of gzip.",
        low=1,
        high=9,
        extra_value=-1,
        synonyms=("compression.gzip.level",),
    ),
    _topic(
        "compression.lz4.level",
        INT,
        9,
        "The lz4 level if the broker compresses.",
        low=1,
        high=17,
        synonyms=("compression.lz4.level",),
    ),
    _topic(
        "compression.zstd.level",
        INT,
        3,
        "The zstd level if the broker compresses.",
        low=-131072,
        high=22,
        synonyms=("compression.zstd.level",),
    ),
    _topic(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "The clock of a record's timestamp: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
        choices=TIMESTAMP_TYPES,
        synonyms=("log.message.timestamp.type",),
    ),
    _topic(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "The largest time in milliseconds that a producer's timestamp may be before the broker's time. Batches with "
        "an older one are refused.",
        low=0,
        synonyms=("log.message.timestamp.before.max.ms",),
    ),
    _topic(
        "message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        "The largest time in milliseconds that a producer's timestamp may be after the broker's time. Batches with "
        "a later one are refused.",
        low=0,
        synonyms=("log.message.timestamp.after.max.ms",),
    ),
)

_DURABILITY = (
    _topic(
        "flush.messages",
        LONG,
        LONG_MAX,
        "The number of records after which the log is flushed to disk. With 1, every acknowledged record is on disk.",
        low=1,
        synonyms=("log.flush.interval.messages",),
    ),
    _topic(
        "flush.ms",
        LONG,
        LONG_MAX,
        "The longest time in milliseconds before a record is flushed to disk.",
        low=0,
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    _topic(
        "min.insync.replicas",
        INT,
        1,
        "The number of in-sync replicas that a write with `acks=all` needs; with fewer, the broker refuses it. If a "
        "partition has fewer replicas than this, all of them must be in sync.",
        low=1,
        synonyms=("min.insync.replicas",),
    ),
    _topic(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader. Records can be lost.",
        synonyms=("unclean.leader.election.enable",),
    ),
    _topic(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        "The replicas whose traffic is limited on the leader: `PARTITION:BROKER` pairs, or `*` for all.",
        check=_throttled_replicas,
    ),
    _topic(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        "The replicas whose traffic is limited on the follower: `PARTITION:BROKER` pairs, or `*` for all.",
        check=_throttled_replicas,
    ),
)

_SECTIONS = {
    "Retention": _RETENTION,
    "Segments": _SEGMENTS,
    "Records": _RECORDS,
    "Durability": _DURABILITY,
    "Schema validation": SCHEMAS_OF_TOPICS,
}

# `log.retention.hours` on a topic means `retention.ms`: the error says so.
_BROKER_NAMES = {
    synonym: setting.name for settings in _SECTIONS.values() for setting in settings for synonym in setting.synonyms
}

TOPIC = SettingTable("topic", _SECTIONS, _BROKER_NAMES)


def topic_conflict(values: dict[str, Value]) -> str | None:
    """The conflict between settings of a topic, or None. `values` holds every topic setting."""
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(shortest, int) and isinstance(longest, int)
    if shortest > longest:
        return f"min.compaction.lag.ms ({shortest}) is above max.compaction.lag.ms ({longest})"
    return None
