"""Idempotent producer under network and broker faults: no loss, no duplicates, no reordering."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from moldau import Admin, Consumer, Producer, TopicPartition
from moldau.client.admin.topics import NewTopic
from moldau.wire.api import ApiKey
from tests.client.adversity.faults import Fault, all_bytes_held, killed, random_faults, restarted, spoiled
from tests.support.adversity import AdversityProxy, Spoil
from tests.support.process import BrokerProcess

PARTITIONS = 2
BURST = 150
"""Records per partition that are sent at once, in many small batches."""

PATIENCE_S = 110.0
REQUEST_TIMEOUT_MS = 1_000


def test_no_record_is_lost_duplicated_or_reordered(
    mortal_broker: BrokerProcess,
    proxy: AdversityProxy,
    unused_name: Callable[[], str],
    count: Callable[[int, int], int],
    seed: int,
) -> None:
    topic = unused_name()
    create(mortal_broker, topic)
    rounds = count(10, 200)
    faults = itertools.islice(all_faults(mortal_broker, proxy, random.Random(seed)), rounds)
    numbers: Iterator[int] = itertools.count()
    with (
        Producer(
            bootstrap_servers=proxy.bootstrap,
            batch_size=512,
            linger_ms=1,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            reconnect_backoff_max_ms=200,
            retry_backoff_max_ms=200,
        ) as producer,
        ThreadPoolExecutor(1) as background,
    ):
        for fault in faults:
            happening = background.submit(fault)
            over = False
            while not over:  # a burst may be acknowledged before the fault has begun: then another one must follow
                over = happening.done()
                for future in send(producer, topic, list(itertools.islice(numbers, BURST))):
                    future.result(PATIENCE_S)
            happening.result()
    stored = read(mortal_broker, topic)
    sent = list(range(next(numbers)))
    for partition in range(PARTITIONS):
        assert stored[partition] == sent, f"partition {partition}"


def all_faults(broker: BrokerProcess, proxy: AdversityProxy, chance: random.Random) -> Iterator[Fault]:
    for how in Spoil:
        yield spoiled(proxy, how, ApiKey.PRODUCE)
    yield killed(broker)
    yield restarted(broker)
    yield all_bytes_held(proxy, REQUEST_TIMEOUT_MS / 1000 * 1.2)
    yield from random_faults(proxy, broker, chance)


def send(producer: Producer, topic: str, burst: list[int]) -> list[Any]:
    return [
        producer.send(topic, b"%d" % number, partition=partition) for number in burst for partition in range(PARTITIONS)
    ]


def create(broker: BrokerProcess, topic: str) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])


def read(broker: BrokerProcess, topic: str) -> dict[int, list[int]]:
    """All stored records by partition, read without the proxy."""
    partitions = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    found: dict[int, list[int]] = defaultdict(list)
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(one) < ends[one] for one in partitions):
            for record in consumer.poll(1.0):
                found[record.partition].append(int(record.value))
    return found
