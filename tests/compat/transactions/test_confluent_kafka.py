"""confluent-kafka (librdkafka) as an idempotent and as a transactional producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

TIMEOUT_S = 30
FETCH_WAIT_MS = 10


@pytest.fixture
def name(unused_name: Callable[[], str]) -> str:
    return unused_name()


@pytest.fixture
def new_producer(bootstrap: str, name: str) -> Callable[..., Producer]:
    """Create an initialised transactional producer."""

    def create(**settings: Any) -> Producer:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0, **settings})
        producer.init_transactions(TIMEOUT_S)
        return producer

    return create


def transaction(producer: Producer, topic: str, *values: bytes, partition: int = 0) -> None:
    """Begin a transaction and write a record, without ending it."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def read(bootstrap: str, topic: str, partition: int = 0, *, committed: bool = True) -> list[bytes]:
    """The records of a partition from its beginning to the end that this consumer can see."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "never joined",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": FETCH_WAIT_MS,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    values = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return values
        values.append(message.value())


def error_of(call: Callable[..., Any], *arguments: Any) -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        call(*arguments)
    error: KafkaError = caught.value.args[0]
    return error


def test_default_idempotence_keeps_order_and_writes_once(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "log_level": 0})
    sent = [b"%06d" % number for number in range(5_000)]
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    assert read(bootstrap, topic) == sent


def test_committed_records_are_visible_and_aborted_ones_are_not(
    bootstrap: str, topic: str, new_producer: Callable[..., Producer]
) -> None:
    producer = new_producer()
    expected = []
    for number in range(20):
        values = [b"%d-%d" % (number, part) for part in range(3)]
        transaction(producer, topic, *values)
        if number % 3:
            producer.commit_transaction(TIMEOUT_S)
            expected += values
        else:
            producer.abort_transaction(TIMEOUT_S)
    assert read(bootstrap, topic) == expected
    assert len(read(bootstrap, topic, committed=False)) == 60


def test_an_open_transaction_is_not_seen(bootstrap: str, topic: str, new_producer: Callable[..., Producer]) -> None:
    producer = new_producer()
    transaction(producer, topic, b"committed")
    producer.commit_transaction(TIMEOUT_S)
    transaction(producer, topic, b"open")
    assert read(bootstrap, topic) == [b"committed"]
    assert read(bootstrap, topic, committed=False) == [b"committed", b"open"]
    producer.abort_transaction(TIMEOUT_S)


def test_a_transaction_over_many_partitions_is_seen_in_all_or_in_none(
    bootstrap: str, new_topic: Callable[..., str], new_producer: Callable[..., Producer]
) -> None:
    topic = new_topic(partitions=4)
    producer = new_producer()
    for commit in (False, True):
        producer.begin_transaction()
        for partition in range(4):
            producer.produce(topic, b"yes" if commit else b"no", partition=partition)
        assert producer.flush(TIMEOUT_S) == 0
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
    assert [read(bootstrap, topic, partition) for partition in range(4)] == [[b"yes"]] * 4


def test_a_zombie_is_fenced(bootstrap: str, topic: str, new_producer: Callable[..., Producer]) -> None:
    zombie = new_producer()
    transaction(zombie, topic, b"of the zombie")
    producer = new_producer()
    error = error_of(zombie.commit_transaction, TIMEOUT_S)
    assert error.fatal()
    assert error.code() == KafkaError._FENCED
    transaction(producer, topic, b"mine")
    producer.commit_transaction(TIMEOUT_S)
    assert read(bootstrap, topic) == [b"mine"]


def test_a_time_out_that_is_too_long_is_refused(new_producer: Callable[..., Producer]) -> None:
    error = error_of(lambda: new_producer(**{"transaction.timeout.ms": 900_001}))
    assert error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_offsets_take_effect_when_their_transaction_is_committed(
    bootstrap: str, topic: str, name: str, new_producer: Callable[..., Producer]
) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False})
    partition = TopicPartition(topic, 0)
    producer = new_producer()

    def read_to(offset: int) -> None:
        transaction(producer, topic, b"result")
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), TIMEOUT_S
        )

    def committed() -> int:
        (found,) = consumer.committed([partition], TIMEOUT_S)
        offset: int = found.offset
        return offset

    read_to(3)
    producer.commit_transaction(TIMEOUT_S)
    assert committed() == 3
    read_to(5)
    producer.abort_transaction(TIMEOUT_S)
    assert committed() == 3
    read_to(7)
    producer.commit_transaction(TIMEOUT_S)
    assert committed() == 7
    consumer.close()
