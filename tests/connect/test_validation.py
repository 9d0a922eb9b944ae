from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from moldau.connect.built_in_plugins import Kind
from moldau.connect.config_def import ConfigDef, ConfigKey, ConfigType, Importance, between, not_empty
from moldau.connect.connector import SinkConnector, SourceConnector
from moldau.connect.herder.errors import BadRequestError
from moldau.connect.plugins import Plugin, Plugins
from moldau.connect.validation import WorkerRules, validate

HERE = "tests.connect.test_validation"


class TableSource(SourceConnector):
    config_def = ConfigDef(
        [
            ConfigKey("table", ConfigType.STRING, "Table to read.", validator=not_empty, group="Database", order=1),
            ConfigKey("batch.rows", ConfigType.INT, "Rows per batch.", 2000, validator=between(1)),
            ConfigKey("connection.password", ConfigType.PASSWORD, "Password.", None),
        ]
    )
    open_prefixes = ("driver.",)

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        assert isinstance(config["batch.rows"], int)
        missing = config["table"] == "missing"
        return {"table": [f"no table {config['table']}, login {config['connection.password']}"]} if missing else {}


class TableSink(SinkConnector):
    config_def = ConfigDef([ConfigKey("table", ConfigType.STRING, "Table to write.", "t")])


class Mask:
    config_def = ConfigDef(
        [
            ConfigKey("replacement", ConfigType.STRING, "Text instead of the value.", None, Importance.LOW),
            ConfigKey("fields", ConfigType.LIST, "Fields to mask.", importance=Importance.HIGH),
        ]
    )


class HasTopic:
    config_def = ConfigDef([ConfigKey("pattern", ConfigType.STRING, "Topics.")])


class JsonConverter:
    config_def = ConfigDef(
        [
            ConfigKey("converter.type", ConfigType.STRING, "key or value."),
            ConfigKey("schemas.enable", ConfigType.BOOLEAN, "With schemas.", True),
        ]
    )


PLUGINS = Plugins(
    Plugin(kind, name, f"{HERE}:{target}", frozenset({name}))
    for kind, name, target in [
        (Kind.SOURCE, "com.example.TableSourceConnector", "TableSource"),
        (Kind.SINK, "com.example.TableSinkConnector", "TableSink"),
        (Kind.SINK, "com.example.BrokenConnector", "NoSuchClass"),
        (Kind.TRANSFORMATION, "com.example.Mask$Value", "Mask"),
        (Kind.PREDICATE, "com.example.HasTopic", "HasTopic"),
        (Kind.CONVERTER, "com.example.JsonConverter", "JsonConverter"),
    ]
)


def source(**more: str | None) -> dict[str, str | None]:
    return {"name": "s", "connector.class": "TableSource", "table": "t", **more}


def sink(**more: str | None) -> dict[str, str | None]:
    return {"name": "s", "connector.class": "TableSink", "topics": "a", **more}


def errors(config: Mapping[str, str | None], **arguments: Any) -> dict[str, list[str]]:
    found = validate(config, plugins=PLUGINS, **arguments)
    assert found.error_count == sum(map(len, found.errors.values())) == found.body["error_count"]
    shown = {one["value"]["name"]: one["value"]["errors"] for one in found.body["configs"] if one["value"]["errors"]}
    assert shown == {name: list(problems) for name, problems in found.errors.items()}
    return shown


def configs(config: Mapping[str, str | None], **arguments: Any) -> dict[str, dict[str, Any]]:
    found = validate(config, plugins=PLUGINS, **arguments)
    return {one["value"]["name"]: one for one in found.body["configs"]}


# -- answers ---------------------------------------------------------------------------------------------------------


def test_a_right_configuration_has_no_errors() -> None:
    assert errors(source()) == {}
    assert errors(sink()) == {}


