"""Client settings: Kafka's facts about them, all ways to give a value, and wrong values."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from moldau.client.errors import ConfigurationError
from moldau.client.settings import ADMIN, CONSUMER, PRODUCER, Address, ClientSettings, ClientTable
from moldau.client.settings.schemas import PRODUCER_SCHEMAS
from moldau.settings import Setting

FACTS_FILE = Path(__file__).with_name("kafka-clients-4.3.tsv")
TABLES = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}

DIFFERENT_DEFAULT = {
    "metric.reporters": "Kafka's is a class of Java's",
    "sasl.oauthbearer.jwt.retriever.class": "Kafka's is a class of Java's",
    "sasl.oauthbearer.jwt.validator.class": "Kafka's is a class of Java's",
    "partition.assignment.strategy": "ours are the assignors' names, Kafka's their classes",
}
WITHOUT_DEFAULT = {"bootstrap.servers", "key.serializer", "value.serializer", "key.deserializer", "value.deserializer"}
"""Settings that Kafka's clients require (the admin client may have controllers instead of servers)."""

OTHER_BOUNDS = {
    "ssl.enabled.protocols": "Kafka finds out later which ones Java knows",
    "sasl.oauthbearer.assertion.algorithm": "accepted without a look: there are no assertions",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "the same",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "the same",
    "share.acquire.mode": "accepted without a look: there is no share consumer",
}


NOT_KAFKAS = {
    "sasl.mechanisms": "librdkafka",
    "sasl.username": "librdkafka",
    "sasl.password": "librdkafka",
    "ssl.ca.location": "librdkafka",
    "ssl.certificate.location": "librdkafka",
    "ssl.key.location": "librdkafka",
    "sasl.oauth.token.provider": "a function of Python",
    **dict.fromkeys((setting.name for setting in PRODUCER_SCHEMAS), "Confluent's serializers"),
}
"""Settings that Kafka's clients do not have, and who has them."""


class Fact(NamedTuple):
    type: str
    default: str
    bounds: str


def read_facts() -> dict[tuple[str, str], Fact]:
    lines = FACTS_FILE.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return {(kind, name): Fact(type_name, default, bounds) for kind, name, type_name, default, bounds in rows}


FACTS = read_facts()
DECLARED = [
    pytest.param(kind, setting, id=f"{kind}-{setting.name}")
    for kind, table in TABLES.items()
    for setting in table
    if setting.name not in NOT_KAFKAS
]


def of(table: ClientTable, mapping: dict[str, Any] | None = None, /, **keywords: Any) -> ClientSettings:
    return ClientSettings.of(table, {"bootstrap.servers": "localhost:9092", **(mapping or {})}, keywords)


@pytest.mark.parametrize(("kind", "setting"), DECLARED)
def test_a_setting_has_kafkas_type_default_and_bounds(kind: str, setting: Setting) -> None:
    fact = FACTS[kind, setting.name]
    assert setting.type.name == fact.type
    if setting.name not in DIFFERENT_DEFAULT and setting.name not in WITHOUT_DEFAULT:
        assert (setting.format(setting.default) or "") == ("" if fact.default == "-null-" else fact.default)
    if setting.name in OTHER_BOUNDS:
        return
    if match := re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?", fact.bounds):
        low, high, extra = (None if group is None else float(group) for group in match.groups())
        assert (setting.low, setting.high, setting.extra_value) == (low, high, extra)
    elif setting.choices:
        allowed = fact.bounds.removeprefix("(case insensitive) ").strip("[]").split(", ")
        assert sorted(map(str.lower, setting.choices)) == sorted(map(str.lower, allowed))
    else:
        assert setting.low is None


