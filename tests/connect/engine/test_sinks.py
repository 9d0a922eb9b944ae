"""Sinks in the engine: batches, offsets of the group, dead letters, topics that come and go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, Producer
from moldau.client.admin import NewPartitions
from moldau.client.data_types import TopicPartition
from moldau.connect.engine import ConnectorState, FailedPart
from tests.connect.engine.conftest import Worker, eventually
from tests.connect.engine.plugins.engine_plugins import written_batches


def files(target: Path, topics: str, **more: Any) -> dict[str, str]:
    config = {"connector.class": "Files", "topics": topics, "directory": str(target), "tasks.max": "2"}
    return config | {name.replace("_", "."): str(value) for name, value in more.items()}


def lines(target: Path) -> list[Any]:
    return [line for batch in written_batches(str(target)) for line in batch["lines"]]


def send(bootstrap: str, topic: str, *values: str, partition: int | None = None) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(topic, value.encode(), b"k", partition=partition, headers={"h": b"1"})


def committed(bootstrap: str, name: str) -> dict[TopicPartition, int]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return {place: one.offset for place, one in admin.list_group_offsets(f"connect-{name}").items()}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def test_a_sink_writes_each_record_once_and_commits_the_offsets_of_its_group(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Callable[[], str], target: Path
) -> None:
    name, topic = unused_name(), new_topic(2)
    send(bootstrap, topic, "a", "b", partition=0)
    send(bootstrap, topic, "c", partition=1)
    worker.engine.start(name, files(target, topic))
    eventually(lambda: sorted(lines(target)) == ["a", "b", "c"])
    send(bootstrap, topic, "d", partition=1)
    eventually(lambda: sorted(lines(target)) == ["a", "b", "c", "d"])
    eventually(lambda: committed(bootstrap, name) == {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 2})
    status = eventually(lambda: (found := worker.engine.state(name)) and found.progress.lag == 0 and found)
    assert (status.tasks, status.progress.records, status.progress.topics) == (2, 4, {topic})
    worker.stop(name)
    worker.engine.start(name, files(target, topic))
    send(bootstrap, topic, "e", partition=0)
    eventually(lambda: lines(target)[-1:] == ["e"])
    worker.stop(name)
    assert sorted(lines(target)) == ["a", "b", "c", "d", "e"]


def test_new_partitions_and_new_topics_of_a_pattern_are_read_from_their_beginning(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Callable[[], str], target: Path
) -> None:
    name, topic = unused_name(), new_topic()
    send(bootstrap, topic, "a")
    config = files(target, "", topics_regex=f"{topic}.*")
    del config["topics"]
    worker.engine.start(name, config)
    eventually(lambda: lines(target) == ["a"])
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_partitions({topic: NewPartitions(2)})
    send(bootstrap, topic, "b", partition=1)
    send(bootstrap, f"{topic}-more", "c")
    eventually(lambda: sorted(lines(target)) == ["a", "b", "c"])
    worker.stop(name)


def test_offsets_that_the_target_keeps_win_over_those_of_the_group(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Callable[[], str], target: Path
) -> None:
    name, topic = unused_name(), new_topic()
    send(bootstrap, topic, "a", "b", "c")
    worker.engine.start(name, files(target, topic))
    eventually(lambda: committed(bootstrap, name))
    worker.stop(name)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(f"connect-{name}", {TopicPartition(topic, 0): 0})
    send(bootstrap, topic, "d")
    worker.engine.start(name, files(target, topic))
    eventually(lambda: lines(target)[-1:] == ["d"])
    worker.stop(name)
    assert lines(target) == ["a", "b", "c", "d"]


def test_tolerated_errors_become_exactly_one_dead_letter_each_with_the_context_of_kafka_connect(
    worker: Worker,
    bootstrap: str,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    read: Callable[..., list[Any]],
    target: Path,
    faults: Path,
) -> None:
    name, topic, dead = unused_name(), new_topic(), unused_name()
    values = [f"good {n}" for n in range(40)]
    values[3], values[17], values[18], values[30] = "bad: 3", "bad! 17", "bad! 18", "refuse 30"
    send(bootstrap, topic, *values)
    config = files(target, topic, errors_tolerance="all", faults=faults) | {
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    # The first commit fails after the dead letters are written: the batch is repeated.
    (faults / "retry-commit").touch()
    worker.engine.start(name, config)
    worker.wait_for_report(name, ConnectorState.RESTARTING)
    (faults / "retry-commit").unlink()
    eventually(lambda: len(lines(target)) == 36)
    worker.stop(name)
    assert lines(target) == [value for value in values if value.startswith("good")]
    letters = {record.value.decode(): record for record in read(dead)}
    assert sorted(record.value.decode() for record in read(dead)) == ["bad! 17", "bad! 18", "bad: 3", "refuse 30"]
    headers = {key: value and value.decode() for key, value in letters["bad! 17"].headers}
    assert headers["h"] == "1", "the headers of the record are kept"
    assert {key: headers[f"__connect.errors.{key}"] for key in ("topic", "partition", "offset", "connector.name")} == {
        "topic": topic,
        "partition": "0",
        "offset": "17",
        "connector.name": name,
    }
    assert headers["__connect.errors.stage"] == "VALUE_CONVERTER"
    assert headers["__connect.errors.class.name"] == "Text"
    assert headers["__connect.errors.exception.message"] == "cannot read bad! 17"
    assert headers["__connect.errors.exception.class.name"] == "ValueError"
    assert "Traceback" in (headers["__connect.errors.exception.stacktrace"] or "")
    stages = dict(letters["refuse 30"].headers)
    assert stages["__connect.errors.stage"] == b"TASK_PUT"
    assert letters["bad: 3"].key == b"k"


def test_without_tolerance_a_bad_record_fails_the_tasks_and_is_named(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Callable[[], str], target: Path
) -> None:
    name, topic = unused_name(), new_topic()
    send(bootstrap, topic, "good", "good", "bad! 2", "good")
    worker.engine.start(name, files(target, topic))
    failed = worker.wait_for(name, ConnectorState.FAILED)
    assert failed.failed is FailedPart.TASKS
    assert failed.trace is not None
    assert f"offset 2 of {topic}-0" in failed.trace and "errors.tolerance=all" in failed.trace
    worker.stop(name)
    assert lines(target) == []


def test_a_trace_has_no_secret_in_it(
    worker: Worker,
    bootstrap: str,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    target: Path,
    faults: Path,
) -> None:
    name, topic = unused_name(), new_topic()
    (faults / "leak").touch()
    send(bootstrap, topic, "a")
    worker.engine.start(name, files(target, topic, faults=faults, password="tiger-and-more"))
    failed = worker.wait_for(name, ConnectorState.FAILED)
    assert failed.trace is not None and "cannot log in with [hidden]" in failed.trace
    assert "tiger-and-more" not in failed.trace
    worker.stop(name)


def test_pause_resume_suspend_and_a_wrong_configuration(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Callable[[], str], target: Path
) -> None:
    name, topic = unused_name(), new_topic()
    worker.engine.start(name, files(target, topic), ConnectorState.PAUSED)
    worker.wait_for(name, ConnectorState.PAUSED)
    worker.engine.resume(name)
    send(bootstrap, topic, "a")
    eventually(lambda: lines(target) == ["a"])
    worker.engine.pause(name)
    worker.wait_for(name, ConnectorState.PAUSED)
    send(bootstrap, topic, "b")
    worker.engine.suspend(name)
    worker.wait_for(name, ConnectorState.STOPPED)
    assert lines(target) == ["a"]
    worker.engine.resume(name)
    eventually(lambda: lines(target) == ["a", "b"])
    worker.engine.start(name, files(target, topic) | {"tasks.max": "none"})
    failed = worker.wait_for(name, ConnectorState.FAILED)
    assert (failed.failed, failed.tasks) == (FailedPart.CONNECTOR, 0)
    assert failed.trace is not None and "tasks.max" in failed.trace
    worker.stop(name)
