"""Records as rows of a table, and the same promises: each once, in order, nothing that was aborted."""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from moldau import Consumer, TopicPartition
from moldau.records.batch_layout import Codec
from tests.client.consumer.conftest import PATIENCE_S
from tests.client.consumer.reading import take

Consumers = Callable[..., Consumer]
Write = Callable[..., int]


def rows(consumer: Consumer, count: int, **options: int) -> pa.Table:
    found: list[pa.RecordBatch] = []
    deadline = time.monotonic() + PATIENCE_S
    while sum(one.num_rows for one in found) < count:
        assert time.monotonic() < deadline
        found.append(consumer.poll_arrow(**options))
    return pa.Table.from_batches(found)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_table_has_kafkas_columns_and_every_record(
    consumer: Consumers, write: Write, new_topic: Callable[..., str], codec: Codec
) -> None:
    name = new_topic(partitions=2)
    for partition in range(2):
        for start in range(0, 100, 25):
            write(name, [b"%d" % (start + i) for i in range(25)], partition=partition, codec=codec)
    one = consumer(name)
    table = rows(one, 200, max_rows=30)
    assert {"key", "value", "topic", "partition", "offset", "timestamp"} <= set(table.column_names)
    for partition in range(2):
        mine = table.filter(pa.compute.equal(table["partition"], partition))
        assert mine["value"].to_pylist() == [b"%d" % i for i in range(100)]
        assert mine["offset"].to_pylist() == list(range(100))
        assert one.position((name, partition)) == 100


def test_without_records_there_are_no_rows(consumer: Consumers, topic: str) -> None:
    table = consumer(topic).poll_arrow(timeout=0.1, headers=True)
    assert table.num_rows == 0 and "headers" in table.schema.names


def test_rows_and_iteration_go_on_from_each_other(consumer: Consumers, write: Write, topic: str) -> None:
    write(topic, [b"%d" % i for i in range(30)])
    one = consumer(topic)
    assert [record.offset for record in take(one, 7)] == list(range(7))
    assert rows(one, 5, max_rows=5)["offset"].to_pylist() == list(range(7, 12))
    assert [record.offset for record in take(one, 3)] == [12, 13, 14]
    assert rows(one, 15)["offset"].to_pylist() == list(range(15, 30))
    assert one.position(TopicPartition(topic, 0)) == 30