@pytest.mark.parametrize("kind", TABLES)
def test_every_setting_of_kafkas_client_is_known(kind: str) -> None:
    assert {name for of_kind, name in FACTS if of_kind == kind} == {
        setting.name for setting in TABLES[kind]
    } - NOT_KAFKAS.keys()


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("linger.ms", 7, 7),
        ("linger.ms", "7", 7),
        ("linger.ms", 7.0, 7),
        ("linger.ms", " 7 ", 7),
        ("enable.idempotence", True, True),
        ("enable.idempotence", "TRUE", True),
        ("acks", "-1", "all"),
        ("acks", "all", "all"),
        ("interceptor.classes", "a, b", ("a", "b")),
        ("interceptor.classes", [len, "b "], (len, "b")),
        ("interceptor.classes", len, (len,)),
        ("partitioner.class", len, len),
        ("partitioner.class", " some.Class ", "some.Class"),
        ("metadata.recovery.strategy", "REBOOTSTRAP", "rebootstrap"),
        ("transactional.id", None, None),
    ],
)
def test_a_value_may_be_a_text_or_the_thing_itself(name: str, given: object, value: object) -> None:
    assert of(PRODUCER, {name: given})[name] == value
    assert of(PRODUCER, **{name.replace(".", "_"): given})[name] == value


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"lingr.ms": 5}, "lingr.ms: unknown producer setting; did you mean linger.ms?"),
        ({"linger_ms": 5}, "linger_ms: unknown producer setting; did you mean linger.ms?"),
        ({"linger.ms": "soon"}, "linger.ms: 'soon' is not a whole number"),
        ({"linger.ms": 5.5}, "linger.ms: '5.5' is not a whole number"),
        ({"linger.ms": -1}, "linger.ms: -1 is out of bounds: 0 or more is allowed"),
        ({"linger.ms": True}, "linger.ms: True has the type bool; give a value of type LONG"),
        ({"linger.ms": b"5"}, "linger.ms: b'5' has the type bytes; give a value of type LONG"),
        ({"enable.idempotence": 1}, "enable.idempotence: 1 has the type int; give a value of type BOOLEAN"),
        ({"compression.type": "rar"}, "compression.type: 'rar' is not one of none, gzip, snappy, lz4, zstd"),
        ({"transactional.id": ""}, "transactional.id: must not be empty"),
        (
            {"security.protocol": "TLS"},
            "security.protocol: 'TLS' is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols: 'TLSv1.1' is not one of TLSv1.2, TLSv1.3"),
        ({"sasl.password": 4711}, "sasl.password: the value has the type int; give a value of type PASSWORD"),
        ({"sasl.password": "${env:NO_SUCH}"}, "sasl.password: refers to the environment variable NO_SUCH"),
        ({"bootstrap.servers": "localhost"}, "'localhost' is not HOST:PORT, such as localhost:9092"),
        ({"bootstrap.servers": "localhost:no"}, "'no' is not a port from 1 to 65535"),
        ({"bootstrap.servers": "localhost:65536"}, "'65536' is not a port from 1 to 65535"),
        ({"bootstrap.servers": "::1:9092"}, "put an IPv6 address in brackets, [::1]:9092"),
        ({"bootstrap.servers": "SSL://localhost:9092"}, "is not for security.protocol=PLAINTEXT; write HOST:PORT"),
        ({"bootstrap.servers": [9092]}, "9092 is not a str such as 'localhost:9092'"),
        ({"bootstrap.servers": ""}, "bootstrap.servers: missing; give the address of one broker or more"),
        ({"bootstrap.servers": None}, "bootstrap.servers: missing; give the address of one broker or more"),
    ],
)
def test_the_error_of_a_setting_says_what_is_wrong(mapping: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        of(PRODUCER, mapping)


def test_the_same_setting_given_twice_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"linger\.ms: given twice, in the mapping and as linger_ms="):
        of(PRODUCER, {"linger.ms": 5}, linger_ms=6)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", [("a", 1)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        (["a:1", " b:2 "], [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
    ],
)
def test_addresses_are_hosts_and_ports(text: object, addresses: list[tuple[str, int]]) -> None:
    assert of(PRODUCER, {"bootstrap.servers": text}).addresses == tuple(Address(*one) for one in addresses)


def test_an_ipv6_address_is_shown_as_given() -> None:
    assert [str(one) for one in of(PRODUCER, {"bootstrap.servers": "[::1]:9092,a:1"}).addresses] == [
        "[::1]:9092",
        "a:1",
    ]


def test_milliseconds_are_available_in_seconds_and_given_settings_are_known() -> None:
    settings = of(PRODUCER, linger_ms=5)
    assert settings.seconds("linger.ms") == 0.005
    assert "linger.ms" in settings.given
    assert "acks" not in settings.given and settings["acks"] == "all"


