"""Sources in the engine: batches, offsets, states."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from moldau import Admin
from moldau.client.admin import ConfigResource, OffsetSpec
from moldau.client.data_types import TopicPartition
from moldau.connect.engine import ConnectorState, FailedPart
from tests.connect.engine.conftest import Worker, eventually, values_of


def counting(topic: str, **more: Any) -> dict[str, str]:
    config = {"connector.class": "Counting", "topic": topic, "tasks.max": "2", "partitions": "2"}
    return config | {name.replace("_", "."): str(value) for name, value in more.items()}


def test_a_source_writes_all_its_rows_and_goes_on_where_it_was(
    worker: Worker, new_topic: Callable[..., str], read: Callable[..., list[Any]], unused_name: Callable[[], str]
) -> None:
    name, topic = unused_name(), new_topic(2)
    worker.engine.start(name, counting(topic, limit=120))
    eventually(lambda: worker.records(name) == 240)
    worker.stop(name)
    assert worker.engine.state(name) is None
    worker.engine.start(name, counting(topic, limit=150))
    eventually(lambda: worker.records(name) == 60, "only the new rows are read")
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
    eventually(lambda: worker.records(name) == 100)
    worker.engine.start(name, {**config, "limit": "110"})
    eventually(lambda: worker.records(name) == 10, "a new configuration begins at the stored offset")
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
    eventually(lambda: worker.records(name) == 200)
    assert worker.wait_for(name, ConnectorState.RUNNING).trace is None
    worker.stop(name)


def test_topics_are_created_by_the_rules_of_the_connector_and_transforms_choose_them(
    worker: Worker, bootstrap: str, unused_name: Callable[[], str], read: Callable[..., list[Any]]
) -> None:
    name, topic = unused_name(), unused_name()
    rules = {
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "routed",
        "topic.creation.routed.include": ".*-routed",
        "topic.creation.routed.partitions": "3",
        "topic.creation.routed.cleanup.policy": "compact",
    }
    route = {
        "transforms": "route,mark",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-routed",
        "transforms.mark.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.mark.header": "origin",
        "transforms.mark.value.literal": "here",
    }
    worker.engine.start(name, counting(topic) | rules | route | {"producer.override.compression.type": "lz4"})
    eventually(lambda: worker.records(name) == 200)
    status = worker.engine.state(name)
    assert status is not None and status.progress.topics == {f"{topic}-routed"}
    worker.stop(name)
    records = read(f"{topic}-routed")
    assert len(records) == 200
    assert all(list(record.headers) == [("origin", b"here")] for record in records)
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert len(admin.describe_topics([f"{topic}-routed"])[f"{topic}-routed"].partitions) == 3
        configs = admin.describe_configs([ConfigResource.topic(f"{topic}-routed")])
        assert next(iter(configs.values()))["cleanup.policy"].value == "compact"
        assert topic not in {one.name for one in admin.list_topics()}


def test_without_exactly_once_support_rows_are_visible_without_transactions(
    bootstrap: str, new_topic: Callable[..., str], read: Callable[..., list[Any]], worker: Worker
) -> None:
    plain = Worker(bootstrap, "plain", **{"exactly.once.source.support": "disabled"})
    counted, ticked = new_topic(2), new_topic()
    plain.engine.start("counted", counting(counted))
    plain.engine.start("ticked", {"connector.class": "Ticking", "topic": ticked})
    eventually(lambda: plain.records("counted") == 200 and plain.records("ticked") == 100)
    plain.stop("counted", "ticked")
    plain.engine.start("counted", counting(counted, limit=110))
    eventually(lambda: plain.records("counted") == 20, "the offsets are stored")
    plain.close()
    assert len(read(counted)) == 220 and len(read(ticked)) == 100
    with Admin(bootstrap_servers=bootstrap) as admin:
        ends = admin.list_offsets({TopicPartition(ticked, 0): OffsetSpec.LATEST})
    assert ends[TopicPartition(ticked, 0)].offset == 100, "no markers of transactions"


def test_idle_connectors_run_no_job_and_hardly_use_the_processor(
    worker: Worker, tmp_path: Path, new_topic: Callable[..., str], unused_name: Callable[[], str]
) -> None:
    """Fifty of them, half sources and half sinks."""
    topic, prefix = new_topic(), unused_name()
    sources = [f"{prefix}-{n}" for n in range(25)]
    sinks = [f"{prefix}-sink-{n}" for n in range(25)]
    for name in sources:
        worker.engine.start(name, counting(topic, limit=0))
    for name in sinks:
        sink = {"connector.class": "Files", "topics": topic, "directory": str(tmp_path / name)}
        worker.engine.start(name, sink)
    for name in [*sources, *sinks]:
        worker.wait_for(name, ConnectorState.RUNNING)
    me = psutil.Process()
    before, begin = me.cpu_times(), time.monotonic()
    eventually(lambda: time.monotonic() - begin > 3)
    after, seconds = me.cpu_times(), time.monotonic() - begin
    used = after.user + after.system - before.user - before.system
    assert used / seconds < 0.1, "of a core"
    context = worker.engine.spark.session()[0].sparkContext
    assert context.statusTracker().getActiveJobsIds() == []
    worker.stop(*sources, *sinks)
