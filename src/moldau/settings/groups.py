"""The settings of the group coordinator and of the topic that it stores groups in."""

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
        "group.min.session.timeout.ms", INT, 6_000, "The shortest session time-out that a classic member may ask for."
    ),
    Setting(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "The longest session time-out that a classic member may ask for.",
    ),
    Setting(
        "group.initial.rebalance.delay.ms",
        INT,
        3000,
        "How long a new classic group waits for more members before its first rebalance; each that comes prolongs it.",
    ),
    Setting("group.max.size", INT, INT_MAX, "How many members a classic group may have.", low=1),
    Setting(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "After how long a silent member of the new group protocol is taken for dead.",
        low=1,
    ),
    Setting(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5_000,
        "How often members of the new group protocol are told to send heartbeats.",
        low=1,
    ),
    Setting("group.consumer.max.size", INT, INT_MAX, "How many members a consumer group may have.", low=1),
    Setting(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "The assignors that members of the new group protocol may ask for; the first is for those who do not.",
        check=_assignors,
    ),
    Setting(
        "group.consumer.migration.policy",
        STRING,
        "bidirectional",
        "Whether a live group may go over to the new protocol (`upgrade`), back to the classic one (`downgrade`), "
        "both (`bidirectional`) or neither (`disabled`).",
        check=_migration_policy,
    ),
    Setting("offset.metadata.max.bytes", INT, 4096, "How long the text that comes with a committed offset may be."),
    Setting(
        "offsets.retention.minutes",
        INT,
        10_080,
        "How long the offsets of a group are kept after its last member has left; without members, since the commit.",
        low=1,
    ),
    Setting(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often offsets are looked over for those whose time is over.",
        low=1,
    ),
    Setting(
        "offsets.commit.timeout.ms",
        INT,
        5_000,
        "How long a coordinator's answer waits until the replicas have what it rests on, before the client is told to "
        "come back.",
        low=1,
    ),
    Setting(
        "offsets.topic.num.partitions",
        INT,
        50,
        "Partitions of the topic of committed offsets; taken when it is created, and not to be changed after that.",
        low=1,
    ),
    Setting(
        "offsets.topic.replication.factor",
        SHORT,
        3,
        "Replicas of the topic of committed offsets, as far as there are brokers when it is created.",
        low=1,
    ),
    Setting(
        "offsets.topic.segment.bytes",
        INT,
        104_857_600,
        "The size of a segment of the topic of committed offsets.",
        low=1,
    ),
)
