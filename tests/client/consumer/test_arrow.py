"""`poll_arrow`: each record once, in order, without aborted records, as rows of a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

from moldau import Consumer, TopicPartition
from moldau.client.consumer.poll_results import RowResults
from moldau.client.loop_thread import LoopThread
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


class InterruptedReturn:
    """A loop thread whose caller gets a KeyboardInterrupt (Ctrl-C) instead of the first rows."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self.interrupted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._thread, name)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        result = self._thread.run(coroutine)
        if isinstance(result, RowResults) and not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt
        return result


@pytest.mark.parametrize("ends", [False, True])
def test_rows_that_an_interruption_kept_from_the_application_are_not_committed_and_come_again(
    consumer: Consumers, write: Write, new_topic: Callable[..., str], ends: bool
) -> None:
    name = new_topic(partitions=2)
    for partition in range(2):
        write(name, [b"%d" % i for i in range(10)], partition=partition)
    settings = {"group_id": name, "enable_auto_commit": True, "auto_offset_reset": "earliest"}
    one = consumer(name, **settings)
    first = rows(one, 4, max_rows=4)
    one._thread = InterruptedReturn(one._thread)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        rows(one, 1)
    if ends:
        one.close()  # commits what was read
        one = consumer(name, **settings)
    table = pa.concat_tables([first, rows(one, 16)])
    found = sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    assert found == [(partition, offset) for partition in range(2) for offset in range(10)]
    assert [one.position((name, partition)) for partition in range(2)] == [10, 10]


def test_without_records_there_are_no_rows(consumer: Consumers, topic: str) -> None:
    table = consumer(topic).poll_arrow(timeout=0.1, headers=True)
    assert table.num_rows == 0 and "headers" in table.schema.names


def test_poll_arrow_and_iteration_share_one_position(consumer: Consumers, write: Write, topic: str) -> None:
    write(topic, [b"%d" % i for i in range(30)])
    one = consumer(topic)
    assert [record.offset for record in take(one, 7)] == list(range(7))
    assert rows(one, 5, max_rows=5)["offset"].to_pylist() == list(range(7, 12))
    assert [record.offset for record in take(one, 3)] == [12, 13, 14]
    assert rows(one, 15)["offset"].to_pylist() == list(range(15, 30))
    assert one.position(TopicPartition(topic, 0)) == 30
