"""Settings of single groups, with Kafka 4.3's names (config resource type 32).

`consumer.session.timeout.ms` and `consumer.heartbeat.interval.ms` take effect for groups of the KIP-848 protocol. The
others are accepted, checked, stored and described, but have no effect: there are no share groups and no streams groups,
and assignments are computed when they are needed.

For each setting, a broker setting gives the default, and for most of them two more give the bounds. Their values are in
`effective.py`, not here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from moldau.settings.setting import Scope, Setting, SettingType, Value
from moldau.settings.table import SettingTable

BOOLEAN, STRING, INT = SettingType.BOOLEAN, SettingType.STRING, SettingType.INT

NO_SHARE_GROUPS = "Moldau has no share groups"
NO_STREAMS_GROUPS = "Moldau has no streams groups"
NO_INTERVAL = "assignments are computed when they are needed"

_DURATION = re.compile(r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?", re.IGNORECASE)


def _offset_reset(value: Value) -> str | None:
    text = str(value)
    kind, _, duration = text.partition(":")
    if text in ("latest", "earliest") or (kind == "by_duration" and _DURATION.fullmatch(duration)):
        return None
    return f"{text!r} is not latest, earliest, or by_duration: followed by a duration such as PT1H"


def _group(
    name: str, setting_type: SettingType, default: Value, doc: str, *, low: int | None = None, no_effect: str = ""
) -> Setting:
    synonyms = (f"group.{name}",) if setting_type is INT else ()
    return Setting(name, setting_type, default, doc, scope=Scope.GROUP, low=low, synonyms=synonyms, no_effect=no_effect)


_CONSUMER = (
    _group(
        "consumer.session.timeout.ms",
        INT,
        45_000,
        "The time in milliseconds without a heartbeat after which a member is removed from the group.",
        low=1,
    ),
    _group(
        "consumer.heartbeat.interval.ms",
        INT,
        5_000,
        "The time in milliseconds between two heartbeats of a member of the group.",
        low=1,
    ),
    _group(
        "consumer.assignment.interval.ms",
        INT,
        1_000,
        "The shortest time in milliseconds between two assignments of the group.",
        low=0,
        no_effect=NO_INTERVAL,
    ),
)

_SHARE_NUMBERS = tuple(
    _group(f"share.{name}", INT, default, doc, low=low, no_effect=NO_SHARE_GROUPS)
    for name, default, low, doc in (
        (
            "session.timeout.ms",
            45_000,
            1,
            "Time in milliseconds without a heartbeat before a member of a share group is removed.",
        ),
        (
            "heartbeat.interval.ms",
            5_000,
            1,
            "Time in milliseconds between two heartbeats of a member of a share group.",
        ),
        ("assignment.interval.ms", 1_000, 0, "Shortest time in milliseconds between two assignments of a share group."),
        (
            "record.lock.duration.ms",
            30_000,
            1_000,
            "Time in milliseconds that a record is locked for the member that acquired it.",
        ),
        ("delivery.count.limit", 5, 2, "Largest number of deliveries per record of a share group."),
        ("partition.max.record.locks", 2_000, 100, "Largest number of locked records per partition."),
    )
)
_SHARE = (
    *_SHARE_NUMBERS,
    Setting(
        "share.auto.offset.reset",
        STRING,
        "latest",
        "The position where a share group starts to read.",
        scope=Scope.GROUP,
        check=_offset_reset,
        no_effect=NO_SHARE_GROUPS,
    ),
    Setting(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        "Whether a share group reads records of open transactions.",
        scope=Scope.GROUP,
        choices=("read_committed", "read_uncommitted"),
        no_effect=NO_SHARE_GROUPS,
    ),
    _group(
        "share.renew.acknowledge.enable",
        BOOLEAN,
        True,
        "Whether members of a share group may extend the lock of a record.",
        no_effect=NO_SHARE_GROUPS,
    ),
)

_STREAMS = tuple(
    _group(f"streams.{name}", INT, default, doc, low=low, no_effect=NO_STREAMS_GROUPS)
    for name, default, low, doc in (
        (
            "session.timeout.ms",
            45_000,
            1,
            "Time in milliseconds without a heartbeat before a member of a streams group is removed.",
        ),
        (
            "heartbeat.interval.ms",
            5_000,
            1,
            "Time in milliseconds between two heartbeats of a member of a streams group.",
        ),
        (
            "assignment.interval.ms",
            1_000,
            0,
            "Shortest time in milliseconds between two assignments of a streams group.",
        ),
        ("num.standby.replicas", 0, 0, "Number of standby replicas per task of a streams group."),
        (
            "initial.rebalance.delay.ms",
            3_000,
            0,
            "Time in milliseconds that a new streams group waits for more members.",
        ),
    )
)

GROUP = SettingTable("group", {"Consumer groups": _CONSUMER, "Share groups": _SHARE, "Streams groups": _STREAMS})


class Bound(NamedTuple):
    """The broker settings that bound a group setting; None if there is no such bound."""

    low: str | None
    high: str | None


_BOUNDS = {
    "consumer.session.timeout.ms": Bound(
        "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"
    ),
    "consumer.heartbeat.interval.ms": Bound(
        "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"
    ),
    "streams.num.standby.replicas": Bound(None, "group.streams.max.standby.replicas"),
    "streams.initial.rebalance.delay.ms": Bound(None, None),
}


def bound(name: str) -> Bound:
    """The broker settings that bound this group setting, in addition to the bounds of its declaration."""
    if name in _BOUNDS:
        return _BOUNDS[name]
    if GROUP[name].type is not INT:
        return Bound(None, None)
    kind, _, rest = name.partition(".")
    return Bound(f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}")
