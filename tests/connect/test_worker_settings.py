"""Settings of a Connect worker, compared with those of Kafka Connect 4.3."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from moldau.connect.config_def import ConfigError
from moldau.connect.worker_setting_table import CONNECT
from moldau.connect.worker_settings import WorkerSettings, worker_settings
from moldau.service.http_settings import HttpAddress
from moldau.settings.setting import SettingError

KAFKA = Path(__file__).with_name("kafka-connect-worker-4.3.tsv")
"""Name, type and default, as DistributedConfig of connect-runtime 4.3 prints them."""

OTHER_DEFAULTS = {
    "access.control.allow.methods",
    "access.control.allow.origin",
    "config.storage.topic",
    "exactly.once.source.support",
    "group.id",
    "key.converter",
    "listeners",
    "metric.reporters",
    "offset.storage.topic",
    "receive.buffer.bytes",
    "connections.max.idle.ms",
    "request.timeout.ms",
    "scheduled.rebalance.max.delay.ms",
    "status.storage.topic",
    "value.converter",
}
"""Names whose default differs on purpose: see `worker_setting_table.py`. Those of clients are the admin client's."""


def given(*assignments: str, properties: str = "") -> WorkerSettings:
    return worker_settings(properties=properties, assignments=["bootstrap.servers=b:1", *assignments])


def kafka_rows() -> list[list[str]]:
    return [line.split("\t") for line in KAFKA.read_text().splitlines()]


# -- compared with Kafka -----------------------------------------------------------------------------------------------


def test_every_setting_of_kafka_connect_is_known() -> None:
    assert [name for name, *_ in kafka_rows() if name not in CONNECT] == []


def test_other_defaults_are_those_of_kafka_connect() -> None:
    different = set()
    for name, kind, default in kafka_rows():
        setting = CONNECT[name]
        kafkas = re.sub(r" \(.*\)", "", default).replace('""', "").replace("null", "")
        if (setting.format(setting.default) or "", setting.type.name) != (kafkas, kind):
            different.add(name)
    # Those of TLS and logins are the clients', and compared with Kafka's by the tests of the clients.
    assert {name for name in different if not name.startswith(("ssl.", "sasl."))} == OTHER_DEFAULTS


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("grup.id=x", r"grup\.id: unknown Connect worker setting; did you mean group\.id\?"),
        ("producer.lingerms=5", r"producer\.lingerms: unknown producer setting; did you mean producer\.linger\.ms\?"),
        ("producer.linger.ms=x", r"producer\.linger\.ms: 'x' is not a whole number"),
        ("consumer.linger.ms=5", r"consumer\.linger\.ms: unknown consumer setting"),
        ("config.storage.segment.m=1", r"did you mean config\.storage\.segment\.ms\?"),
        ("config.storage.segment.ms=x", r"config\.storage\.segment\.ms: 'x' is not a whole number"),
        ("status.storage.partitions=0", r"status\.storage\.partitions: 0 is out of bounds"),
        ("offset.storage.replication.factor=0", "0 replicas hold nothing"),
        ("config.storage.topic=connect-status", "must differ"),
        ("config.storage.topic=", "the name of a topic is needed"),
        ("heartbeat.interval.ms=10000", "must be smaller than session.timeout.ms"),
        ("connector.client.config.override.policy=Some", "is not one of All, None, Principal"),
        ("rest.extension.classes=org.apache.X", r"moldau\.http\.password\.file"),
        ("listeners=http://0.0.0.0:8083", r"no login is configured; set moldau\.http\.password\.file"),
        ("listeners=http://:8083", "no login is configured"),
        ("listeners=", "at least one address is needed"),
        ("exactly.once.source.support=maybe", "is not one of disabled, preparing, enabled"),
        ("config.providers=file", r"config\.providers\.file\.class is missing"),
    ],
)
def test_a_wrong_setting_is_named_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises((SettingError, ConfigError), match=problem):
        given(text)


def test_brokers_are_needed() -> None:
    with pytest.raises(SettingError, match=r"bootstrap\.servers: missing"):
        worker_settings()


