"""Sources in the engine: batches, offsets, states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from moldau.connect.engine import ConnectorState, FailedPart
from tests.connect.engine.conftest import Worker, values_of
from tests.support.waiting import wait_until


def counting(topic: str, **more: Any) -> dict[str, str]:
    config = {"connector.class": "Counting", "topic": topic, "tasks.max": "2", "partitions": "2"}
    return config | {name.replace("_", "."): str(value) for name, value in more.items()}


def test_a_source_writes_all_its_rows_and_goes_on_where_it_was(
    worker: Worker, new_topic: Callable[..., str], read: Callable[..., list[Any]], unused_name: Callable[[], str]
) -> None:
    name, topic = unused_name(), new_topic(2)
    worker.engine.start(name, counting(topic, limit=120))
    wait_until(lambda: worker.records(name) == 240)
    worker.stop(name)
    assert worker.engine.state(name) is None
    worker.engine.start(name, counting(topic, limit=150))
    wait_until(lambda: worker.records(name) == 60, "only the new rows are read")
    worker.stop(name)
    expected = sorted(f"{part}:{n}" for part in range(2) for n in range(150))
    assert sorted(values_of(read(topic))) == expected
    for part in range(2):
        own = [value for value in values_of(read(topic)) if value.startswith(f"{part}:")]
        assert own == [f"{part}:{n}" for n in range(150)], "rows of a source partition keep their order"


def test_a_polled_source_writes_rows_and_offsets_together(
    worker: Worker, new_topic: Callable[..., str], read: Callable[..., list[Any]], unused_name: Callable[[], str]
) -> None:
    name, topic = unused_name(), new_topic()
    config = {"connector.class": "Ticking", "topic": topic, "limit": "100", "step": "30"}
    worker.engine.start(name, config)
    wait_until(lambda: worker.records(name) == 100)
    worker.engine.start(name, {**config, "limit": "110"})
    wait_until(lambda: worker.records(name) == 10, "a new configuration begins at the stored offset")
    worker.stop(name)
    assert values_of(read(topic)) == [f"0:{n}" for n in range(110)]


def test_an_error_of_a_task_fails_the_connector_with_its_trace_and_a_restart_continues(
    worker: Worker, faults: Path, new_topic: Callable[..., str], unused_name: Callable[[], str]
) -> None:
    name, topic = unused_name(), new_topic()
    (faults / "fail-read").touch()
    worker.engine.start(name, counting(topic, faults=faults))
    failed = worker.wait_for(name, ConnectorState.FAILED)
    assert failed.failed is FailedPart.TASKS
    assert failed.trace is not None and "ValueError: broken read" in failed.trace
    (faults / "fail-read").unlink()
    worker.engine.restart(name)
    wait_until(lambda: worker.records(name) == 200)
    assert worker.wait_for(name, ConnectorState.RUNNING).trace is None
    worker.stop(name)