def test_a_definition_and_a_value_have_the_fields_of_kafka_connect() -> None:
    assert configs(source(**{"batch.rows": " 7 "}))["batch.rows"] == {
        "definition": {
            "name": "batch.rows",
            "type": "INT",
            "required": False,
            "default_value": "2000",
            "importance": "MEDIUM",
            "documentation": "Rows per batch.",
            "group": None,
            "order_in_group": -1,
            "width": "NONE",
            "display_name": "batch.rows",
            "dependents": [],
        },
        "value": {"name": "batch.rows", "value": "7", "recommended_values": [], "errors": [], "visible": True},
    }


def test_the_answer_names_the_class_as_it_was_given_and_all_groups() -> None:
    found = validate(source(), plugins=PLUGINS)
    assert found.body["name"] == "TableSource"
    assert found.body["groups"] == [
        "Common",
        "Transforms",
        "Predicates",
        "Error Handling",
        "Topic Creation",
        "Exactly Once Support",
        "offsets.topic",
        "Database",
    ]


def test_a_source_has_no_topics_and_a_sink_creates_none() -> None:
    assert "topics" not in configs(source())
    assert "topic.creation.groups" not in configs(sink())


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_a_configuration_without_a_class_is_refused_without_showing_its_values() -> None:
    with pytest.raises(BadRequestError) as caught:
        validate({"name": "x", "connection.password": "geheim"}, plugins=PLUGINS)
    assert str(caught.value) == "Connector config {name, connection.password} contains no connector type"


def test_an_unknown_class_and_one_that_does_not_load_are_errors() -> None:
    with pytest.raises(BadRequestError, match="which name matches NoSuch, available connectors are: com"):
        validate(source(**{"connector.class": "NoSuch"}), plugins=PLUGINS)
    with pytest.raises(BadRequestError, match=r"Failed to load connector class com\.example\.BrokenConnector"):
        validate(source(**{"connector.class": "Broken"}), plugins=PLUGINS)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("tasks.max", "0", "Invalid value 0 for configuration tasks.max: Value must be at least 1"),
        ("tasks.max", "x", "Invalid value x for configuration tasks.max: Not a number of type INT"),
        ("batch.rows", "-1", "Invalid value -1 for configuration batch.rows: Value must be at least 1"),
        ("name", " ", "Invalid value  for configuration name: String may not be empty"),
        ("name", "a\x07b", "Invalid value 'a\\x07b' for configuration name: String may not contain control sequences"),
        ("errors.tolerance", "some", "Invalid value some for configuration errors.tolerance: String must be one of"),
        ("errors.log.enable", "ja", "Expected value to be either true or false"),
        ("key.converter", "Nope", "Invalid value Nope for configuration key.converter: Class Nope could not be found."),
        ("transforms", "a,a", "Invalid value [a, a] for configuration transforms: Duplicate alias provided."),
        ("exactly.once.support", "maybe", "String must be one of (case insensitive): REQUIRED, REQUESTED"),
        ("transaction.boundary", "interval", "a transaction holds one micro-batch here; use poll"),
        ("offsets.storage.topic", "", "String must be non-empty"),
        ("offsets.storage.topic", "other", "the offsets of all connectors are in the worker's offset.storage.topic"),
    ],
)
def test_a_wrong_value_is_named_with_its_setting(name: str, text: str, problem: str) -> None:
    config = source(**{name: text})
    if name == "transforms":
        config["transforms.a.type"] = "com.example.Mask$Value"
        config["transforms.a.fields"] = "x"
    assert problem in errors(config)[name][0]


def test_a_required_setting_that_is_missing_is_named() -> None:
    config = source()
    del config["table"]
    assert errors(config) == {"table": ['Missing required configuration "table" which has no default value.']}


