"""Arrow tables: `send_batch` and `poll_arrow`, also read and written by other clients."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import Producer as OtherProducer
from confluent_kafka import TopicPartition as OtherPartition

from moldau import Consumer, Producer, TopicPartition, aio
from moldau.client.errors import (
    BufferFull,
    ClosedError,
    RecordTooLarge,
    SerializationError,
    UnknownTopicOrPartition,
)
from moldau.client.producer.arrow import BatchMetadata
from moldau.client.producer.partitioners import PartitionChoice
from moldau.testing import Broker
from tests.client.core.support import run

READ_TIMEOUT_S = 30.0


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    with Producer(bootstrap_servers=bootstrap) as made:
        yield made


def rows_in(bootstrap: str, topic: str, count: int, partitions: int = 1, **options: Any) -> list[dict[str, Any]]:
    """All rows of a topic, read by `poll_arrow`, by partition and offset."""
    headers = options.pop("headers", False)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        found: list[dict[str, Any]] = []
        while len(found) < count:
            batch = consumer.poll_arrow(timeout=READ_TIMEOUT_S, headers=headers)
            assert batch.num_rows, f"{len(found)} of {count} rows came"
            batch.validate(full=True)
            found += batch.to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def test_every_column_arrives_and_other_clients_see_the_same(
    bootstrap: str, new_topic: Callable[..., str], producer: Producer
) -> None:
    topic = new_topic(partitions=2)
    table = pa.table(
        {
            "body": ["first", None, "third"],
            "id": pa.array([b"k", b"k", None], pa.large_binary()),
            "at": pa.array([1_700_000_000_000, 1_700_000_000_001, 1_700_000_000_002], pa.timestamp("ms", tz="UTC")),
            "to": pa.array([1, 1, 1], pa.int16()),
            "tags": pa.array([[("a", b"1"), ("b", None)], [], None], pa.map_(pa.string(), pa.binary())),
        }
    )
    sent = producer.send_batch(topic, table, value="body", key="id", timestamp="at", partition="to", headers="tags")
    assert sent.result(30) == BatchMetadata(topic, 3, {1: 0})
    rows = rows_in(bootstrap, topic, 3, 2, headers=True)
    assert [(row["key"], row["value"], row["partition"], row["offset"]) for row in rows] == [
        (b"k", b"first", 1, 0),
        (b"k", None, 1, 1),
        (None, b"third", 1, 2),
    ]
    assert [int(row["timestamp"].timestamp() * 1000) % 1000 for row in rows] == [0, 1, 2]
    assert [row["headers"] for row in rows] == [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], [], []]
    other = OtherConsumer({"bootstrap.servers": bootstrap, "group.id": "none"})
    other.assign([OtherPartition(topic, 1, 0)])
    messages = other.consume(3, READ_TIMEOUT_S)
    other.close()
    assert [(message.key(), message.value(), message.headers()) for message in messages] == [
        (b"k", b"first", [("a", b"1"), ("b", None)]),
        (b"k", None, None),
        (None, b"third", None),
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_large_table_arrives_whole_and_each_key_in_order(
    bootstrap: str, new_topic: Callable[..., str], codec: str
) -> None:
    topic = new_topic(partitions=3)
    count = 12_000
    table = pa.table(
        {
            "value": [b"%06d" % number + b"." * 60 for number in range(count)],
            "key": [b"%d" % (number % 100) for number in range(count)],
        }
    )
    with Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        metadata = producer.send_batch(
            topic, pa.concat_tables([table.slice(0, 777), table.slice(777)]), key="key"
        ).result(30)
    assert metadata.rows == count
    rows = rows_in(bootstrap, topic, count, 3)
    assert sorted(row["value"] for row in rows) == table["value"].to_pylist()
    by_key: dict[bytes, list[bytes]] = {}
    for row in rows:
        by_key.setdefault(row["key"], []).append(row["value"])
    assert all(values == sorted(values) for values in by_key.values())


def test_keys_find_the_partition_that_other_producers_give_them(
    bootstrap: str, new_topic: Callable[..., str], producer: Producer
) -> None:
    topic = new_topic(partitions=5)
    keys = [b"%d" % number * (number % 9) for number in range(60)]
    other = OtherProducer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "log_level": 2})
    for key in keys:
        other.produce(topic, b"theirs", key)
    other.flush(30)
    producer.send_batch(topic, pa.table({"key": keys, "value": [b"ours"] * len(keys)}), key="key").result(30)
    places: dict[bytes, set[int]] = {}
    for row in rows_in(bootstrap, topic, 2 * len(keys), 5):
        places.setdefault(row["key"], set()).add(row["partition"])
    assert all(len(found) == 1 for found in places.values())


def test_rows_and_records_keep_their_order(bootstrap: str, topic: str, producer: Producer) -> None:
    futures: list[Any] = []
    for turn in range(20):
        futures.append(producer.send(topic, b"%d" % (3 * turn)))
        futures.append(
            producer.send_batch(topic, pa.table({"value": [b"%d" % (3 * turn + 1), b"%d" % (3 * turn + 2)]}))
        )
    for future in futures:
        future.result(30)
    assert [row["value"] for row in rows_in(bootstrap, topic, 60)] == [b"%d" % number for number in range(60)]


def test_poll_arrow_respects_max_rows_and_continues_after_them(bootstrap: str, topic: str, producer: Producer) -> None:
    producer.send_batch(topic, pa.table({"value": [b"%d" % number for number in range(1_000)]})).result(30)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        seen: list[bytes] = []
        while len(seen) < 1_000:
            wanted = random.choice([1, 7, 64])
            batch = consumer.poll_arrow(wanted, READ_TIMEOUT_S)
            assert 0 < batch.num_rows <= wanted
            seen += batch["value"].to_pylist()
            if len(seen) % 3 == 0 and len(seen) < 1_000:  # single records in between
                seen.append(consumer.poll(READ_TIMEOUT_S, max_records=1)[0].value)
            assert consumer.position(TopicPartition(topic, 0)) == len(seen)
    assert seen == [b"%d" % number for number in range(1_000)]


def test_memory_bounds_a_table_that_is_larger(bootstrap: str, topic: str) -> None:
    table = pa.table({"value": [bytes(1_000)] * 4_000})
    with Producer(bootstrap_servers=bootstrap, buffer_memory=300_000) as producer:
        assert producer.send_batch(topic, table).result(30).rows == 4_000
    assert len(rows_in(bootstrap, topic, 4_000)) == 4_000


def test_a_topic_that_takes_only_small_batches_gets_small_ones(
    bootstrap: str, new_topic: Callable[..., str], producer: Producer
) -> None:
    topic = new_topic(configs={"max.message.bytes": "5000"})
    table = pa.table({"value": [b"%d" % number * 10 for number in range(1_000)]})
    metadata = producer.send_batch(topic, table).result(30)
    assert (metadata.rows, metadata.first_offsets) == (1_000, {0: 0})
    assert [row["value"] for row in rows_in(bootstrap, topic, 1_000)] == table["value"].to_pylist()


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        ({"value": [1]}, {}, SerializationError, "column 'value' is int64"),
        ({"body": [b""]}, {}, SerializationError, "there is no column 'value'"),
        ({"value": [b"", bytes(2_000_000)]}, {}, RecordTooLarge, "row 1: it takes 2000036 bytes"),
        (
            {"value": [b"", b""], "to": [0, 9]},
            {"partition": "to"},
            UnknownTopicOrPartition,
            "row 1: its partition is 9",
        ),
        ({"value": [b""], "at": [-7]}, {"timestamp": "at"}, SerializationError, "row 0: its timestamp is -7"),
    ],
)
def test_a_table_that_cannot_be_sent_is_refused_as_a_whole(
    bootstrap: str,
    topic: str,
    columns: dict[str, list[Any]],
    options: dict[str, str],
    error: type[Exception],
    message: str,
) -> None:
    with Producer(bootstrap_servers=bootstrap, max_block_ms=400) as producer:
        with pytest.raises(error, match=message):
            producer.send_batch(topic, pa.table(columns), **options)
        producer.send_batch(topic, pa.table({"value": [b"good"]})).result(30)
    assert [row["value"] for row in rows_in(bootstrap, topic, 1)] == [b"good"]


def test_an_empty_table_completes_at_once(topic: str, producer: Producer) -> None:
    future = producer.send_batch(topic, pa.table({"value": pa.array([], pa.binary())}))
    assert future.done()
    assert future.result(0) == BatchMetadata(topic, 0, {})


def test_a_closed_producer_refuses_rows(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"value").result(30)
    with pytest.raises(ClosedError):
        producer.send_batch(topic, pa.table({"value": [b"late"]}))


class LastDigit:
    """Chooses the partition by the last digit of the row's value."""

    def partition(
        self, topic: str, key: object, key_bytes: Any, value: object, value_bytes: Any, choice: PartitionChoice
    ) -> int:
        return int(value_bytes[-1:]) % choice.count