def test_a_setting_without_effect_is_warned_of_once_it_is_given(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        of(PRODUCER)
        assert not caplog.records
        of(PRODUCER, metrics_num_samples=3)
    assert "setting has no effect setting=metrics.num.samples reason=" in caplog.text


# Combinations of settings ---------------------------------------------------------------------------------------------


def conflicts(table: ClientTable, says: str, **keywords: Any) -> None:
    with pytest.raises(ConfigurationError, match=says):
        of(table, **keywords)


def test_default_idempotence_is_turned_off_by_conflicting_settings() -> None:
    assert of(PRODUCER)["enable.idempotence"]
    assert not of(PRODUCER, acks=1)["enable.idempotence"]
    assert not of(PRODUCER, retries=0)["enable.idempotence"]


@pytest.mark.parametrize("keywords", [{"acks": "1"}, {"acks": 0}, {"retries": 0}])
@pytest.mark.parametrize("asked", [{"enable_idempotence": True}, {"transactional_id": "t"}])
def test_explicit_idempotence_refuses_conflicting_settings(keywords: dict[str, Any], asked: dict[str, Any]) -> None:
    conflicts(PRODUCER, "is not possible with enable.idempotence", **keywords, **asked)


def test_more_than_five_requests_in_flight_need_idempotence_off() -> None:
    conflicts(PRODUCER, "at most 5 with enable.idempotence", max_in_flight_requests_per_connection=6)
    of(PRODUCER, max_in_flight_requests_per_connection=6, enable_idempotence=False)


def test_transactions_need_idempotence_and_a_name() -> None:
    conflicts(PRODUCER, "transactions need enable.idempotence", transactional_id="t", enable_idempotence=False)
    conflicts(PRODUCER, "needs a transactional.id", transaction_two_phase_commit_enable=True)
    two = {"transactional_id": "t", "transaction_two_phase_commit_enable": True}
    conflicts(
        PRODUCER,
        "transactions with transaction.two.phase.commit.enable have no timeout",
        transaction_timeout_ms=1000,
        **two,
    )
    of(PRODUCER, **two)


def test_delivery_has_time_for_at_least_one_attempt() -> None:
    assert of(PRODUCER, request_timeout_ms=200_000)["delivery.timeout.ms"] == 200_005
    conflicts(PRODUCER, "there would be no time for one attempt", delivery_timeout_ms=1000)


def test_a_call_has_time_for_at_least_one_request() -> None:
    for table in (CONSUMER, ADMIN):
        assert of(table, default_api_timeout_ms=1000)["request.timeout.ms"] == 1000
        conflicts(table, "is less than request.timeout.ms", default_api_timeout_ms=1000, request_timeout_ms=2000)


def test_without_a_group_nothing_is_committed() -> None:
    assert not of(CONSUMER)["enable.auto.commit"]
    assert of(CONSUMER, group_id="g")["enable.auto.commit"]
    conflicts(CONSUMER, "commits need a group.id", enable_auto_commit=True)
    conflicts(CONSUMER, "must not be empty", group_id="")


def test_the_new_group_protocol_refuses_settings_of_the_broker() -> None:
    new = {"group_id": "g", "group_protocol": "CONSUMER"}
    assert of(CONSUMER, **new)["group.protocol"] == "consumer"
    for name in ("session_timeout_ms", "heartbeat_interval_ms"):
        conflicts(CONSUMER, "the broker decides this", **new, **{name: 1000})
    conflicts(CONSUMER, "the broker decides this", **new, partition_assignment_strategy="range")
    conflicts(CONSUMER, "needs group.protocol=consumer", group_id="g", group_remote_assignor="uniform")


def test_a_classic_member_sends_heartbeats_within_its_session() -> None:
    conflicts(CONSUMER, "between two heartbeats", group_id="g", session_timeout_ms=3000)
    conflicts(CONSUMER, "at least one assignor is needed", group_id="g", partition_assignment_strategy=[])


@pytest.mark.parametrize("text", ["earliest", "latest", "none", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S"])
def test_auto_offset_reset_has_all_values_of_kafka(text: str) -> None:
    assert of(CONSUMER, auto_offset_reset=text)["auto.offset.reset"] == text


@pytest.mark.parametrize("text", ["smallest", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:-PT1H"])
def test_an_unknown_auto_offset_reset_is_refused(text: str) -> None:
    conflicts(CONSUMER, "is not one of latest, earliest, none, by_duration", auto_offset_reset=text)
