"""Blocking producer: sent records are stored, and errors say what could not be sent."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from moldau import Producer, errors
from moldau.client.data_types import RecordMetadata
from moldau.client.producer.interceptors import ProducerRecord
from moldau.client.producer.partitioners import PartitionChoice, partition_of_key
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from tests.client.producer.support import PATIENCE_S, headers, producer, stored, values
from tests.compat import wire
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until


def test_a_record_is_where_its_metadata_says(bootstrap: str, topic: str) -> None:
    with producer(bootstrap) as p:
        first = p.send(topic, b"one", key=b"k", timestamp=1_700_000_000_000, headers=[("h", b"x"), ("n", None)])
        second = p.send(topic, None, headers={"only": b"one"})
        assert first.result(PATIENCE_S) == RecordMetadata(topic, 0, 0, 1_700_000_000_000)
        assert second.result(PATIENCE_S).offset == 1
    one, two = stored(bootstrap, topic)
    assert (one.key, one.value, one.timestamp) == (b"k", b"one", 1_700_000_000_000)
    assert list(one.headers) == [("h", b"x"), ("n", None)]
    assert (two.key, two.value, list(two.headers)) == (None, None, [("only", b"one")])


def test_a_producer_continues_after_its_topic_was_deleted_and_created_again(
    bootstrap: str, raw: RawConnection, topic: str
) -> None:
    with producer(bootstrap) as p:
        assert p.send(topic, b"before").result(PATIENCE_S).offset == 0
        wire.ask(raw, DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=topic)], timeout_ms=10_000))
        wait_until(lambda: wire.describe_topic(raw, topic).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert p.send(topic, b"after").result(PATIENCE_S).offset == 0
    assert values(bootstrap, topic) == [b"after"]


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_records_arrive_in_order_whatever_is_acknowledged(bootstrap: str, topic: str, acks: Any) -> None:
    with producer(bootstrap, acks=acks, batch_size=500) as p:
        futures = [p.send(topic, b"%d" % i) for i in range(300)]
        p.flush(PATIENCE_S)
        offsets = [future.result(PATIENCE_S).offset for future in futures]
        assert offsets == ([-1] * 300 if acks == 0 else list(range(300)))
    assert values(bootstrap, topic) == [b"%d" % i for i in range(300)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_with_the_configured_codec(bootstrap: str, topic: str, codec: str) -> None:
    with producer(bootstrap, compression_type=codec, linger_ms=20) as p:
        for i in range(50):
            p.send(topic, b"the same text again and again %d" % (i % 3))
    assert len(values(bootstrap, topic)) == 50
    assert {header.codec_id for header in headers(bootstrap, topic)} == {
        ["none", "gzip", "snappy", "lz4", "zstd"].index(codec)
    }


@pytest.mark.parametrize(("codec", "level"), [("gzip", 9), ("lz4", 12), ("zstd", 19)])
def test_compression_levels_are_applied(bootstrap: str, topic: str, codec: str, level: int) -> None:
    with producer(bootstrap, compression_type=codec, **{f"compression_{codec}_level": level}) as p:
        p.send(topic, b"x" * 1000).result(PATIENCE_S)
    assert values(bootstrap, topic) == [b"x" * 1000]


def test_idempotence_is_the_default(bootstrap: str, topic: str) -> None:
    with producer(bootstrap) as p:
        for i in range(3):
            p.send(topic, b"%d" % i).result(PATIENCE_S)
    found = headers(bootstrap, topic)
    assert all(header.producer_id >= 0 for header in found)
    assert [header.base_sequence for header in found] == [0, 1, 2]


def test_records_wait_for_others_as_long_as_linger_says(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, linger_ms=30_000, delivery_timeout_ms=90_000) as p:
        for i in range(10):
            p.send(topic, b"%d" % i)
        p.flush(PATIENCE_S)  # flush does not wait for the linger time of half a minute
    assert [header.count for header in headers(bootstrap, topic)] == [10]


def test_keys_choose_kafkas_partition_and_a_given_partition_is_used(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=5)
    with producer(bootstrap) as p:
        keyed = {b"key-%d" % i: p.send(topic, b"v", key=b"key-%d" % i) for i in range(20)}
        placed = p.send(topic, b"v", key=b"key-1", partition=3)
        assert placed.result(PATIENCE_S).partition == 3
        for key, future in keyed.items():
            assert future.result(PATIENCE_S).partition == partition_of_key(key, 5)
        assert [one.index for one in p.partitions_for(topic)] == [0, 1, 2, 3, 4]


def test_serialisers_for_keys_and_values(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, key_serializer="uuid", value_serializer="json") as p:
        key = uuid4()
        p.send(topic, {"amount": 3}, key=key).result(PATIENCE_S)
        with pytest.raises(
            errors.SerializationError,
            match=rf"cannot serialize the key of a record for topic '{topic}': expected a uuid",
        ):
            p.send(topic, 1, key="text")
    (record,) = stored(bootstrap, topic)
    assert (record.key, record.value) == (str(key).encode(), b'{"amount":3}')


class Last:
    """A partitioner that chooses the last partition."""

    def partition(
        self, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, choice: PartitionChoice
    ) -> int:
        assert value == int(value_bytes)
        return choice.count - 1


def test_a_custom_partitioner_chooses_the_partition(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    with producer(bootstrap, partitioner_class=Last, value_serializer=lambda n: b"%d" % n) as p:
        assert p.send(topic, 17, key=b"k").result(PATIENCE_S).partition == 2
        assert p.send(topic, 18, partition=0).result(PATIENCE_S).partition == 0


def test_round_robin(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    with producer(bootstrap, partitioner_class="round-robin") as p:
        chosen = [p.send(topic, b"v", key=b"same").result(PATIENCE_S).partition for _ in range(6)]
    assert chosen == [0, 1, 2, 0, 1, 2]


class Stamping:
    """An interceptor that marks records and notes their acknowledgements."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.closed = False

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + b"!", headers=[("seen", b"yes")])

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self.heard.append((metadata, error))

    def close(self) -> None:
        self.closed = True