def test_a_custom_partitioner_is_called_for_rows_without_a_partition(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=4)
    table = pa.table({"value": [b"%d" % number for number in range(8)], "to": pa.array([0, *[None] * 7], pa.int32())})
    with Producer(bootstrap_servers=bootstrap, partitioner_class=LastDigit) as producer:
        producer.send_batch(topic, table.slice(1)).result(30)
        producer.send_batch(topic, table.slice(0, 2), partition="to").result(30)
    rows = rows_in(bootstrap, topic, 9, 4)
    assert all(int(row["value"]) % 4 == row["partition"] for row in rows)


def test_tables_with_asyncio(bootstrap: str, topic: str) -> None:
    table = pa.table({"value": [b"%d" % number for number in range(3_000)]})

    async def main() -> list[bytes]:
        async with aio.Producer(bootstrap_servers=bootstrap, buffer_memory=20_000) as producer:
            metadata = await (await producer.send_batch(topic, table))
            assert metadata.rows == 3_000
        async with aio.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            seen: list[bytes] = []
            while len(seen) < 3_000:
                seen += (await consumer.poll_arrow(timeout=READ_TIMEOUT_S))["value"].to_pylist()
            return seen

    assert run(main()) == table["value"].to_pylist()


def test_the_error_of_undelivered_rows_has_their_number(unused_name: Callable[[], str]) -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        with Producer(bootstrap_servers=broker.bootstrap_servers, buffer_memory=300_000, max_block_ms=300) as producer:
            producer.send("orders", b"").result(30)
            broker.faults.fail_next("Produce", "INVALID_RECORD", times=None)
            future = producer.send_batch("orders", pa.table({"value": [b"x"] * 7}))
            failure = future.exception(30)
            assert failure is not None
            with pytest.raises(type(failure)) as raised:
                future.result(0)
            assert raised.value.__notes__ == ["7 of 7 rows for topic 'orders' were not delivered"]
            broker.faults.clear()
            with broker.faults.black_hole("Produce"), pytest.raises(BufferFull, match="of 4000 rows were taken"):
                producer.send_batch("orders", pa.table({"value": [bytes(1_000)] * 4_000}))
            producer.close(0)
