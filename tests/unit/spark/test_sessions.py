from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from moldau.spark import sessions
from moldau.spark.sessions import use_this_python


def test_spark_runs_this_interpreter_by_default() -> None:
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_REMOTE": "local[2]"}
    assert use_this_python(environment)
    assert environment["PYSPARK_PYTHON"] == sys.executable


class Builder:
    """Records the settings of a session."""

    def __init__(self) -> None:
        self.given: dict[str, Any] = {}

    def appName(self, name: str) -> Builder:  # noqa: N802
        return self._with("name", name)

    def master(self, address: str) -> Builder:
        return self._with("master", address)

    def remote(self, address: str) -> Builder:
        return self._with("remote", address)

    def config(self, map: dict[str, Any]) -> Builder:  # noqa: A002
        return self._with("config", map)

    def getOrCreate(self) -> Builder:  # noqa: N802
        return self

    def _with(self, name: str, value: Any) -> Builder:
        self.given[name] = value
        return self


@pytest.mark.parametrize(
    ("where", "python"),
    [
        ({"master": "local[2]"}, sys.executable),
        ({}, sys.executable),
        ({"master": "spark://example.com:7077"}, None),
        ({"config": {"spark.master": "yarn"}}, None),
    ],
)
def test_a_session_on_a_cluster_gets_no_path_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, where: dict[str, Any], python: str | None
) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Builder())
    monkeypatch.setattr("moldau.spark.sessions._WAS_SET_HERE", True)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    sessions.session(**where)
    assert os.environ.get("PYSPARK_PYTHON") == python


def test_a_session_has_utc_and_the_settings_of_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", builder := Builder())
    sessions.session("orders", remote="sc://example.com", config={"spark.sql.ansi.enabled": "false"})
    assert builder.given == {
        "name": "orders",
        "remote": "sc://example.com",
        "config": {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "false"},
    }


@pytest.mark.parametrize(
    "chosen",
    [
        {"PYSPARK_PYTHON": "/opt/python"},
        {"PYSPARK_GATEWAY_PORT": "4711"},
        {"SPARK_REMOTE": "sc://spark.example.com"},
        {"PYSPARK_SUBMIT_ARGS": "--conf spark.pyspark.python=/opt/python pyspark-shell"},
    ],
    ids=lambda chosen: next(iter(chosen)),
)
def test_an_interpreter_chosen_by_the_user_is_kept(chosen: dict[str, str]) -> None:
    environment = dict(chosen)
    assert not use_this_python(environment)
    assert environment == chosen


@pytest.mark.parametrize(
    ("file", "text", "is_choice"),
    [
        ("spark-defaults.conf", "spark.pyspark.python /opt/python\n", True),
        ("spark-env.sh", "export PYSPARK_PYTHON=/opt/python\n", True),
        ("spark-env.sh", "# - PYSPARK_PYTHON, the interpreter\n", False),
        ("spark-defaults.conf", "spark.master spark://example.com:7077\n", False),
    ],
)
def test_a_choice_in_sparks_configuration_files_is_left_alone(
    tmp_path: Path, file: str, text: str, is_choice: bool
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / file).write_text(text)
    for environment in ({"SPARK_HOME": str(tmp_path)}, {"SPARK_CONF_DIR": str(tmp_path / "conf")}):
        assert use_this_python(dict(environment)) is not is_choice
