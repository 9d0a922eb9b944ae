"""Broker settings of replication, with Kafka 4's names.

They are part of the table in `broker.py`. Topic settings of replication are in `topic.py`.
"""

from __future__ import annotations

from moldau.settings.setting import LONG_MAX, Scope, Setting, SettingType, Value

INT, LONG, STRING = SettingType.INT, SettingType.LONG, SettingType.STRING

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"

ONE_TASK_A_LEADER = "one task copies from each leader, because the broker has one event loop"


def _known_selector(value: Value) -> str | None:
    return None if value in (RACK_AWARE, LEADER_ONLY) else f"{value} is neither {RACK_AWARE} nor {LEADER_ONLY}"


REPLICATION = (
    Setting(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "The time in milliseconds that a follower may stay behind its leader's log end offset before it is removed "
        "from the in-sync replicas.",
    ),
    Setting(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "The longest time in milliseconds that a leader delays the response to a follower that has all records; "
        "must be less than `replica.lag.time.max.ms`.",
    ),
    Setting(
        "replica.fetch.min.bytes",
        INT,
        1,
        "The number of bytes that a leader waits for before it answers a follower's fetch.",
    ),
    Setting(
        "replica.fetch.max.bytes",
        INT,
        1 << 20,
        "The largest number of bytes per partition in one response to a follower. If the first batch is larger, it "
        "is still sent whole.",
        low=0,
    ),
    Setting(
        "replica.fetch.response.max.bytes",
        INT,
        10 << 20,
        "The largest number of bytes in one response to a follower. If the first batch is larger, it is still sent "
        "whole.",
        low=0,
    ),
    Setting(
        "replica.fetch.backoff.ms",
        INT,
        1000,
        "The longest pause of a follower, in milliseconds, after an error of a partition or of the connection to "
        "its leader. The first pause is 20 ms.",
        low=0,
    ),
    Setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5_000,
        "The time in milliseconds between two checkpoints of the high watermarks. A restarted broker reads them to "
        "know which records consumers may see.",
    ),
    Setting(
        "replica.selector.class",
        STRING,
        None,
        f"The choice of the replica that consumers read from: with `{RACK_AWARE}` a replica in the consumer's rack, "
        "otherwise the leader.",
        check=_known_selector,
    ),
    Setting(
        "num.replica.fetchers",
        INT,
        1,
        "The number of connections that copy from one leader.",
        scope=Scope.BROKER_DYNAMIC,
        low=1,
        no_effect=ONE_TASK_A_LEADER,
    ),
    Setting(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "The limit, in bytes per second, of this broker's traffic to followers that are not in sync and that a "
        "topic lists in `leader.replication.throttled.replicas`.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
    ),
    Setting(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "The limit, in bytes per second, at which this broker copies partitions in which it is not in sync and that "
        "a topic lists in `follower.replication.throttled.replicas`.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
    ),
)
