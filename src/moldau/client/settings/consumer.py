"""Consumer settings, with the names of Kafka 4."""

from __future__ import annotations

import re
from typing import Any

from moldau.client.settings import security
from moldau.client.settings.client import ClientTable
from moldau.client.settings.common import (
    addresses,
    api_timeout_covers_requests,
    conflict,
    kept_for_kafka,
    not_empty,
    waiting,
)
from moldau.client.settings.schemas import CONSUMER_SCHEMAS
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
    Setting("key.deserializer", CLASS, None, "Converts bytes to keys; without it keys are bytes or None."),
    Setting("value.deserializer", CLASS, None, "Converts bytes to values; without it values are bytes or None."),
    Setting("interceptor.classes", LIST, (), "Interceptors, which get all records before the application."),
    Setting("max.poll.records", INT, 500, "Maximum number of records that one poll returns.", low=1),
    Setting(
        "isolation.level",
        STRING,
        "read_uncommitted",
        "Whether poll returns records of open and aborted transactions (`read_uncommitted`) or not (`read_committed`).",
        choices=("read_committed", "read_uncommitted"),
    ),
    Setting(
        "auto.offset.reset",
        STRING,
        "latest",
        "Where to start without a committed offset, or if it is out of range: at the first record (`earliest`), at the "
        "end (`latest`), at a time before now (`by_duration:PT1H`), or with an error (`none`).",
        check=_offset_reset,
    ),
    Setting(
        "exclude.internal.topics",
        BOOLEAN,
        True,
        "Whether patterns ignore internal topics. It has no effect with group.protocol=consumer, because the broker "
        "matches patterns then.",
    ),
    Setting("allow.auto.create.topics", BOOLEAN, True, "Whether brokers may create a subscribed topic."),
)

FETCHING = (
    Setting(
        "fetch.min.bytes", INT, 1, "A broker answers when it has this many bytes, or after fetch.max.wait.ms.", low=0
    ),
    Setting("fetch.max.wait.ms", INT, 500, "Maximum time that a broker waits for fetch.min.bytes.", low=0),
    Setting(
        "fetch.max.bytes", INT, 52_428_800, "Maximum size of a fetch response; its first batch may be larger.", low=0
    ),
    Setting(
        "max.partition.fetch.bytes",
        INT,
        1_048_576,
        "Maximum size of one partition's records in a fetch response.",
        low=0,
    ),
    Setting("check.crcs", BOOLEAN, True, "Whether the consumer verifies the checksum of each batch."),
    Setting(
        "client.rack",
        STRING,
        "",
        "Rack of this client; records are fetched from a replica in the same rack, if there is one.",
    ),
)

GROUPS = (
    Setting("group.id", STRING, None, "The consumer group; its members share the partitions of the topics."),
    Setting(
        "group.protocol",
        STRING,
        "classic",
        "The group protocol: `classic`, or `consumer` (KIP-848).",
        choices=("classic", "consumer"),
    ),
    Setting(
        "group.instance.id",
        STRING,
        None,
        "Permanent name of this member (static membership); it can restart without a rebalance.",
        check=not_empty,
    ),
    Setting("group.remote.assignor", STRING, None, "Name of the broker's assignor; only with group.protocol=consumer."),
    Setting(
        "partition.assignment.strategy",
        LIST,
        ("range", "cooperative-sticky"),
        "Assignors in order of preference: range, roundrobin, sticky, cooperative-sticky (or Kafka's class names), or "
        "custom ones.",
    ),
    Setting("session.timeout.ms", INT, 45_000, "Time without a heartbeat after which the group removes a member."),
    Setting("heartbeat.interval.ms", INT, 3_000, "How often a member sends its heartbeat."),
    Setting(
        "max.poll.interval.ms",
        INT,
        300_000,
        "Maximum time between two polls; after it the member leaves the group.",
        low=1,
    ),
    Setting("enable.auto.commit", BOOLEAN, True, "Whether poll and close commit the offsets of returned records."),
    Setting("auto.commit.interval.ms", INT, 5_000, "Interval of automatic commits.", low=0),
)

CALLS = (Setting("default.api.timeout.ms", INT, 60_000, "Timeout of calls that have no timeout argument.", low=0),)

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
    """Check combinations of settings, with the rules of Kafka's consumer."""
    security.security_rules(values, given)
    api_timeout_covers_requests(values, given)
    if values["group.id"] is None:
        if "enable.auto.commit" in given and values["enable.auto.commit"]:
            raise conflict("enable.auto.commit", "commits need a group.id; set it, or leave enable.auto.commit out")
        values["enable.auto.commit"] = False
    elif not values["group.id"]:
        raise conflict("group.id", "must not be empty; leave it out to read without a group")
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
            "the session would expire between two heartbeats; lower it",
        )
    if not values["partition.assignment.strategy"]:
        raise conflict("partition.assignment.strategy", "at least one assignor is needed")


CONSUMER = ClientTable(
    "consumer",
    {
        "Addresses and sockets": addresses(receive_buffer_bytes=65_536),
        "TLS": security.TLS,
        "Login": security.SASL,
        "Records": RECORDS,
        "Schemas": CONSUMER_SCHEMAS,
        "Fetching": FETCHING,
        "Groups": GROUPS,
        "Timeouts and retries": (*CALLS, *waiting(idle_ms=540_000)),
        "Accepted without effect": (*kept_for_kafka(metrics_push=True), *security.NOT_HERE, *NOT_HERE),
    },
    rules,
)