def test_a_null_is_refused_also_for_an_unknown_setting() -> None:
    null = "Null value can not be supplied as the configuration value."
    assert errors(source(**{"batch.rows": None, "color": None})) == {"batch.rows": [null], "color": [null]}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("bach.rows", 'Unknown configuration "bach.rows"; did you mean batch.rows?'),
        ("task.max", 'Unknown configuration "task.max"; did you mean tasks.max?'),
        ("zzz", 'Unknown configuration "zzz"'),
        (
            "value.converter.schemas.enable",
            (
                'Configuration "value.converter.schemas.enable" has no effect without value.converter: the converter '
                "of the worker is used"
            ),
        ),
        ("transforms.m.fields", 'Configuration "transforms.m.fields" has no effect: m is not listed in transforms'),
        ("predicates.p.type", 'Configuration "predicates.p.type" has no effect: p is not listed in predicates'),
    ],
)
def test_a_setting_that_nothing_reads_is_an_error_that_does_not_show_its_value(name: str, hint: str) -> None:
    assert errors(source(**{name: "geheim"})) == {name: [hint]}
    entry = configs(source(**{name: "geheim"}))[name]
    assert entry["definition"] is None
    assert entry["value"]["value"] is None


def test_a_connector_may_accept_settings_by_prefix() -> None:
    assert errors(source(**{"driver.anything": "1"})) == {}


def test_the_connector_checks_when_all_else_is_right() -> None:
    assert errors(source(table="missing")) == {"table": ["no table missing, login None"]}
    assert "table" not in errors(source(table="missing", **{"tasks.max": "x"}))


# -- sinks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"topics": ""}, "Must configure one of topics or topics.regex"),
        ({"topics.regex": "a.*"}, "topics and topics.regex are mutually exclusive options, but both are set."),
    ],
)
def test_a_sink_has_topics_or_a_pattern(given: dict[str, str], problem: str) -> None:
    assert errors(sink(**given)) == {"topics": [problem], "topics.regex": [problem]}


def test_a_sink_does_not_read_its_own_dead_letters() -> None:
    dead = {"errors.deadletterqueue.topic.name": "a"}
    assert (
        "may not be included in the list of topics ('topics=[a, b]')" in errors(sink(**dead, topics="a,b"))["topics"][0]
    )
    by_pattern = errors(sink(**dead, topics="", **{"topics.regex": "[ab]"}))
    assert "may not be matched by the regex for the topics ('topics.regex=[ab]')" in by_pattern["topics.regex"][0]
    assert "Invalid regular expression" in errors(sink(**dead, topics="", **{"topics.regex": "["}))["topics.regex"][0]


@pytest.mark.parametrize("name", ["producer.override.acks", "consumer.override.group.id"])
def test_settings_of_clients_that_guarantees_depend_on_are_refused(name: str) -> None:
    assert "the guarantees of connectors depend on the engine's value" in errors(sink(**{name: "1"}))[name][0]


def test_the_settings_of_the_engine_are_known() -> None:
    assert errors(sink(**{"task.deadline.ms": "1000", "batch.max.offsets": "10"})) == {}
    assert "at least 100" in errors(source(**{"task.deadline.ms": "1"}))["task.deadline.ms"][0]
    assert "batch.max.offsets" in errors(source(**{"batch.max.offsets": "10"}))


# -- chains, converters, topics, overrides -----------------------------------------------------------------------------


def test_the_settings_of_a_transform_are_embedded_in_kafkas_order() -> None:
    found = configs(
        source(**{"transforms": "m", "transforms.m.type": "com.example.Mask$Value", "transforms.m.fields": "x"})
    )
    names = [name for name in found if name.startswith("transforms.m.")]
    assert names == [
        f"transforms.m.{one}" for one in ("type", "plugin.version", "fields", "negate", "predicate", "replacement")
    ]
    assert found["transforms.m.fields"]["definition"]["group"] == "Transforms: m"
    assert found["transforms.m.type"]["value"]["recommended_values"] == ["com.example.Mask$Value"]


