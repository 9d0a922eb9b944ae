"""Many connectors in one worker, half of them with faults: the healthy half does not notice.

The faulty half fails at every place: reading, writing, committing, in the driver, in a task, in the process of a task,
at a server that never answers. Each must end as FAILED with a trace that says what happened, or go on trying. The
healthy half must be RUNNING at every look, and lose nothing.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from moldau import Producer
from moldau.testing import Broker
from tests.compat.apache_kafka.processes import free_port
from tests.support.connect_worker import ConnectWorker
from tests.support.waiting import wait_until

PLUGINS = str(Path(__file__).parents[2] / "connect" / "engine" / "plugins")
ROWS = 2_000
TIMEOUT_S = 150.0
SHORT_DEADLINE = {"task.deadline.ms": "4000"}
SMALL_BATCHES = {"rotate.schedule.interval.ms": "500"}


def faulty_connectors(directory: Path, silent: str) -> dict[str, tuple[dict[str, str], str | None]]:
    """Configurations by name, with the text that the trace must contain (None: it goes on trying)."""
    found: dict[str, tuple[dict[str, str], str | None]] = {}
    for fault, expected in (
        ("fail-read", "broken read"),
        ("fail-slices", "broken slices"),
        ("hang-read", "task.deadline.ms"),
        ("hang-slices", "task.deadline.ms"),
        ("crash-read", None),
    ):
        found[fault] = ({"connector.class": "Counting", "topic": fault, **_fault(directory, fault)}, expected)
    for fault, expected in (
        ("fail-write", "broken write"),
        ("hang-write", "task.deadline.ms"),
        ("retry-write", None),
        ("hang-commit", "task.deadline.ms"),
    ):
        sink = {"connector.class": "Files", "topics": "input", "directory": str(directory / f"target-{fault}")}
        found[fault] = (sink | _fault(directory, fault), expected)
    url = {"connector.class": "HttpSink", "topics": "input", "http.api.url": silent}
    found["silent-server"] = (url | SHORT_DEADLINE, None)
    return found


def _fault(directory: Path, name: str) -> dict[str, str]:
    faults = directory / name
    faults.mkdir()
    (faults / name).touch()
    return {"faults": str(faults), **(SHORT_DEADLINE if name.startswith("hang") else {})}


def healthy_pair(number: int, directory: Path) -> Mapping[str, dict[str, str]]:
    topic = f"numbers-{number}"
    source = {"connector.class": "datagen", "quickstart": "numbers", "topic": topic, "iterations": str(ROWS)}
    target = {"connector.class": "FileSink", "topics": topic, "format": "json", "path": str(directory / topic)}
    return {
        f"source-{number}": source | {"rows.per.second": "200"},
        f"sink-{number}": target | SMALL_BATCHES,
    }


def rows(directory: Path) -> list[int]:
    return [json.loads(line)["number"] for file in directory.rglob("*.json") for line in _published(directory, file)]


def _published(directory: Path, file: Path) -> list[str]:
    hidden = any(part.startswith(("_", ".")) for part in file.relative_to(directory).parts)
    return [] if hidden else file.read_text().splitlines()


@pytest.mark.needs_java
@pytest.mark.timeout(400)
def test_the_healthy_half_does_not_notice_the_faults_of_the_others(tmp_path: Path, soak: bool) -> None:
    pairs = 5 if soak else 2
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Broker() as broker,
        ConnectWorker(broker.bootstrap_servers, free_port(), environment={"PYTHONPATH": PLUGINS}) as worker,
    ):
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("input", b'{"a": 1}', key=b"k").result()
        faulty = faulty_connectors(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        if not soak:
            faulty = {name: faulty[name] for name in ("fail-read", "hang-read", "hang-write", "silent-server")}
        for name, (config, _) in faulty.items():
            worker.put(name, config)
        healthy = {}
        for number in range(pairs):
            healthy |= healthy_pair(number, tmp_path)
        for name, config in healthy.items():
            worker.put(name, config)
        for name in healthy:
            worker.wait_running(name)

        def all_written() -> bool:
            for name in healthy:
                assert set(worker.states(name)) == {"RUNNING"}, worker.status(name)
            return all(len(rows(tmp_path / f"numbers-{number}")) >= ROWS for number in range(pairs))

        wait_until(all_written, "every number is written", TIMEOUT_S)
        for number in range(pairs):
            assert sorted(rows(tmp_path / f"numbers-{number}")) == list(range(ROWS))
        for name, (_, expected) in faulty.items():
            if expected is not None:
                assert expected in worker.wait_failed(name)
