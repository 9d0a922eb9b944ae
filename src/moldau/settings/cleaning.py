"""Broker settings of log compaction, with Kafka 4's names.

They are part of the table in `broker.py`. Topic settings of compaction are in `topic.py`.
"""

from __future__ import annotations

from sys import float_info

from moldau.settings.setting import Scope, Setting, SettingType

BOOLEAN, INT, LONG, DOUBLE = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG, SettingType.DOUBLE

ONE_WORKER = "one process cleans one log at a time"

CLEANING = (
    Setting("log.cleaner.enable", BOOLEAN, True, "Whether the broker compacts topics with `cleanup.policy=compact`."),
    Setting(
        "log.cleaner.threads",
        INT,
        1,
        "The number of cleaner threads.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
        no_effect=ONE_WORKER,
    ),
    Setting(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "The pause of the cleaner, in milliseconds, when no log needs cleaning.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 << 20,
        "The size in bytes of the cleaner's offset map, which needs 24 bytes per key. A log with more keys is "
        "cleaned in several passes.",
        scope=Scope.BROKER_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "The largest load factor of the cleaner's offset map, up to 1. A higher one allows more keys per pass, but "
        "makes each lookup slower.",
        scope=Scope.BROKER_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.buffer.size",
        INT,
        512 << 10,
        "The number of bytes that the cleaner reads at a time.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        float_info.max,
        "The limit of the cleaner's reads and writes together, in bytes per second on average.",
        scope=Scope.BROKER_DYNAMIC,
    ),
)
