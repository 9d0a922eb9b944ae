"""Takeover between two Connect processes: nothing is lost or doubled where exactly once is promised.

A source writes numbers to a topic at a steady rate, and a sink writes the topic to Parquet files. Then the process that
runs them is killed, or stopped until the other one has taken over and woken up again.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from moldau import Consumer
from moldau.client.data_types import TopicPartition
from moldau.testing import Broker
from tests.compat.apache_kafka.processes import free_port
from tests.support.connect_worker import ConnectWorker
from tests.support.waiting import wait_until

ROWS = 24_000
RATE = 2_000
TIMEOUT_S = 100.0
TOPIC = "numbers"
BOTH = ("numbers-source", "numbers-sink")


@contextlib.contextmanager
def two_workers() -> Iterator[tuple[Broker, ConnectWorker, ConnectWorker]]:
    with Broker() as broker:
        broker.create_topic(TOPIC, 2)
        first, second = (ConnectWorker(broker.bootstrap_servers, free_port()) for _ in range(2))
        with first, second:
            yield broker, first, second


def begin(worker: ConnectWorker, directory: Path) -> None:
    """Create a source and a sink that are busy for about fifteen seconds."""
    source = {"connector.class": "datagen", "topic": TOPIC, "quickstart": "numbers", "tasks.max": "1"}
    worker.put(BOTH[0], {**source, "rows.per.second": str(RATE), "iterations": str(ROWS)})
    sink = {"connector.class": "FileSink", "topics": TOPIC, "path": str(directory), "format": "parquet"}
    worker.put(BOTH[1], {**sink, "tasks.max": "2", "rotate.schedule.interval.ms": "500"})


def records(broker: Broker) -> Counter[int]:
    """How often each number is in the topic, for a reader of committed records."""
    found: Counter[int] = Counter()
    with Consumer(bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(TOPIC, index) for index in range(2)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found.update(json.loads(record.value)["number"] for record in consumer.poll(timeout=1.0))
    return found


def rows(directory: Path) -> Counter[int]:
    """How often each number is in the files that a reader of the directory sees."""
    found: Counter[int] = Counter()
    for file in directory.rglob("*.parquet"):
        if not any(part.startswith(("_", ".")) for part in file.relative_to(directory).parts):
            found.update(pq.read_table(file, columns=["number"]).column("number").to_pylist())
    return found


def owner(asked: ConnectWorker, name: str) -> str:
    worker_id: str = asked.status(name)["connector"]["worker_id"]
    return worker_id


def check_every_number_once(broker: Broker, directory: Path) -> None:
    once = Counter(range(ROWS))
    wait_until(lambda: sum(rows(directory).values()) >= ROWS, "every number is in a file", TIMEOUT_S)
    assert records(broker) == once
    assert rows(directory) == once


@pytest.mark.needs_java
@pytest.mark.timeout(300)
@pytest.mark.parametrize("end", ["killed", "stopped and continued"])
def test_the_other_process_takes_over_and_every_number_is_there_once(tmp_path: Path, end: str) -> None:
    directory = tmp_path / "numbers"
    with two_workers() as (broker, first, second):
        begin(first, directory)
        wait_until(lambda: len(rows(directory)) > 0, "the first numbers are in files", TIMEOUT_S)
        victim, other = (first, second) if owner(first, BOTH[0]) == first.worker_id else (second, first)
        if end == "killed":
            victim.kill()
        else:
            victim.freeze()
        for name in BOTH:
            other.wait_running(name, on=other)
        if end != "killed":
            wait_until(
                lambda: len(rows(directory)) > ROWS // 2, "the other process has done much of the work", TIMEOUT_S
            )
            victim.thaw()
        check_every_number_once(broker, directory)
        if end != "killed":  # the process that slept is a healthy member again, and both end cleanly
            wait_until(lambda: {owner(victim, name) for name in BOTH}, "the process that slept answers")
