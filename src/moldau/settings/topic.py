"""The settings of a topic, as Kafka 4 names them.

A topic that does not set one takes it from the broker settings named in `synonyms`, in that order of preference.
"""

from __future__ import annotations

from functools import partial

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
"""Base offset and length: Kafka's default batch limit is a mebibyte and these."""

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES = ("compact", "delete")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")

NO_PREALLOCATION = "segments grow as they are written"


def _throttled_replicas(value: Value) -> str | None:
    """`*`, or `PARTITION:BROKER` pairs."""
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
        "What happens to old records: `delete` removes whole segments by age or size, `compact` keeps the latest "
        "record of each key and refuses records without a key; both may be given, and none keeps everything.",
        choices=CLEANUP_POLICIES,
        synonyms=("log.cleanup.policy",),
    ),
    _topic(
        "retention.ms",
        LONG,
        WEEK_MS,
        "How long records are kept before their segment may be deleted; -1 keeps them for ever.",
        low=-1,
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ),
    _topic(
        "retention.bytes",
        LONG,
        -1,
        "How large a partition may grow before its oldest segments are deleted; a negative number sets no limit.",
        synonyms=("log.retention.bytes",),
    ),
    _topic(
        "file.delete.delay.ms",
        LONG,
        60_000,
        "How long the files of a deleted segment stay on disk, for readers that are still at them.",
        low=0,
        synonyms=("log.segment.delete.delay.ms",),
    ),
    _topic(
        "delete.retention.ms",
        LONG,
        DAY_MS,
        "How long a compacted topic keeps the markers of deleted keys, so that a reader from the start sees them.",
        low=0,
        synonyms=("log.cleaner.delete.retention.ms",),
    ),
    _topic(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "What share of a compacted partition must be uncleaned before it is cleaned.",
        low=0,
        high=1,
        synonyms=("log.cleaner.min.cleanable.ratio",),
    ),
    _topic(
        "min.compaction.lag.ms",
        LONG,
        0,
        "How long a record of a compacted topic is safe from cleaning.",
        low=0,
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    ),
    _topic(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "How long a record of a compacted topic may stay uncleaned at most.",
        low=1,
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    ),
)

_SEGMENTS = (
    _topic(
        "segment.bytes",
        INT,
        1 << 30,
        "The size at which a segment file is closed and a new one begun.",
        low=MIN_SEGMENT_BYTES,
        synonyms=("log.segment.bytes",),
    ),
    _topic(
        "segment.ms",
        LONG,
        WEEK_MS,
        "The age at which a segment is closed even if it is not full, so that retention can reach it.",
        low=1,
        synonyms=("log.roll.ms", "log.roll.hours"),
    ),
    _topic(
        "segment.jitter.ms",
        LONG,
        0,
        "The most that is taken, at random, from `segment.ms`, so that segments are not all closed at once.",
        low=0,
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    _topic(
        "segment.index.bytes",
        INT,
        10 << 20,
        "The largest size of an index file; a segment whose index is full is closed.",
        low=4,
        synonyms=("log.index.size.max.bytes",),
    ),
    _topic(
        "index.interval.bytes",
        INT,
        4096,
        "How many bytes of records lie between two entries of the offset index.",
        low=0,
        synonyms=("log.index.interval.bytes",),
    ),
    _topic(
        "preallocate",
        BOOLEAN,
        False,
        "Whether a segment file gets its full size on disk when it is begun.",
        synonyms=("log.preallocate",),
        no_effect=NO_PREALLOCATION,
    ),
)

_RECORDS = (
    _topic(
        "max.message.bytes",
        INT,
        (1 << 20) + BATCH_OVERHEAD_BYTES,
        "The largest record batch, as sent by the producer, that is accepted.",
        low=0,
        synonyms=("message.max.bytes",),
    ),
    _topic(
        "compression.type",
        STRING,
        "producer",
        "The codec that records are stored with; `producer` keeps the bytes that the producer sent.",
        choices=CODECS,
        synonyms=("compression.type",),
    ),
    _topic(
        "compression.gzip.level",
        INT,
        -1,
        "The effort of gzip where the broker compresses; -1 is the codec's own choice.",
        low=1,
        high=9,
        extra_value=-1,
        synonyms=("compression.gzip.level",),
    ),
    _topic(
        "compression.lz4.level",
        INT,
        9,
        "The effort of lz4 where the broker compresses.",
        low=1,
        high=17,
        synonyms=("compression.lz4.level",),
    ),
    _topic(
        "compression.zstd.level",
        INT,
        3,
        "The effort of zstd where the broker compresses.",
        low=-131072,
        high=22,
        synonyms=("compression.zstd.level",),
    ),
    _topic(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whose clock a record's timestamp is from: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
        choices=TIMESTAMP_TYPES,
        synonyms=("log.message.timestamp.type",),
    ),
    _topic(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a producer's timestamp may lie before the broker's time; a batch beyond that is refused.",
        low=0,
        synonyms=("log.message.timestamp.before.max.ms",),
    ),
    _topic(
        "message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        "How far a producer's timestamp may lie after the broker's time; a batch beyond that is refused.",
        low=0,
        synonyms=("log.message.timestamp.after.max.ms",),
    ),
)

_DURABILITY = (
    _topic(
        "flush.messages",
        LONG,
        LONG_MAX,
        "After how many records the log is forced to disk; with 1, an acknowledged record is on disk.",
        low=1,
        synonyms=("log.flush.interval.messages",),
    ),
    _topic(
        "flush.ms",
        LONG,
        LONG_MAX,
        "After how long a record is forced to disk at the latest.",
        low=0,
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    _topic(
        "min.insync.replicas",
        INT,
        1,
        "How many replicas must have a record before a producer with `acks=all` gets its answer; with fewer in sync "
        "the write is refused.",
        low=1,
        synonyms=("min.insync.replicas",),
    ),
    _topic(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "Whether a replica that is not in sync may become leader, at the price of lost records.",
        synonyms=("unclean.leader.election.enable",),
    ),
    _topic(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        "Replicas whose traffic is limited on the leader's side: `PARTITION:BROKER` pairs, or `*` for all.",
        check=_throttled_replicas,
    ),
    _topic(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        "Replicas whose traffic is limited on the follower's side: `PARTITION:BROKER` pairs, or `*` for all.",
        check=_throttled_replicas,
    ),
)

_SECTIONS = {"Retention": _RETENTION, "Segments": _SEGMENTS, "Records": _RECORDS, "Durability": _DURABILITY}

# `log.retention.hours` on a topic means `retention.ms`: say so in the error.
_BROKER_NAMES = {
    synonym: setting.name for settings in _SECTIONS.values() for setting in settings for synonym in setting.synonyms
}

TOPIC = SettingTable("topic", _SECTIONS, _BROKER_NAMES)


def topic_conflict(values: dict[str, Value]) -> str | None:
    """What is wrong with a topic's settings taken together, or None. `values` holds every topic setting."""
    shortest, longest = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    assert isinstance(shortest, int) and isinstance(longest, int)
    if shortest > longest:
        return f"min.compaction.lag.ms ({shortest}) is above max.compaction.lag.ms ({longest})"
    return None
