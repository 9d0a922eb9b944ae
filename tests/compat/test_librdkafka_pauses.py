"""Pauses of librdkafka with a full queue, as the application sees them: long polls, though the log has records.

The broker paces its responses to clients that name librdkafka. The same client under another name is not paced.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.compat.drivers import TIMEOUT_S

RECORDS = 800_000
"""Eight times `queued.min.messages`, librdkafka's default."""
RECORD = b"x" * 100
PAUSE_S = 0.3

OTHER_NAME = {"client.software.name": "other", "client.software.version": "1"}


def pauses(bootstrap: str, topic: str, settings: dict[str, str]) -> int:
    """Poll all records one by one; returns how often a poll had to wait for a pause."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "never joined", **settings})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    assert consumer.poll(TIMEOUT_S) is not None
    found = 0
    before = time.monotonic()
    for _ in range(RECORDS - 1):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.error() is None
        now = time.monotonic()
        found += now - before >= PAUSE_S
        before = now
    consumer.close()
    return found


def test_a_paced_reader_pauses_less_often(bootstrap: str, new_topic: Callable[..., str], moldau_only: None) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": RECORDS, "linger.ms": 20})
    for _ in range(RECORDS):
        producer.produce(topic, RECORD, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    unpaced = pauses(bootstrap, topic, OTHER_NAME)
    paced = pauses(bootstrap, topic, {})
    assert paced * 2 <= unpaced, f"{paced} pauses with pacing, {unpaced} without"
