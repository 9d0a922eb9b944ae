"""Many subscription changes in a row, by a real client of the new group protocol."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer

TOPICS = 30
PARTITIONS = 2
SUBSCRIBED = 5
CHECK_EVERY = 10
TIMEOUT_S = 30.0


def test_confluent_kafka_gets_the_partitions_of_its_last_subscription(
    bootstrap: str, new_topic: Callable[..., str], unused_name: Callable[[], str]
) -> None:
    """Like librdkafka's test 0045, but without `unsubscribe`; docs/compatibility.md gives the reason."""
    topics = [new_topic(partitions=PARTITIONS) for _ in range(TOPICS)]
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": unused_name(), "group.protocol": "consumer"},
    )
    try:
        for first in range(TOPICS):
            subscribed = topics[first : first + SUBSCRIBED]
            consumer.subscribe(subscribed)
            if first % CHECK_EVERY == 0 or first == TOPICS - 1:
                expected = {(topic, partition) for topic in subscribed for partition in range(PARTITIONS)}
                assert _assignment(consumer, expected) == expected
    finally:
        consumer.close()


def _assignment(consumer: Consumer, expected: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """The consumer's assignment, as soon as it is the expected one, or when the time is up."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        consumer.poll(0.01)
        assigned = {(one.topic, one.partition) for one in consumer.assignment()}
        if assigned == expected or time.monotonic() > deadline:
            return assigned
