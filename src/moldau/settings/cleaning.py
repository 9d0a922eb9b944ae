"""The settings of compaction, as Kafka 4 names them. A part of the broker's table; those of topics are in `topic`."""

from __future__ import annotations

from sys import float_info

from moldau.settings.setting import Scope, Setting, SettingType

BOOLEAN, INT, LONG, DOUBLE = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG, SettingType.DOUBLE

ONE_WORKER = "one process cleans, log by log"

CLEANING = (
    Setting("log.cleaner.enable", BOOLEAN, True, "Whether compacted topics are compacted."),
    Setting(
        "log.cleaner.threads",
        INT,
        1,
        "How many threads clean logs.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
        no_effect=ONE_WORKER,
    ),
    Setting(
        "log.cleaner.backoff.ms",
        LONG,
        15_000,
        "How long the cleaner rests when there is no log to clean.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size",
        LONG,
        128 << 20,
        "The memory for the keys of the log that is being cleaned, 24 bytes each; a log with more keys is cleaned in "
        "several passes.",
        scope=Scope.BROKER_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.buffer.load.factor",
        DOUBLE,
        0.9,
        "How full the memory for keys may become, up to 1. Fuller means more keys in a pass, and more steps to each.",
        scope=Scope.BROKER_DYNAMIC,
    ),
    Setting(
        "log.cleaner.io.buffer.size",
        INT,
        512 << 10,
        "How many bytes the cleaner reads at a time.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE,
        float_info.max,
        "How many bytes a second the cleaner may read and write together, on average.",
        scope=Scope.BROKER_DYNAMIC,
    ),
)