class Broken:
    """An interceptor that fails. Its errors must have no effect."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("broken interceptor")


def test_interceptors_see_records_and_acknowledgements(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    stamping = Stamping()
    told: list[Any] = []
    with producer(bootstrap, interceptor_classes=[Broken, stamping]) as p:
        sent = p.send(topic, b"hello", on_delivery=lambda metadata, error: told.append(metadata)).result(PATIENCE_S)
    assert stamping.heard == [(sent, None)] and told == [sent] and stamping.closed
    (record,) = stored(bootstrap, topic)
    assert (record.value, list(record.headers)) == (b"hello!", [("seen", b"yes")])
    assert "broken interceptor" in caplog.text


def test_callbacks_come_in_the_order_of_the_records_and_may_send(bootstrap: str, topic: str) -> None:
    heard: list[int] = []
    threads: set[str] = set()
    with producer(bootstrap) as p:

        def answer(metadata: RecordMetadata | None, error: Exception | None) -> None:
            assert metadata is not None and error is None
            heard.append(metadata.offset)
            threads.add(threading.current_thread().name)
            if metadata.offset < 5:
                p.send(topic, b"and another", on_delivery=answer)

        p.send(topic, b"first", on_delivery=answer).result(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while len(heard) < 6 and time.monotonic() < deadline:
            p.flush(PATIENCE_S)
    assert heard == [0, 1, 2, 3, 4, 5]
    assert threads == {"moldau-clients"}


def test_four_threads_lose_nothing(
    bootstrap: str, new_topic: Callable[..., str], count: Callable[[int, int], int]
) -> None:
    topic = new_topic(partitions=2)
    each = count(5_000, 1_000_000)
    with producer(bootstrap, linger_ms=5) as p:

        def send(thread: int) -> None:
            for i in range(each):
                p.send(topic, b"%d" % i, key=b"%d" % thread, partition=i % 2)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        p.flush()
        assert p.metrics()["record-send-total"] == 4 * each
    for partition in range(2):
        seen: dict[bytes | None, list[int]] = {}
        for record in stored(bootstrap, topic, partition):
            seen.setdefault(record.key, []).append(int(record.value or b""))
        assert seen == {b"%d" % thread: list(range(partition, each, 2)) for thread in range(4)}


# -- records that cannot be sent


def test_an_invalid_topic_name_is_an_error_at_once(bootstrap: str) -> None:
    with producer(bootstrap) as p, pytest.raises(errors.InvalidTopic, match="no such/topic"):
        p.send("no such/topic", b"x")


def test_without_a_broker_send_gives_up_after_max_block() -> None:
    with producer("127.0.0.1:1", max_block_ms=200) as p, pytest.raises(errors.TimedOut):
        p.send("anything", b"x")


def test_a_partition_that_is_not_there_is_an_error_after_max_block(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, max_block_ms=300) as p:
        with pytest.raises(errors.UnknownTopicOrPartition, match=r"no partition 7; its partitions are 0 to 0"):
            p.send(topic, b"x", partition=7)
        with pytest.raises(errors.UnknownTopicOrPartition, match=r"no partition -3"):
            p.send(topic, b"x", partition=-3)
        assert p.send(topic, b"x", partition=0).result(PATIENCE_S).offset == 0


def test_a_record_larger_than_a_request_is_refused_at_once(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, max_request_size=1000) as p:
        with pytest.raises(errors.RecordTooLarge, match=r"max\.request\.size \(1000\)"):
            p.send(topic, b"x" * 1000)
        assert p.send(topic, b"x" * 800).result(PATIENCE_S).offset == 0


def test_a_record_larger_than_the_topic_allows_is_refused_by_the_broker(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(configs={"max.message.bytes": "500"})
    with producer(bootstrap) as p:
        with pytest.raises(errors.RecordTooLarge, match="MESSAGE_TOO_LARGE"):
            p.send(topic, b"x" * 1000).result(PATIENCE_S)
        assert p.send(topic, b"small").result(PATIENCE_S).offset == 0  # the sequence numbers continue


def test_a_batch_larger_than_the_topic_allows_is_split(bootstrap: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(configs={"max.message.bytes": "500"})
    with producer(bootstrap, linger_ms=30_000, delivery_timeout_ms=90_000) as p:
        futures = [p.send(topic, b"%03d" % i * 10) for i in range(100)]
        p.flush(PATIENCE_S)
        assert [future.result(PATIENCE_S).offset for future in futures] == list(range(100))
        assert p.metrics()["batch-split-total"] > 0
    assert values(bootstrap, topic) == [b"%03d" % i * 10 for i in range(100)]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"value": "text"}, "does not consist of bytes: value str"),
        ({"key": 17}, "key int"),
        ({"headers": [("h", "text")]}, "headers"),
        ({"timestamp": -5}, "timestamp -5"),
    ],
)
def test_a_value_that_is_not_bytes_is_refused(bootstrap: str, topic: str, wrong: dict[str, Any], says: str) -> None:
    with producer(bootstrap) as p, pytest.raises(errors.SerializationError, match=says):
        p.send(topic, **wrong)


def test_a_closed_producer_refuses_records_and_can_be_closed_again(bootstrap: str, topic: str) -> None:
    p = producer(bootstrap)
    future = p.send(topic, b"x")
    p.close()
    assert future.result(0).offset == 0
    p.close()
    with pytest.raises(errors.ClosedError, match="the producer is closed"):
        p.send(topic, b"y")


def test_wrong_settings_are_named(bootstrap: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"linger\.ms"):
        Producer(bootstrap_servers=bootstrap, linger_mss=5)
    with pytest.raises(errors.ConfigurationError, match=r"value\.serializer"):
        Producer({"bootstrap.servers": bootstrap, "value.serializer": "strng"})


def test_a_future_can_be_awaited_in_another_loop(bootstrap: str, topic: str) -> None:
    async def wait(future: Any) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await future

    with producer(bootstrap, linger_ms=50) as p:
        future = p.send(topic, b"x")
        assert asyncio.run(wait(future)) == future.result(0)
