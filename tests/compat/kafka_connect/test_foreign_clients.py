"""Other people's clients of Kafka Connect's REST API, with a worker of Moldau.

kafka-connect-py is a library and a command line from PyPI; the entities are the classes by which Kafka Connect's own
workers talk to each other, which refuse unknown fields.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka_connect import KafkaConnect as PyPiClient

from tests.compat.kafka_connect.conftest import Played
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(300)]
ENTITIES = Path(__file__).with_name("RestEntities.java")
STRING = "org.apache.kafka.connect.storage.StringConverter"


def source(file: Path, topic: str) -> dict[str, str]:
    return {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": topic,
        "key.converter": STRING,
        "value.converter": STRING,
    }


def test_a_client_library_of_pypi_runs_a_connector_from_its_creation_to_its_end(played: Played, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    connect = PyPiClient(url=played.url)
    config = source(lines, "pypi")
    assert connect.get_cluster_info()["kafka_cluster_id"]
    assert connect.validate_connector_config("FileStreamSource", {"name": "pypi", **config})["error_count"] == 0
    assert connect.create_connector({"name": "pypi", "config": config})["name"] == "pypi"

    def in_state(state: str) -> Any:
        wait_until(lambda: connect.get_connector_status("pypi")["connector"]["state"] == state, f"pypi is {state}")

    wait_until(lambda: connect.list_connector_topics("pypi")["pypi"]["topics"] == ["pypi"], "it has written")
    assert connect.get_connector_config("pypi") == {"name": "pypi", **config}
    assert connect.get_connector("pypi")["type"] == "source"
    assert connect.list_connectors(expand="status")["pypi"]["status"]["connector"]["state"] == "RUNNING"
    assert "pypi" in connect.list_connectors(pattern="py.*", state="RUNNING")
    assert connect.list_connector_tasks("pypi")[0]["id"] == {"connector": "pypi", "task": 0}
    assert connect.get_connector_task_status("pypi", 0)["state"] == "RUNNING"
    assert connect.update_connector("pypi", {**config, "batch.size": "7"})["config"]["batch.size"] == "7"
    connect.pause_connector("pypi")
    in_state("PAUSED")
    connect.resume_connector("pypi")
    in_state("RUNNING")
    connect.restart_connector("pypi", include_tasks=True)
    in_state("RUNNING")
    connect.stop_connector("pypi")
    in_state("STOPPED")
    assert any(one["class"].endswith("FileStreamSourceConnector") for one in connect.list_connector_plugins())
    connect.delete_connector("pypi")
    assert "pypi" not in connect.list_connectors()


def test_a_command_line_of_pypi_creates_lists_and_deletes(played: Played, tmp_path: Path) -> None:
    def kc(*arguments: str) -> Any:
        command = [str(Path(sys.executable).with_name("kc")), "--url", played.url, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": "by-kc", "config": source(tmp_path / "none.txt", "kc")}))
    assert kc("create", "--config-file", str(file))["name"] == "by-kc"
    wait_until(lambda: "by-kc" in kc("list", "--state", "RUNNING"), "it runs")
    kc("delete", "by-kc")
    assert "by-kc" not in kc("list")


def test_entities_of_kafka_connect_read_every_answer_and_lose_nothing(played: Played, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    command = [*played.jars.command(str(ENTITIES)), played.url, str(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == [
        "ServerInfo",
        "WorkerStatus",
        "PluginInfo",
        "ConfigKeyInfo",
        "ConfigInfos",
        "ErrorMessage",
        "CreateConnectorRequest",
        "Message",
        "ConnectorOffsets",
        "ConnectorStateInfo",
        "TaskState",
        "TaskInfo",
        "ConnectorInfo",
        "restart",
        "LoggerLevel",
        "done",
    ]
