"""Settings of an SQL server."""

from __future__ import annotations

import pytest

from moldau.service.http_settings import HttpAddress
from moldau.settings.setting import SettingError
from moldau.sql.server.command import serve_settings
from moldau.sql.server.server_session import spark_settings
from moldau.sql.server.server_settings import ServerSettings, server_settings

BROKERS = "bootstrap.servers=127.0.0.1:9092"


def settings(*assignments: str, properties: str = "", environment: dict[str, str] | None = None) -> ServerSettings:
    return server_settings(
        properties=f"{BROKERS}\n{properties}", environment=environment or {}, assignments=assignments
    )


def test_a_server_listens_on_this_machine_only() -> None:
    assert [one.url for one in settings().http.addresses] == ["http://127.0.0.1:8088"]
    with pytest.raises(SettingError, match="no login is configured"):
        settings("listeners=http://0.0.0.0:8088")


def test_later_sources_override_earlier_ones() -> None:
    found = settings(properties="service.id=file\nstate.dir=/file", environment={"MOLDAU_SQL_STATE_DIR": "/env"})
    assert (found.values["service.id"], found.values["state.dir"]) == ("file", "/env")
    assert settings("state.dir=/set", environment={"MOLDAU_SQL_STATE_DIR": "/env"}).values["state.dir"] == "/set"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("state.dri=/x", "did you mean state.dir"),
        ("service.id=a b", "letters, digits"),
        ("service.id=../x", "letters, digits"),
        ("state.dir=", "directory"),
        ("heartbeat.interval.ms=10000", "smaller than session.timeout.ms"),
        ("moldau.sql.statement.timeout.ms=120000", "smaller than moldau.http.request.timeout.ms"),
        ("moldau.sql.max.rows=0", "moldau.sql.max.rows"),
        ("bootstrap.servers=", "bootstrap.servers"),
    ],
)
def test_a_wrong_setting_is_named(assignment: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        settings(assignment)


def test_clients_get_what_all_of_them_have_and_secrets_are_not_shown() -> None:
    found = settings("sasl.mechanism=PLAIN", "sasl.jaas.config=password-1", "spark.master=local[2]")
    assert found.client["sasl.jaas.config"] == "password-1"
    assert "spark.master" not in found.client
    assert "password-1" not in repr(found)
    assert found.spark == {"spark.master": "local[2]"}


def test_options_of_the_command_become_settings() -> None:
    found = serve_settings(
        properties="",
        environment={},
        bootstrap="127.0.0.1:1",
        port=0,
        state_dir="/x",
        service_id="s",
        master="local[3]",
    )
    assert found.client["bootstrap.servers"] == "127.0.0.1:1"
    assert (found.values["state.dir"], found.values["service.id"]) == ("/x", "s")
    assert found.advertised([HttpAddress("http", "127.0.0.1", 4711)]) == "http://127.0.0.1:4711"
    assert found.spark == {"spark.master": "local[3]"}


def test_spark_has_fair_scheduling_and_a_slot_for_more_than_one_query() -> None:
    found = spark_settings({}, cores=2)
    assert (found["spark.master"], found["spark.scheduler.mode"]) == ("local[4]", "FAIR")
    assert found["spark.sql.shuffle.partitions"] == "2"
    assert spark_settings({"spark.driver.memory": "2g"}, cores=8)["spark.driver.memory"] == "2g"
    assert "spark.driver.memory" not in spark_settings({"spark.master": "spark://a:1"})