def test_an_unknown_name_in_the_environment_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"grup\.id: unknown"):
        worker_settings(environment={"MOLDAU_CONNECT_GRUP_ID": "x"})


def test_secrets_are_not_in_reprs(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("password=hunter2\n")
    settings = given(
        "config.providers=file",
        "config.providers.file.class=FileConfigProvider",
        f"sasl.jaas.config=x required password=${{file:{tmp_path}/secrets:password}};",
        "admin.sasl.jaas.config=hunter2",
    )
    assert "hunter2" in settings.client["sasl.jaas.config"]
    assert "hunter2" not in repr(settings)


def test_a_setting_without_effect_is_accepted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "moldau.connect"):
        given("plugin.path=/opt/connectors", "inter.worker.key.ttl.ms=5")
    assert "setting=plugin.path" in caplog.text
    assert "entry points" in caplog.text


# -- what is accepted --------------------------------------------------------------------------------------------------


def test_sources_override_each_other() -> None:
    properties = "bootstrap.servers=file:1\ngroup.id=file\nsession.timeout.ms=7000\n"
    environment = {
        "MOLDAU_CONNECT_GROUP_ID": "environment",
        "MOLDAU_CONNECT_HTTP_MAX_BODY_BYTES": "5",
        "MOLDAU_LOG_DIRS": "x",
    }
    found = worker_settings(properties=properties, environment=environment, assignments=["session.timeout.ms=8000"])
    assert found.values["group.id"] == "environment"
    assert found.values["session.timeout.ms"] == 8000
    assert found.http.max_body_bytes == 5


def test_the_worker_file_of_kafkas_distribution_works_as_it_is() -> None:
    properties = """
bootstrap.servers=localhost:9092
group.id=connect-cluster
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=true
value.converter.schemas.enable=true
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=1
#status.storage.partitions=5
offset.flush.interval.ms=10000
"""
    found = worker_settings(properties=properties)
    assert found.storage("offset").partitions == 25
    assert found.engine["value.converter.schemas.enable"] == "true"


def test_the_three_topics_and_their_settings() -> None:
    found = given("offset.storage.topic=o", "offset.storage.partitions=3", "offset.storage.segment.ms=60000")
    offsets, configs = found.storage("offset"), found.storage("config")
    assert (offsets.name, offsets.partitions, offsets.replication_factor) == ("o", 3, 3)
    assert offsets.configs == {"segment.ms": "60000"}
    assert (configs.name, configs.partitions) == ("connect-configs", 1)


def test_clients_of_the_worker_get_addresses_and_logins_only() -> None:
    found = given("security.protocol=SSL", "ssl.truststore.location=/t", "producer.linger.ms=5", "group.id=g")
    assert found.client == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "ssl.truststore.location": "/t",
    }
    assert found.engine["producer.linger.ms"] == "5"


def test_settings_of_spark_are_passed_on() -> None:
    assert given("spark.master=local[2]").spark == {"spark.master": "local[2]"}


def test_the_advertised_address() -> None:
    served = [HttpAddress("http", "127.0.0.1", 1234), HttpAddress("https", "127.0.0.1", 1235)]
    assert given().advertised(served).url == "http://127.0.0.1:1234"
    assert given("rest.advertised.listener=https").advertised(served).url == "https://127.0.0.1:1235"
    named = given("rest.advertised.host.name=box", "rest.advertised.port=80")
    assert named.advertised(served).url == "http://box:80"
    assert "box" in named.http.allowed_hosts
    assert named.distributed(served).worker_id == "box:80"
    with pytest.raises(SettingError, match="no https listener"):
        given("rest.advertised.listener=https").advertised(served[:1])


def test_rules_for_validation() -> None:
    policy = "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy"
    rules = given(f"connector.client.config.override.policy={policy}", "exactly.once.source.support=disabled").rules
    assert (rules.override_policy, rules.exactly_once_sources) == ("Principal", False)
    assert rules.converters["key.converter"].endswith("JsonConverter")
