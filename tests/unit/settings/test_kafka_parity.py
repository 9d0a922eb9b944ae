"""Declared settings compared with Apache Kafka's own (kafka-4.3.tsv): types, defaults and bounds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.settings import BROKER, GROUP, TOPIC, Setting
from moldau.settings.group_configs import bound
from moldau.settings.kafka_only import kafka_only

FACTS_FILE = Path(__file__).with_name("kafka-4.3.tsv")

OURS_ALONE = re.compile(
    r"moldau\..*|confluent\..*|zookeeper\..*|(leader|follower)\.replication\.throttled\.rate"
    r"|leader\.imbalance\.per\.broker\.percentage"
    r"|super\.users|allow\.everyone\.if\.no\.acl\.found"
)
"""Names that are not settings of Kafka 4: our own, those of Confluent's brokers, those of earlier versions that old
files have, and those that Kafka has for changes at run time or for its authorizer, but not in its declarations."""

DIFFERENT_DEFAULT = {
    "node.id": "Kafka has none; ours asks the data directory",
    "log.dir": "Kafka's is a directory of Kafka's, lost at a reboot",
    "controller.listener.names": "Kafka demands one",
    "process.roles": "Kafka demands one",
    "queued.max.request.bytes": "Kafka sets no limit; every buffer of ours has one",
}
DIFFERENT_SCOPE = {
    "listeners": "not reopened while the broker runs",
    "listener.security.protocol.map": "not reopened while the broker runs",
    "num.recovery.threads.per.data.dir": "read at start only",
}
STRICTER_BOUNDS = {
    # Kafka has these rules outside its declarations, or accepts invalid values.
    "broker.id",
    "default.replication.factor",
    "log.flush.interval.ms",
    "log.flush.scheduler.interval.ms",
    "log.retention.hours",
    "log.retention.minutes",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "node.id",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
}


class Fact(NamedTuple):
    type: str
    default: str | None
    bounds: str
    dynamic_or_synonyms: str


def read_facts() -> dict[tuple[str, str], Fact]:
    facts = {}
    for line in FACTS_FILE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            kind, name, type_name, default, bounds, last = line.split("\t")
            facts[kind, name] = Fact(type_name, None if default == "-null-" else default, bounds, last)
    return facts


FACTS = read_facts()
DECLARED = [
    pytest.param(kind, setting, id=f"{kind}-{setting.name}")
    for kind, table in (("broker", BROKER), ("topic", TOPIC), ("group", GROUP))
    for setting in table
    if not OURS_ALONE.fullmatch(setting.name)
]


@pytest.mark.parametrize(("kind", "setting"), DECLARED)
def test_a_setting_has_kafkas_type_default_and_scope(kind: str, setting: Setting) -> None:
    fact = FACTS[kind, setting.name]
    assert setting.type.name == fact.type
    if setting.name not in DIFFERENT_DEFAULT:
        assert setting.format(setting.default) == fact.default
    if kind != "broker":
        assert (",".join(setting.synonyms) or "-") == fact.dynamic_or_synonyms
    elif setting.name not in DIFFERENT_SCOPE:
        assert setting.scope.value == fact.dynamic_or_synonyms


@pytest.mark.parametrize(("kind", "setting"), DECLARED)
def test_a_setting_has_kafkas_bounds(kind: str, setting: Setting) -> None:
    bounds = FACTS[kind, setting.name].bounds
    if setting.name in STRICTER_BOUNDS:
        return
    if match := re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?", bounds):
        low, high, extra = (None if group is None else float(group) for group in match.groups())
        assert (setting.low, setting.high, setting.extra_value) == (low, high, extra)
    elif setting.choices:
        assert sorted(setting.choices) == sorted(bounds.strip("[]").split(", "))
    else:
        assert setting.low is None


def test_every_topic_setting_of_kafka_is_known_but_those_of_tiered_storage() -> None:
    unknown = {name for kind, name in FACTS if kind == "topic" and name not in TOPIC}
    assert unknown == {"local.retention.bytes", "local.retention.ms"}


def test_every_group_setting_of_kafka_is_known_and_bounded_by_settings_that_kafka_has() -> None:
    assert {name for kind, name in FACTS if kind == "group"} == {setting.name for setting in GROUP}
    for setting in GROUP:
        for name in (*setting.synonyms, *(one for one in bound(setting.name) if one is not None)):
            assert name in BROKER or name in kafka_only()


def test_every_exception_from_kafka_names_a_setting_that_differs() -> None:
    for name in DIFFERENT_DEFAULT:
        assert BROKER.default_text(name) != FACTS["broker", name].default
    for name in DIFFERENT_SCOPE:
        assert BROKER[name].scope.value != FACTS["broker", name].dynamic_or_synonyms
