"""Consumer under network faults: no record twice, none missing, no stall."""

from __future__ import annotations

import random
from collections.abc import Callable

from moldau import Consumer
from moldau.wire.api import ApiKey
from tests.client.consumer.reading import take, values
from tests.support.adversity import AdversityProxy, Spoil

Write = Callable[..., int]

SETTINGS = {
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 50,
    "request_timeout_ms": 2_000,
    "default_api_timeout_ms": 60_000,
    "retry_backoff_ms": 20,
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 100,
}


def test_every_kind_of_lost_answer_is_survived(bootstrap: str, write: Write, topic: str) -> None:
    with AdversityProxy(bootstrap) as proxy, Consumer(topic, bootstrap_servers=proxy.bootstrap, **SETTINGS) as consumer:
        written = 0
        for how in Spoil:
            for _ in range(2):
                proxy.spoil(how, ApiKey.FETCH)
                write(topic, [b"%d" % (written + i) for i in range(5)])
                assert values(take(consumer, 5)) == [b"%d" % (written + i) for i in range(5)]
                written += 5


def test_the_consumer_makes_progress_after_each_of_many_faults(
    bootstrap: str, write: Write, new_topic: Callable[..., str], seed: int, count: Callable[[int, int], int]
) -> None:
    chance = random.Random(seed)
    name = new_topic(partitions=2)
    seen = {0: 0, 1: 0}
    settings = {**SETTINGS, "max_partition_fetch_bytes": 2_000, "metadata_max_age_ms": 500}
    with AdversityProxy(bootstrap) as proxy, Consumer(name, bootstrap_servers=proxy.bootstrap, **settings) as consumer:
        for _ in range(count(10, 300)):
            for partition in range(2):
                write(name, [b"x" * chance.randint(0, 500) for _ in range(10)], partition=partition)
            proxy.misbehave(chance, longest_s=0.2)
            for record in take(consumer, 20):
                assert record.offset == seen[record.partition], f"after {dict(proxy.faults)}"
                seen[record.partition] += 1
