"""Broker settings of the group coordinator and of its topic, with Kafka 4's names.

They are part of the table in `broker.py`.
"""

from __future__ import annotations

from moldau.settings.setting import INT_MAX, Setting, SettingType, Value

STRING, INT, SHORT, LONG, LIST = (
    SettingType.STRING,
    SettingType.INT,
    SettingType.SHORT,
    SettingType.LONG,
    SettingType.LIST,
)


def _assignors(value: Value) -> str | None:
    known = ("uniform", "range")
    names = value if isinstance(value, tuple) else ()
    unknown = [name for name in names if name not in known]
    if unknown:
        return f"{unknown[0]!r} is not one of {', '.join(known)}"
    return None if names else "at least one assignor is needed"


def _migration_policy(value: Value) -> str | None:
    known = ("disabled", "upgrade", "downgrade", "bidirectional")
    return None if str(value).lower() in known else f"{value!r} is not one of {', '.join(known)}"


GROUPS = (
    Setting(
        "group.min.session.timeout.ms",
        INT,
        6_000,
        "The shortest session timeout, in milliseconds, that a member of a classic group may request.",
    ),
    Setting(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "The longest session timeout, in milliseconds, that a member of a classic group may request.",
    ),
    Setting(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "The time in milliseconds that a new classic group waits for more members before its first rebalance; each "
        "new member restarts the wait. The group always waits up to 100 ms for members that have just got their id.",
    ),
    Setting("group.max.size", INT, INT_MAX, "The largest number of members of a classic group.", low=1),
    Setting(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "The time in milliseconds without a heartbeat after which a member of a KIP-848 group is removed.",
        low=1,
    ),
    Setting(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5_000,
        "The time in milliseconds between two heartbeats of a member of a KIP-848 group.",
        low=1,
    ),
    Setting(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "The smallest allowed `consumer.session.timeout.ms` of a group, in milliseconds.",
        low=1,
    ),
    Setting(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "The largest allowed `consumer.session.timeout.ms` of a group, in milliseconds.",
        low=1,
    ),
    Setting(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5_000,
        "The smallest allowed `consumer.heartbeat.interval.ms` of a group, in milliseconds.",
        low=1,
    ),
    Setting(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The largest allowed `consumer.heartbeat.interval.ms` of a group, in milliseconds.",
        low=1,
    ),
    Setting("group.consumer.max.size", INT, INT_MAX, "The largest number of members of a KIP-848 group.", low=1),
    Setting(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "The assignors that members of KIP-848 groups may request. Members that request none get the first one.",
        check=_assignors,
    ),
    Setting(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether a group with members may change to the KIP-848 protocol (`upgrade`), back to the classic protocol "
        "(`downgrade`), both (`bidirectional`) or neither (`disabled`).",
        check=_migration_policy,
    ),
    Setting("offset.metadata.max.bytes", INT, 4096, "The longest metadata text of a committed offset, in bytes."),
    Setting(
        "offsets.retention.minutes",
        INT,
        10_080,
        "The time in minutes that committed offsets are kept after the last member has left the group. In a group "
        "that never had members, the time starts at the commit.",
        low=1,
    ),
    Setting(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "The time in milliseconds between two searches for expired offsets.",
        low=1,
    ),
    Setting(
        "offsets.commit.timeout.ms",
        INT,
        5_000,
        "The time in milliseconds that a coordinator's response waits for replication. After that the client gets "
        "an error and retries.",
        low=1,
    ),
    Setting(
        "offsets.topic.num.partitions",
        INT,
        50,
        "The number of partitions of the topic of committed offsets. It is used when the topic is created; do not "
        "change it later.",
        low=1,
    ),
    Setting(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "The number of replicas of the topic of committed offsets, or the number of brokers when it is created, if "
        "that is smaller.",
        low=1,
    ),
    Setting(
        "offsets.topic.segment.bytes",
        INT,
        104_857_600,
        "The size of a segment of the topic of committed offsets, in bytes.",
        low=1,
    ),
)
