"""Changes of a stopped connector's offsets: a worker that still believes that it runs it commits nothing after them.

Nothing runs on Spark here: the worker that slept is its commits alone, from the moment after it took over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.client.blocking.admin import Admin
from moldau.client.data_types import TopicPartition
from moldau.client.errors import InvalidProducerEpoch, ProducerFenced
from moldau.connect.config_def import ConfigDef
from moldau.connect.connector import Connector, Polled, PolledSourceConnector, SinkSlice, SourceOffsets
from moldau.connect.connectors.file_stream_sink import FileStreamSink
from moldau.connect.connectors.file_stream_source import FileStreamSource
from moldau.connect.engine.identities import connector_id, consumer_group, sink_transactional_id
from moldau.connect.engine.offset_changes import change_offsets
from moldau.connect.engine.polled_runner import PolledRunner
from moldau.connect.engine.run_settings import client_configs
from moldau.connect.engine.runner_creation import WorkerParts, run_context
from moldau.connect.engine.sink_commit import SinkCommits
from moldau.connect.engine.source_commit import SourceCommits
from moldau.connect.engine.source_offsets import OffsetTable
from moldau.connect.engine.source_runner import producer_options
from moldau.host.clock import SystemClock
from moldau.testing import Broker

FENCED = (ProducerFenced, InvalidProducerEpoch)
_numbers = itertools.count(1)


class Clicks(PolledSourceConnector):
    """A polled source of which only the offsets matter."""

    config_def = ConfigDef()

    def poll(self, offsets: SourceOffsets) -> Iterator[Polled]:
        raise AssertionError("it is never polled")


CLASSES: dict[str, type[Connector]] = {"source": FileStreamSource, "sink": FileStreamSink, "polled": Clicks}


@pytest.fixture(scope="module")
def offsets_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def parts(offsets_broker: Broker) -> Iterator[WorkerParts]:
    number = next(_numbers)
    text = "org.apache.kafka.connect.storage.StringConverter"
    settings = {
        "bootstrap.servers": offsets_broker.bootstrap_servers,
        "group.id": f"changes-{number}",
        "key.converter": text,
        "value.converter": text,
    }
    clients = client_configs(settings, {})
    table = OffsetTable(f"offsets-{number}", clients.consumer, clients.admin)
    runs = itertools.count(1)
    yield WorkerParts(settings, CLASSES.__getitem__, dict, table, SystemClock(), lambda: f"run{next(runs)}")
    table.close()


def stored(parts: WorkerParts, name: str) -> list[tuple[Any, Any]]:
    return [(dict(partition), dict(offset)) for partition, offset in parts.table.of(name)]


def source_config() -> dict[str, str]:
    return {"connector.class": "source", "name": "a", "file": "/nowhere", "topic": "t"}


def source_commits(parts: WorkerParts) -> SourceCommits:
    context = run_context(parts, "a", FileStreamSource, source_config())
    query = connector_id(parts.group, "a")
    return SourceCommits(producer_options(context), query, parts.new_run(), "a", parts.table)


PARTITION = {"filename": "/nowhere"}


def test_offsets_of_a_source_are_changed_and_removed(parts: WorkerParts) -> None:
    change_offsets(parts, "a", source_config(), [(PARTITION, {"position": 7}), ({"filename": "b"}, {"position": 1})])
    assert stored(parts, "a") == [(PARTITION, {"position": 7}), ({"filename": "b"}, {"position": 1})]
    change_offsets(parts, "a", source_config(), [({"filename": "b"}, None)])
    assert stored(parts, "a") == [(PARTITION, {"position": 7})]
    change_offsets(parts, "a", source_config(), None)
    assert stored(parts, "a") == []


def test_a_source_that_slept_through_the_change_commits_nothing(parts: WorkerParts) -> None:
    asleep = source_commits(parts)
    before = asleep.take_over()
    asleep.commit([], before, [(PARTITION, {"position": 50})])
    change_offsets(parts, "a", source_config(), [(PARTITION, {"position": 7})])
    with pytest.raises(FENCED):
        asleep.commit([], parts.table.of("a"), [(PARTITION, {"position": 60})])
    asleep.close()
    assert stored(parts, "a") == [(PARTITION, {"position": 7})]


def test_the_next_start_of_a_source_finds_the_changed_offsets_and_goes_on_with_the_batch_after(
    parts: WorkerParts,
) -> None:
    first = source_commits(parts)
    first.take_over()
    first.commit([], parts.table.of("a"), [(PARTITION, {"position": 50})])
    first.close()
    change_offsets(parts, "a", source_config(), [(PARTITION, {"position": 7})])
    again = source_commits(parts)
    assert again.take_over()[PARTITION] == {"position": 7}
    again.commit([], parts.table.of("a"), [(PARTITION, {"position": 8})])
    again.close()
    assert stored(parts, "a") == [(PARTITION, {"position": 8})]


def test_a_polled_source_that_slept_through_the_change_commits_nothing(parts: WorkerParts) -> None:
    config = {"connector.class": "polled", "name": "a"}
    asleep = PolledRunner(run_context(parts, "a", Clicks, config), parts.table)
    asleep.open(_Awake())  # type: ignore[arg-type]
    change_offsets(parts, "a", config, [({"page": "p"}, {"id": 4})])
    producer = asleep._producer
    assert producer is not None
    producer.begin_transaction()
    [(key, value)] = parts.table.records("a", [({"page": "p"}, {"id": 9})])
    with pytest.raises(FENCED):
        producer.send(parts.table.topic, value, key=key).result()
    producer.close()
    assert stored(parts, "a") == [({"page": "p"}, {"id": 4})]


def test_a_sink_that_slept_through_the_change_commits_nothing(
    parts: WorkerParts, offsets_broker: Broker, tmp_path: Path
) -> None:
    offsets_broker.create_topic("t", 1)
    config = {"connector.class": "sink", "name": "a", "topics": "t", "file": str(tmp_path / "out.txt")}
    context = run_context(parts, "a", FileStreamSink, config)
    commits = SinkCommits(
        context.clients, sink_transactional_id(parts.group, "a"), consumer_group("a"), context.settings.errors, 30.0
    )
    commits.take_over()
    change_offsets(parts, "a", config, None)
    published: list[str] = []
    partition = TopicPartition("t", 0)
    with pytest.raises(FENCED):
        commits.commit([SinkSlice(partition, 0, 5)], [], 1, lambda: published.append("batch"))
    commits.close()
    assert published == []
    with Admin(dict(context.clients.admin)) as admin:
        assert admin.list_group_offsets(consumer_group("a")) == {}


class _Awake:
    """A guard that lets everything pass."""

    def doing(self, what: str) -> None:
        """Nothing watches this attempt."""