@pytest.mark.parametrize(
    ("given", "where", "problem"),
    [
        ({}, "transforms.m.type", "Missing required configuration"),
        ({"transforms.m.type": "Nope"}, "transforms.m.type", "Class Nope could not be found."),
        ({"transforms.m.type": "Mask$Value"}, "transforms.m.fields", "Missing required configuration"),
        (
            {"transforms.m.type": "Mask$Value", "transforms.m.fields": "x", "transforms.m.feld": "x"},
            "transforms.m.feld",
            "did you mean transforms.m.fields?",
        ),
        (
            {"transforms.m.type": "Mask$Value", "transforms.m.fields": "x", "transforms.m.predicate": "p"},
            "transforms.m.predicate",
            "Transformation m refers to the undefined predicate p.",
        ),
        (
            {"transforms.m.type": "Mask$Value", "transforms.m.fields": "x", "transforms.m.negate": "true"},
            "transforms.m.type",
            "there is no config 'transforms.m.predicate' defining a predicate to be negated",
        ),
    ],
)
def test_mistakes_in_a_transform_are_found(given: dict[str, str], where: str, problem: str) -> None:
    found = errors(source(transforms="m", **given))
    assert list(found) == [where]
    assert problem in found[where][0]


def test_a_transform_with_a_predicate_is_right() -> None:
    chain = {
        "transforms": "m",
        "transforms.m.type": "Mask$Value",
        "transforms.m.fields": "x",
        "transforms.m.predicate": "p",
        "transforms.m.negate": "true",
        "predicates": "p",
        "predicates.p.type": "HasTopic",
        "predicates.p.pattern": ".*",
    }
    assert errors(source(**chain)) == {}


def test_the_settings_of_a_converter_are_checked_under_its_prefix() -> None:
    found = configs(source(**{"key.converter": "Json", "key.converter.schemas.enable": "false"}))
    assert found["key.converter"]["value"]["value"] == "com.example.JsonConverter"
    assert found["key.converter.schemas.enable"]["value"]["value"] == "false"
    assert found["key.converter.converter.type"]["value"]["value"] == "key"
    wrong = errors(
        source(**{"key.converter": "Json", "key.converter.schemas.enable": "x", "key.converter.schema": "1"})
    )
    assert sorted(wrong) == ["key.converter.schema", "key.converter.schemas.enable"]


def test_topics_to_create_are_checked_with_their_topic_settings() -> None:
    right = {
        "topic.creation.groups": "big",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.big.include": "big.*",
        "topic.creation.big.cleanup.policy": "compact",
    }
    assert errors(source(**right)) == {}
    assert list(errors(source(**{"topic.creation.groups": "big"}))) == [
        "topic.creation.default.replication.factor",
        "topic.creation.default.partitions",
    ]
    wrong = {
        **right,
        "topic.creation.default.partitions": "0",
        "topic.creation.big.include": "(",
        "topic.creation.big.cleanup.policy": "shred",
        "topic.creation.big.clenup.policy": "x",
        "topic.creation.small.partitions": "1",
    }
    assert sorted(errors(source(**wrong))) == sorted(
        set(wrong) - set(right) | {name for name in right if wrong[name] != right[name]}
    )


def test_overrides_are_checked_against_the_settings_of_their_client() -> None:
    found = configs(source(**{"producer.override.linger.ms": "7"}))["producer.override.linger.ms"]
    assert (found["definition"]["type"], found["value"]["value"]) == ("LONG", "7")
    wrong = errors(
        source(
            **{
                "producer.override.linger.ms": "soon",
                "producer.override.lingerms": "5",
                "consumer.override.fetch.min.byte": "1",
                "admin.override.ssl.keystore.passwort": "geheim",
            }
        )
    )
    assert "Invalid value soon for configuration producer.override.linger.ms" in wrong["producer.override.linger.ms"][0]
    assert wrong["producer.override.lingerms"] == [
        'Unknown configuration "producer.override.lingerms"; did you mean producer.override.linger.ms?'
    ]
    assert sorted(wrong)[:2] == ["admin.override.ssl.keystore.passwort", "consumer.override.fetch.min.byte"]
    assert "geheim" not in str(wrong)


