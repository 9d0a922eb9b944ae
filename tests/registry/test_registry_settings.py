"""Settings of a registry: Confluent's file works as it is, and mistakes are named."""

from __future__ import annotations

import pytest

from moldau.registry.settings import process_settings
from moldau.schemas.compatibility import CompatibilityLevel
from moldau.service.http_settings import HttpAddress
from moldau.settings.setting import SettingError

CONFLUENT = """
listeners=http://127.0.0.1:8085
kafkastore.bootstrap.servers=SASL_PLAINTEXT://one:9092,SASL_PLAINTEXT://two:9092
kafkastore.topic=_my_schemas
kafkastore.security.protocol=SASL_PLAINTEXT
kafkastore.sasl.mechanism=PLAIN
kafkastore.sasl.jaas.config=PlainLoginModule required username="u" password="hidden-1";
kafkastore.topic.config.min.insync.replicas=2
schema.compatibility.level=full_transitive
schema.registry.group.id=mine
leader.eligibility=false
mode.mutability=false
"""
SERVED = [HttpAddress("http", "127.0.0.1", 8085)]


def test_a_file_of_confluents_registry_works_as_it_is() -> None:
    found = process_settings(properties=CONFLUENT)
    assert found.client["bootstrap.servers"] == "one:9092,two:9092"
    assert found.client["security.protocol"] == "SASL_PLAINTEXT"
    assert found.client["sasl.mechanism"] == "PLAIN"
    service = found.service(SERVED)
    assert (service.topic, service.group_id, service.may_lead) == ("_my_schemas", "mine", False)
    assert service.topic_configs == {"min.insync.replicas": "2"}
    assert (service.rules.level, service.rules.mode_changes) == (CompatibilityLevel.FULL_TRANSITIVE, False)
    assert service.address.url == "http://127.0.0.1:8085"


def test_the_command_line_counts_more_than_the_file() -> None:
    found = process_settings(
        properties=CONFLUENT,
        environment={"MOLDAU_REGISTRY_HOST_NAME": "registry.example", "OTHER": "1"},
        assignments=["bootstrap.servers=three:9092", "kafkastore.topic=other"],
    )
    assert found.client["bootstrap.servers"] == "three:9092"
    assert found.service(SERVED).topic == "other"
    assert found.service(SERVED).address.url == "http://registry.example:8085"
    assert "registry.example" in found.http.allowed_hosts


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("schema.compatibilty.level=none", "did you mean schema.compatibility.level"),
        ("kafkastore.sasl.mechanic=PLAIN", "unknown setting"),
        ("schema.compatibility.level=some", "'some' is not one of"),
        ("mode=WRITE", "'WRITE' is not one of"),
        ("schema.registry.inter.instance.protocol=ftp", "neither http nor https"),
        ("heartbeat.interval.ms=10000", "smaller than session.timeout.ms"),
        ("listeners=http://0.0.0.0:8081", "no login is configured"),
        ("bootstrap.servers=", "missing"),
        ("kafkastore.topic.replication.factor=0", "kafkastore.topic.replication.factor"),
    ],
)
def test_a_wrong_setting_is_named(given: str, part: str) -> None:
    with pytest.raises(SettingError, match=part):
        process_settings(properties="bootstrap.servers=one:9092", assignments=[given])


def test_secrets_do_not_show() -> None:
    found = process_settings(properties=CONFLUENT)
    assert "hidden-1" not in repr(found)
    assert "hidden-1" not in repr(found.service(SERVED))
    with pytest.raises(SettingError) as error:
        process_settings(properties=CONFLUENT, assignments=["mode=hidden"])
    assert "hidden-1" not in str(error.value)
