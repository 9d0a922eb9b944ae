"""The settings of replication, as Kafka 4 names them. A part of the broker's table; those of topics are in `topic`."""

from __future__ import annotations

from moldau.settings.setting import LONG_MAX, Scope, Setting, SettingType, Value

INT, LONG, STRING = SettingType.INT, SettingType.LONG, SettingType.STRING

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"

ONE_TASK_A_LEADER = "one task copies from each leader: the loop is one"


def _known_selector(value: Value) -> str | None:
    return None if value in (RACK_AWARE, LEADER_ONLY) else f"{value} is neither {RACK_AWARE} nor {LEADER_ONLY}"


REPLICATION = (
    Setting(
        "replica.lag.time.max.ms",
        LONG,
        30_000,
        "For how long a follower may not have caught up with its leader's end before it is not in sync any more.",
    ),
    Setting(
        "replica.fetch.wait.max.ms",
        INT,
        500,
        "For how long a leader lets a follower wait that has everything; less than `replica.lag.time.max.ms`.",
    ),
    Setting("replica.fetch.min.bytes", INT, 1, "For how many bytes a leader lets a follower wait."),
    Setting(
        "replica.fetch.max.bytes",
        INT,
        1 << 20,
        "The most bytes of one partition in one answer to a follower; a first batch that is larger is sent whole.",
        low=0,
    ),
    Setting(
        "replica.fetch.response.max.bytes",
        INT,
        10 << 20,
        "The most bytes in one answer to a follower; a first batch that is larger is still sent whole.",
        low=0,
    ),
    Setting(
        "replica.fetch.backoff.ms",
        INT,
        1000,
        "How long a follower rests at most after an error of a partition, or of its leader's connection; it begins "
        "with 20 ms.",
        low=0,
    ),
    Setting(
        "replica.high.watermark.checkpoint.interval.ms",
        LONG,
        5_000,
        "How often high watermarks are written down, so that a restarted broker knows what consumers may see.",
    ),
    Setting(
        "replica.selector.class",
        STRING,
        None,
        f"Who may be read from: with `{RACK_AWARE}` consumers are sent to a replica in their own rack, else to the "
        "leader.",
        check=_known_selector,
    ),
    Setting(
        "num.replica.fetchers",
        INT,
        1,
        "How many connections copy from one leader.",
        scope=Scope.BROKER_DYNAMIC,
        low=1,
        no_effect=ONE_TASK_A_LEADER,
    ),
    Setting(
        "leader.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "How many bytes a second this broker sends at most to followers that a topic names in "
        "`leader.replication.throttled.replicas` and that are not in sync.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
    ),
    Setting(
        "follower.replication.throttled.rate",
        LONG,
        LONG_MAX,
        "How many bytes a second this broker copies at most of the partitions that a topic names in "
        "`follower.replication.throttled.replicas` and in which it is not in sync.",
        scope=Scope.BROKER_DYNAMIC,
        low=0,
    ),
)
