from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.settings import BROKER, TOPIC, BrokerSettings, Description, SettingError, SettingSource, SettingType
from moldau.settings.kafka_only import kafka_only

# The file that Kafka 4 ships, without its comments.
KAFKAS_OWN_FILE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}


def one_topic_setting(settings: BrokerSettings, overrides: Mapping[str, str], name: str) -> Description:
    [description] = settings.describe_topic(overrides, [name])
    return description


def synonyms(description: Description) -> list[tuple[str, str | None, int]]:
    return [(one.name, one.value, int(one.source)) for one in description.synonyms]


def test_the_file_that_kafka_ships_is_accepted_and_its_quorum_left_out() -> None:
    settings = BrokerSettings(KAFKAS_OWN_FILE)
    plan = settings.listener_plan()
    assert [listener.name for listener in plan.bound] == ["PLAINTEXT"]
    assert [str(address) for address in plan.advertised] == ["PLAINTEXT://localhost:9092"]
    assert settings.node_id == 1
    warned = {setting.name for setting in settings.without_effect()}
    assert {"num.network.threads", "controller.quorum.bootstrap.servers"} <= warned
    assert "log.retention.hours" not in warned


def test_settings_at_run_time_win_over_those_at_start_and_this_broker_over_all() -> None:
    settings = BrokerSettings({"max.connections": "1", "message.max.bytes": "1", "min.insync.replicas": "1"})
    changed = settings.with_dynamic({"max.connections": "3"}, {"max.connections": "2", "message.max.bytes": "2"})
    assert changed["max.connections"] == 3
    assert changed["message.max.bytes"] == 2
    assert changed["min.insync.replicas"] == 1
    assert settings["max.connections"] == 1, "the old settings have changed"


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 7 * 24 * 3_600_000),
        ({"log.retention.hours": "2"}, 2 * 3_600_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5"}, 5 * 60_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "5", "log.retention.ms": "9"}, 9),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_given_decides_how_long_topics_are_kept(static: dict[str, str], retention_ms: int) -> None:
    assert BrokerSettings(static).topic_values({})["retention.ms"] == retention_ms


def test_a_topics_own_setting_wins_over_the_brokers() -> None:
    settings = BrokerSettings({"log.segment.bytes": "2097152"})
    assert settings.topic_values({})["segment.bytes"] == 2097152
    assert settings.topic_values({"segment.bytes": "3145728"})["segment.bytes"] == 3145728


def test_every_topic_setting_has_a_value_for_every_topic() -> None:
    values = BrokerSettings({}).topic_values({})
    assert set(values) == {setting.name for setting in TOPIC}
    for setting in TOPIC:
        assert values[setting.name] == setting.default, "defaults of broker and topic differ"


# DescribeConfigs: the expectations are answers of an Apache Kafka 4.3 broker that was started with the same settings.


def test_a_topic_setting_is_described_with_all_its_synonyms() -> None:
    settings = BrokerSettings({"log.segment.bytes": "2097152"})
    described = one_topic_setting(settings, {"segment.bytes": " 3145728"}, "segment.bytes")
    assert (described.value, described.source, described.read_only) == ("3145728", SettingSource.TOPIC, False)
    assert synonyms(described) == [
        ("segment.bytes", "3145728", 1),
        ("log.segment.bytes", "2097152", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    inherited = one_topic_setting(settings, {}, "segment.bytes")
    assert (inherited.value, inherited.source) == ("2097152", SettingSource.STATIC_BROKER)


def test_retention_set_in_hours_is_described_as_kafka_does() -> None:
    settings = BrokerSettings({"log.retention.hours": "24"})
    described = one_topic_setting(settings, {}, "retention.ms")
    assert (described.value, described.source, synonyms(described)) == ("86400000", SettingSource.DEFAULT, [])
    changed = settings.with_dynamic({"log.retention.ms": "5000"}, {})
    described = one_topic_setting(changed, {}, "retention.ms")
    assert (described.value, described.source) == ("5000", SettingSource.DYNAMIC_BROKER)
    assert synonyms(described)[0] == ("log.retention.ms", "5000", 2)


def test_a_broker_setting_is_described_with_type_scope_and_synonyms() -> None:
    settings = BrokerSettings({"max.connections": "10"}, {"max.connections": "30"}, {"max.connections": "20"})
    [described] = settings.describe(["max.connections"])
    assert described.value == "30"
    assert described.type is SettingType.INT
    assert not described.read_only
    assert [(value, source) for _, value, source in synonyms(described)] == [
        ("30", 2),
        ("20", 3),
        ("10", 4),
        ("2147483647", 5),
    ]
    [fixed] = settings.describe(["num.partitions"])
    assert fixed.read_only


def test_a_setting_without_a_value_is_described_without_one() -> None:
    [described] = BrokerSettings({}).describe(["log.retention.ms"])
    assert (described.value, described.source, described.synonyms) == (None, SettingSource.DEFAULT, [])


def test_the_cluster_wide_broker_resource_has_only_cluster_wide_settings() -> None:
    settings = BrokerSettings({"max.connections": "10"}, {"max.connections": "30"}, {"max.connections": "20"})
    [described] = settings.describe_default()
    assert (described.name, described.value) == ("max.connections", "20")
    assert described.source is SettingSource.DYNAMIC_DEFAULT_BROKER


def test_all_settings_are_described_without_names_and_unknown_names_are_ignored() -> None:
    settings = BrokerSettings({})
    assert [one.name for one in settings.describe()] == [setting.name for setting in BROKER]
    assert [one.name for one in settings.describe_topic({})] == [setting.name for setting in TOPIC]
    assert [one.name for one in settings.describe_topic({}, ["foo", "flush.ms"])] == ["flush.ms"]


def test_a_setting_without_effect_says_so_where_it_is_described() -> None:
    [described] = BrokerSettings({}).describe(["num.network.threads"])
    assert "without effect: one event loop serves all connections." in described.documentation


# Refusals.


def test_conflicting_topic_settings_are_refused_together() -> None:
    error = BrokerSettings({}).topic_error({"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"})
    assert error == "min.compaction.lag.ms (100) is above max.compaction.lag.ms (50)"
    assert BrokerSettings({}).topic_error({"min.compaction.lag.ms": "100"}) is None


def test_a_topic_error_is_a_sentence_not_an_exception() -> None:
    error = BrokerSettings({}).topic_error({"segment.bytes": "0"})
    assert error is not None
    assert error.startswith("segment.bytes: 0 is out of bounds")


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ({"num.partitions": "3"}, "num.partitions: cannot be changed while the broker runs"),
        ({"log.retention.hours": "3"}, "log.retention.hours: cannot be changed while the broker runs"),
        ({"max.connections": "-1"}, "max.connections: -1 is out of bounds"),
        ({"log.retention.ms": "0"}, "log.retention.ms: 0 is not allowed: use -1 (no limit), or 1 or more"),
        ({"sasl.kerberos.min.time.before.relogin": "soon"}, "sasl.kerberos.min.time.before.relogin: 'soon' is not a"),
        ({"broker.session.timeout.ms": "1"}, "broker.session.timeout.ms: cannot be changed while the broker runs"),
    ],
)
def test_an_impossible_change_at_run_time_is_refused(texts: dict[str, str], complaint: str) -> None:
    error = BrokerSettings({}).dynamic_error(texts)
    assert error is not None
    assert error.startswith(complaint)


def test_a_possible_change_at_run_time_is_accepted() -> None:
    assert BrokerSettings({}).dynamic_error({"max.connections": "7", "log.retention.ms": "-1"}) is None


@pytest.mark.parametrize("given", ["node.id", "broker.id"])
def test_either_name_of_the_brokers_id_gives_the_other(given: str) -> None:
    settings = BrokerSettings({given: "7"})
    assert settings["node.id"] == settings["broker.id"] == settings.node_id == 7


def test_a_broker_without_an_id_takes_it_from_its_data() -> None:
    settings = BrokerSettings({})
    assert settings.node_id is None
    assert settings.with_node_id(4).node_id == 4


@pytest.mark.parametrize(
    ("static", "complaint"),
    [
        ({"node.id": "1", "broker.id": "2"}, "node.id: 1 is not the same as broker.id 2"),
        ({"log.dirs": "a,b,a"}, "log.dirs: a directory is given twice"),
        ({"log.dir": ""}, "log.dirs: at least one directory is needed"),
        ({"queued.max.request.bytes": "5"}, r"queued.max.request.bytes: 5 is less than socket.request.max.bytes"),
        ({"max.connections.per.ip.overrides": "10.0.0.1"}, "'10.0.0.1' is not of the form HOST:COUNT"),
        ({"process.roles": "controller"}, "process.roles: must include broker"),
        ({"log.roll.ms": "0"}, "log.roll.ms: 0 is out of bounds"),
    ],
)
def test_contradictory_broker_settings_are_refused(static: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingError) as caught:
        BrokerSettings(static)
    assert complaint in str(caught.value)


def test_log_dirs_has_precedence_over_log_dir() -> None:
    assert BrokerSettings({"log.dir": "one"}).log_dirs == ("one",)
    assert BrokerSettings({"log.dir": "one", "log.dirs": "two, three"}).log_dirs == ("two", "three")


def test_kafka_only_settings_are_described_with_the_given_value() -> None:
    settings = BrokerSettings({"sasl.kerberos.min.time.before.relogin": "5", "num.partitions": "2"})
    assert "cleanup.policy" not in {one.name for one in settings.describe()}
    changed = settings.with_dynamic({"sasl.kerberos.min.time.before.relogin": "7"}, {"cleanup.policy": "compact"})
    [kerberos] = changed.describe(["sasl.kerberos.min.time.before.relogin"])
    assert (kerberos.value, kerberos.read_only, kerberos.sensitive) == ("7", False, False)
    assert [one.value for one in kerberos.synonyms] == ["7", "5", "60000"]
    [unknown] = changed.describe(["cleanup.policy"])
    assert (unknown.value, unknown.read_only, unknown.sensitive, int(unknown.type)) == (None, True, True, 0)
    assert [one.name for one in changed.describe_default()] == ["cleanup.policy"]
    assert {one.name for one in changed.without_effect()} == {"sasl.kerberos.min.time.before.relogin", "cleanup.policy"}


@pytest.mark.parametrize("name", ["alter.config.policy.class.name", "create.topic.policy.class.name"])
def test_a_security_setting_is_never_ignored(name: str) -> None:
    with pytest.raises(SettingError, match="would be unchecked"):
        BrokerSettings({name: "org.example.Guard"})
    assert BrokerSettings({name: ""}).node_id is None


def test_all_settings_that_only_kafka_has_are_not_ours_and_have_defaults_of_their_type() -> None:
    assert len(kafka_only()) > 150
    assert not any(name in BROKER for name in kafka_only())
    for setting in kafka_only().values():
        text = setting.format(setting.default)
        assert text is None or setting.parse(text) == setting.default
