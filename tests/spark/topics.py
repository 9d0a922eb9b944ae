"""Topics for Spark tests: filled, grown, truncated and replaced by confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewPartitions, NewTopic, TopicPartition

WAIT_S = 60.0
QUIET = {"log_level": 0}
"""A client outlives the broker of its tests briefly, and would log that."""


def send(bootstrap: str, topic: str, values: Iterable[bytes | None], **settings: Any) -> None:
    """Write records with these values. `partition`, `key`, `headers`, `timestamp` apply to all; the rest are
    settings."""
    fields = {name: settings.pop(name) for name in ("partition", "key", "headers", "timestamp") if name in settings}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **QUIET, **settings})
    for value in values:
        producer.produce(topic, value=value, **fields)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0


def send_everywhere(bootstrap: str, topic: str, partitions: int, copies: int) -> None:
    """Write records to each partition, with the partition's number as value."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **QUIET})
    for partition in range(partitions):
        for _ in range(copies):
            producer.produce(topic, value=b"%d" % partition, partition=partition)
    assert producer.flush(WAIT_S) == 0


def transaction(bootstrap: str, topic: str, values: Iterable[bytes], *, commit: bool, transactional_id: str) -> None:
    """Write records in a transaction that is committed or aborted."""
    producer = open_transaction(bootstrap, topic, values, transactional_id)
    if commit:
        producer.commit_transaction(WAIT_S)
    else:
        producer.abort_transaction(WAIT_S)


def open_transaction(bootstrap: str, topic: str, values: Iterable[bytes], transactional_id: str) -> Producer:
    """Write records in an open transaction, which the caller must end."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 5, **QUIET})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(WAIT_S) == 0
    return producer


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    _done(_admin(bootstrap).create_partitions([NewPartitions(topic, partitions)]))


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    _done(_admin(bootstrap).create_topics([NewTopic(topic, partitions)]))


def delete(bootstrap: str, topic: str) -> None:
    _done(_admin(bootstrap).delete_topics([topic]))


def replace(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Delete the topic and create another one under its name."""
    delete(bootstrap, topic)
    create(bootstrap, topic, partitions)


def cut(bootstrap: str, topic: str, before: int, partition: int = 0) -> None:
    """Delete records as retention does: the log begins at offset `before` from now on."""
    _done(_admin(bootstrap).delete_records([TopicPartition(topic, partition, before)]))


def committed(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    """The committed offsets, as tools that watch groups read them."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
    (answer,) = _admin(bootstrap).list_consumer_group_offsets([request]).values()
    return int(answer.result(WAIT_S).topic_partitions[0].offset)


def end(bootstrap: str, topic: str, partition: int = 0) -> int:
    asked = TopicPartition(topic, partition)
    (answer,) = _admin(bootstrap).list_offsets({asked: OffsetSpec.latest()}).values()
    return int(answer.result(WAIT_S).offset)


@cache  # keep the client alive: one that is collected loses its pending answers
def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(WAIT_S)
