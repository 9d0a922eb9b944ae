"""Numbers from a source through a topic to Parquet files, and the check that each is there once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from moldau import Consumer
from moldau.client.data_types import TopicPartition
from moldau.testing import Broker
from tests.support.connect_worker import ConnectWorker
from tests.support.waiting import wait_until

RATE = 2_000
TIMEOUT_S = 100.0
TOPIC = "numbers"
BOTH = ("numbers-source", "numbers-sink")


def begin(broker: Broker, worker: ConnectWorker, directory: Path, count: int) -> None:
    """Create a source of so many numbers, and a sink of its topic."""
    broker.create_topic(TOPIC, 2)
    source = {"connector.class": "datagen", "topic": TOPIC, "quickstart": "numbers", "tasks.max": "1"}
    worker.put(BOTH[0], {**source, "rows.per.second": str(RATE), "iterations": str(count)})
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


def check_every_number_once(broker: Broker, directory: Path, count: int) -> None:
    once = Counter(range(count))
    wait_until(lambda: sum(rows(directory).values()) >= count, "every number is in a file", TIMEOUT_S)
    assert records(broker) == once
    assert rows(directory) == once
