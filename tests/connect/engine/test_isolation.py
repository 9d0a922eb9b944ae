"""Connectors that hang, fail, kill the JVM or run twice, beside connectors that do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau import Producer
from moldau.connect.engine import ConnectorState
from moldau.connect.engine.supervision import MAX_STRIKES
from tests.connect.engine.conftest import Worker, eventually, values_of
from tests.connect.engine.plugins.engine_plugins import written_batches


def counting(topic: str, **more: Any) -> dict[str, str]:
    config = {"connector.class": "Counting", "topic": topic, "tasks.max": "2", "partitions": "2", "limit": "100"}
    return config | {name.replace("_", "."): str(value) for name, value in more.items()}


def test_hanging_connectors_do_not_stop_others_and_are_cancelled_after_their_deadline(
    worker: Worker,
    tmp_path: Path,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    read: Callable[..., list[Any]],
    bootstrap: str,
) -> None:
    places = ("read", "slices", "write", "commit")
    hung = {place: unused_name() for place in places}
    for place, name in hung.items():
        faults = tmp_path / place
        faults.mkdir()
        (faults / f"hang-{place}").touch()
        topic = new_topic(2)
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"a")
        if place in ("read", "slices"):
            config = counting(topic, faults=faults, task_deadline_ms=5000)
        else:
            target = str(tmp_path / f"target-{place}")
            config = {"connector.class": "Files", "topics": topic, "directory": target, "faults": str(faults)}
            config["task.deadline.ms"] = "5000"
        worker.engine.start(name, config)
    for place in places:
        eventually(lambda place=place: (tmp_path / place / f"hung-{place}").exists(), f"{place} hangs")
    healthy, topic = unused_name(), new_topic(2)
    worker.engine.start(healthy, counting(topic))
    eventually(lambda: worker.records(healthy) == 200)
    assert ConnectorState.RESTARTING not in worker.states(healthy)
    for place, name in hung.items():
        restarting = worker.wait_for_report(name, ConnectorState.RESTARTING)
        assert restarting.trace is not None and "task.deadline.ms" in restarting.trace, place
    worker.stop(healthy, *hung.values())
    assert sorted(values_of(read(topic))) == sorted(f"{part}:{n}" for part in range(2) for n in range(100))


def test_a_retriable_error_is_tried_again_and_nothing_is_lost_or_doubled(
    worker: Worker,
    faults: Path,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    read: Callable[..., list[Any]],
) -> None:
    name, topic = unused_name(), new_topic()
    (faults / "retry-read").touch()
    worker.engine.start(name, counting(topic, faults=faults))
    restarting = worker.wait_for_report(name, ConnectorState.RESTARTING)
    assert restarting.trace == "read is away"
    (faults / "retry-read").unlink()
    eventually(lambda: worker.records(name) == 200)
    assert worker.wait_for(name, ConnectorState.RUNNING).trace is None
    worker.stop(name)
    assert len(read(topic)) == 200


def test_a_connector_that_kills_the_jvm_again_and_again_fails_and_the_others_go_on(
    worker: Worker,
    count: Callable[[int, int], int],
    monkeypatch: pytest.MonkeyPatch,
    faults: Path,
    tmp_path: Path,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    read: Callable[..., list[Any]],
) -> None:
    deaths = count(2, MAX_STRIKES)  # a new JVM takes seconds
    monkeypatch.setattr("moldau.connect.engine.supervision.MAX_STRIKES", deaths)
    slow_faults = tmp_path / "slow"
    slow_faults.mkdir()
    (slow_faults / "hang-read").touch()
    (faults / "kill-read").touch()
    innocent, culprit, other = unused_name(), unused_name(), unused_name()
    topics = [new_topic() for _ in range(3)]
    worker.engine.start(innocent, counting(topics[0], faults=slow_faults))  # has a job running at the first death
    eventually(lambda: (slow_faults / "hung-read").exists())
    (slow_faults / "hang-read").unlink()
    worker.engine.start(culprit, counting(topics[1], faults=faults))
    eventually(lambda: (faults / "kills").exists())
    worker.engine.start(other, counting(topics[2]))
    for name in (innocent, other):
        eventually(lambda name=name: worker.records(name) == 200, f"{name} goes on")
    failed = worker.wait_for(culprit, ConnectorState.FAILED)
    assert failed.trace is not None and f"JVM died {deaths} times" in failed.trace
    assert deaths <= len((faults / "kills").read_text()) <= 2 * deaths, "two tasks per job"
    assert ConnectorState.FAILED not in worker.states(innocent) + worker.states(other)
    worker.stop(innocent, culprit, other)
    assert len(read(topics[0])) == len(read(topics[2])) == 200
    assert read(topics[1]) == []


def test_the_last_of_many_commands_counts_and_a_hanging_connector_can_be_replaced(
    worker: Worker,
    faults: Path,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    read: Callable[..., list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moldau.connect.engine.engine.STOP_GRACE_S", 1.0)
    name, topic = unused_name(), new_topic()
    (faults / "hang-slices").touch()
    worker.engine.start(name, counting(topic, faults=faults))
    eventually(lambda: (faults / "hung-slices").exists())
    worker.engine.start(name, counting(topic, limit=10))
    stopped = worker.engine.stop(name)
    worker.engine.start(name, counting(topic, limit=20))
    worker.engine.pause(name)
    assert stopped.result(30) is None
    worker.wait_for(name, ConnectorState.PAUSED)
    worker.engine.resume(name)
    eventually(lambda: worker.records(name) == 40)
    last = worker.engine.stop(name)
    worker.engine.start(name, counting(topic, limit=30))
    again = worker.engine.stop(name)
    assert last.result(30) is again.result(30) is None
    assert worker.engine.state(name) is None
    assert len(read(topic)) == 40
    (faults / "wake-up").touch()  # what the abandoned thread does now is refused
    assert len(read(topic)) == 40


def test_a_crash_of_the_python_process_of_a_task_is_tried_again(
    worker: Worker,
    faults: Path,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    read: Callable[..., list[Any]],
) -> None:
    name, topic = unused_name(), new_topic()
    (faults / "crash-read").touch()
    worker.engine.start(name, counting(topic, faults=faults))
    restarting = worker.wait_for_report(name, ConnectorState.RESTARTING)
    assert restarting.trace is not None and "Spark could not finish a batch" in restarting.trace
    (faults / "crash-read").unlink()
    eventually(lambda: worker.records(name) == 200)
    worker.stop(name)
    assert len(read(topic)) == 200


@pytest.fixture
def second(bootstrap: str) -> Iterator[Worker]:
    made = Worker(bootstrap)
    yield made
    made.close()


def test_the_older_of_two_owners_of_a_source_is_fenced(
    worker: Worker,
    second: Worker,
    faults: Path,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    read: Callable[..., list[Any]],
) -> None:
    """The first owner sleeps in a task while the second one takes over and finishes."""
    name, topic = unused_name(), new_topic()
    (faults / "hang-read").touch()
    config = counting(topic, faults=faults, limit=50, task_deadline_ms=90000)
    worker.engine.start(name, config)
    eventually(lambda: (faults / "hung-read").exists())
    (faults / "hang-read").unlink()
    second.engine.start(name, config)
    eventually(lambda: second.records(name) == 100)
    (faults / "wake-up").touch()
    fenced = worker.wait_for_report(name, ConnectorState.RESTARTING)
    assert fenced.trace is not None and "another worker has taken over" in fenced.trace
    worker.stop(name)
    second.stop(name)
    assert len(read(topic)) == 100


def test_the_older_of_two_owners_of_a_sink_is_fenced_before_it_publishes(
    worker: Worker,
    second: Worker,
    faults: Path,
    tmp_path: Path,
    bootstrap: str,
    topic: str,
    unused_name: Callable[[], str],
) -> None:
    name, target = unused_name(), tmp_path / "target"
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"a")
    (faults / "hang-write").touch()
    config = {
        "connector.class": "Files",
        "topics": topic,
        "directory": str(target),
        "faults": str(faults),
        "keeps.offsets": "false",
    }
    worker.engine.start(name, config)
    eventually(lambda: (faults / "hung-write").exists())
    (faults / "hang-write").unlink()
    second.engine.start(name, config)
    eventually(lambda: second.records(name) == 1)
    (faults / "wake-up").touch()
    worker.wait_for_report(name, ConnectorState.RESTARTING)
    worker.stop(name)
    second.stop(name)
    assert [batch["lines"] for batch in written_batches(str(target))] == [["a"]]