def test_an_override_of_a_client_that_the_connector_does_not_use_is_accepted_and_not_shown() -> None:
    assert errors(sink(**{"producer.override.linger.ms": "7"})) == {}
    assert "producer.override.linger.ms" not in configs(sink(**{"producer.override.linger.ms": "7"}))
    assert "consumer.override.fetch.min.bytes" in configs(sink(**{"consumer.override.fetch.min.bytes": "7"}))


@pytest.mark.parametrize(
    ("policy", "refused"),
    [("All", []), ("None", ["linger.ms", "sasl.mechanism"]), ("Principal", ["linger.ms"])],
)
def test_the_policy_of_the_worker_limits_overrides(policy: str, refused: list[str]) -> None:
    given = source(**{"producer.override.linger.ms": "1", "producer.override.sasl.mechanism": "PLAIN"})
    found = errors(given, rules=WorkerRules(override_policy=policy))
    assert sorted(found) == [f"producer.override.{name}" for name in refused]
    long_name = f"org.apache.kafka.connect.connector.policy.{policy}ConnectorClientConfigOverridePolicy"
    assert sorted(errors(given, rules=WorkerRules(override_policy=long_name))) == sorted(found)


def test_exactly_once_is_refused_where_the_worker_does_not_offer_it() -> None:
    required = source(**{"exactly.once.support": "Required"})
    assert errors(required) == {}
    refused = errors(required, rules=WorkerRules(exactly_once_sources=False))
    assert list(refused) == ["exactly.once.support"]


# -- secrets ---------------------------------------------------------------------------------------------------------


def test_passwords_and_values_of_config_providers_are_never_shown() -> None:
    raw = source(table="${file:/etc/s:table}", **{"connection.password": "${env:PW}", "tasks.max": "${env:N}"})
    resolved = source(table="missing", **{"connection.password": "geheim", "tasks.max": "2"})
    body = validate(raw, resolved=resolved, plugins=PLUGINS).body
    found = {one["value"]["name"]: one["value"] for one in body["configs"]}
    assert found["table"]["value"] == "${file:/etc/s:table}"
    assert found["table"]["errors"] == ["no table ${file:/etc/s:table}, login ${env:PW}"]
    assert found["tasks.max"]["value"] == "${env:N}"
    assert "geheim" not in str(body)
    assert "missing" not in str(body)


def test_a_plain_password_is_hidden() -> None:
    found = configs(source(**{"connection.password": "geheim"}))["connection.password"]
    assert found["value"]["value"] == "[hidden]"


def test_a_wrong_value_of_a_config_provider_is_an_error_that_shows_the_reference() -> None:
    raw, resolved = source(**{"tasks.max": "${env:N}"}), source(**{"tasks.max": "geheim"})
    assert errors(raw, resolved=resolved) == {
        "tasks.max": ["Invalid value ${env:N} for configuration tasks.max: Not a number of type INT"]
    }


# -- versions and the worker's converters ------------------------------------------------------------------------------


def test_the_converters_of_the_worker_are_the_defaults() -> None:
    found = configs(source(), rules=WorkerRules(converters={"key.converter": "com.example.JsonConverter"}))
    assert found["key.converter"]["definition"]["default_value"] == "com.example.JsonConverter"
    assert found["key.converter"]["value"]["value"] == "com.example.JsonConverter"
    assert found["key.converter"]["value"]["recommended_values"] == ["com.example.JsonConverter"]
    assert found["value.converter"]["value"]["value"] is None


def test_only_the_installed_version_of_a_class_is_accepted() -> None:
    version = TableSource.version
    assert configs(source())["connector.plugin.version"]["value"]["recommended_values"] == [version]
    assert errors(source(**{"connector.plugin.version": version})) == {}
    assert errors(source(**{"connector.plugin.version": "0.0.0"})) == {
        "connector.plugin.version": [
            f"Invalid value 0.0.0 for configuration connector.plugin.version: the installed version is {version}"
        ]
    }
