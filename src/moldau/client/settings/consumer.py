"""The settings of a consumer, as Kafka 4 names them."""

from __future__ import annotations

import re
from typing import Any

from moldau.client.settings.client import ClientTable
from moldau.client.settings.common import (
    addresses,
    api_timeout_covers_requests,
    conflict,
    kept_for_kafka,
    not_empty,
    waiting,
)
from moldau.settings.setting import Setting, SettingType, Value

BOOLEAN, STRING, INT, LIST, CLASS = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LIST,
    SettingType.CLASS,
)

NO_SHARE_GROUPS = "there is no share consumer"

_RESETS = ("latest", "earliest", "none")
_DURATION = re.compile(
    r"by_duration:P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d{1,9})?S)?)?", re.IGNORECASE
)


def _offset_reset(value: Value) -> str | None:
    if value in _RESETS or _DURATION.fullmatch(str(value)):
        return None
    return f"{value!r} is not one of {', '.join(_RESETS)}, by_duration:PnDTnHnMn.nS"


RECORDS = (
    Setting("key.deserializer", CLASS, None, "Makes keys of bytes; without one, keys are bytes or None."),
    Setting("value.deserializer", CLASS, None, "Makes values of bytes; without one, values are bytes or None."),
    Setting("interceptor.classes", LIST, (), "What sees every batch of records before the application does."),
    Setting("max.poll.records", INT, 500, "The most records that one poll returns.", low=1),
    Setting(
        "isolation.level",
        STRING,
        "read_uncommitted",
        "Whether records of open and aborted transactions are seen.",
        choices=("read_committed", "read_uncommitted"),
    ),
    Setting(
        "auto.offset.reset",
        STRING,
        "latest",
        "Where to begin without a committed offset, or when it is out of range: at the first record, at the end, at a "
        "time before now (`by_duration:PT1H`), or with an error (`none`).",
        check=_offset_reset,
    ),
    Setting("exclude.internal.topics", BOOLEAN, True, "Whether patterns pass over the cluster's own topics."),
    Setting("allow.auto.create.topics", BOOLEAN, True, "Whether a broker may create a topic that is subscribed to."),
)

FETCHING = (
    Setting(
        "fetch.min.bytes", INT, 1, "A broker waits until it has so many bytes, or fetch.max.wait.ms are over.", low=0
    ),
    Setting("fetch.max.wait.ms", INT, 500, "How long a broker waits for fetch.min.bytes.", low=0),
    Setting(
        "fetch.max.bytes", INT, 52_428_800, "The most bytes of one answer; the first batch always comes whole.", low=0
    ),
    Setting("max.partition.fetch.bytes", INT, 1_048_576, "The most bytes of one partition in an answer.", low=0),
    Setting("check.crcs", BOOLEAN, True, "Whether the checksum of every batch is checked."),
    Setting(
        "client.rack",
        STRING,
        "",
        "Where this client is: records come from a replica in the same rack, if there is one.",
    ),
)

GROUPS = (
    Setting("group.id", STRING, None, "The group whose members share the partitions of the topics among them."),
    Setting(
        "group.protocol",
        STRING,
        "classic",
        "How the group is organised: `classic`, or `consumer` (KIP-848).",
        choices=("classic", "consumer"),
    ),
    Setting(
        "group.instance.id",
        STRING,
        None,
        "A lasting name of this member: it may go and come back without a rebalance.",
        check=not_empty,
    ),
    Setting(
        "group.remote.assignor", STRING, None, "The broker's assignor for the group; only with group.protocol=consumer."
    ),
    Setting(
        "partition.assignment.strategy",
        LIST,
        ("range", "cooperative-sticky"),
        "Assignors by preference: range, roundrobin, sticky, cooperative-sticky (or Kafka's class names), or your own.",
    ),
    Setting("session.timeout.ms", INT, 45_000, "After how long without a heartbeat the group gives a member up."),
    Setting("heartbeat.interval.ms", INT, 3_000, "How often a member sends its heartbeat."),
    Setting(
        "max.poll.interval.ms",
        INT,
        300_000,
        "The longest time between two polls before the member leaves the group.",
        low=1,
    ),
    Setting("enable.auto.commit", BOOLEAN, True, "Whether poll and close commit what was read before."),
    Setting("auto.commit.interval.ms", INT, 5_000, "How often that is done.", low=0),
)

CALLS = (
    Setting("default.api.timeout.ms", INT, 60_000, "How long a call without a time-out of its own may take.", low=0),
)

NOT_HERE = (
    Setting(
        "share.acknowledgement.mode",
        STRING,
        "implicit",
        "For share groups.",
        choices=("implicit", "explicit"),
        no_effect=NO_SHARE_GROUPS,
    ),
    Setting("share.acquire.mode", STRING, "BATCH_OPTIMIZED", "For share groups.", no_effect=NO_SHARE_GROUPS),
)


def rules(values: dict[str, Any], given: frozenset[str]) -> None:
    """What Kafka's consumer says about settings that do not go together."""
    api_timeout_covers_requests(values, given)
    if values["group.id"] is None:
        if "enable.auto.commit" in given and values["enable.auto.commit"]:
            raise conflict("enable.auto.commit", "there is nothing to commit to without a group.id")
        values["enable.auto.commit"] = False
    elif not values["group.id"]:
        raise conflict("group.id", "may not be empty; leave it out to read without a group")
    if values["group.protocol"] == "consumer":
        _new_protocol(given)
    else:
        _classic_protocol(values, given)


def _new_protocol(given: frozenset[str]) -> None:
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
        if name in given:
            raise conflict(name, "the broker decides this with group.protocol=consumer; leave it out")


def _classic_protocol(values: dict[str, Any], given: frozenset[str]) -> None:
    if "group.remote.assignor" in given:
        raise conflict("group.remote.assignor", "needs group.protocol=consumer")
    if values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
        raise conflict(
            "heartbeat.interval.ms",
            f"{values['heartbeat.interval.ms']} is not less than session.timeout.ms ({values['session.timeout.ms']}): "
            "the group would give the member up between two heartbeats",
        )
    if not values["partition.assignment.strategy"]:
        raise conflict("partition.assignment.strategy", "at least one assignor is needed")


CONSUMER = ClientTable(
    "consumer",
    {
        "Where the cluster is": addresses(receive_buffer_bytes=65_536),
        "Records": RECORDS,
        "Fetching": FETCHING,
        "Groups": GROUPS,
        "Waiting": (*CALLS, *waiting(idle_ms=540_000)),
        "Accepted for Kafka's sake": (*kept_for_kafka(metrics_push=True), *NOT_HERE),
    },
    rules,
)
