"""Consumers under network faults: they continue after each fault, alone and in groups of both protocols."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest

from moldau import Admin, Consumer, Producer, TopicPartition
from moldau.client.admin.topics import NewTopic
from moldau.wire.api import ApiKey
from tests.client.adversity.faults import Fault, all_bytes_held, killed, random_faults, spoiled
from tests.support.adversity import AdversityProxy, Spoil
from tests.support.process import BrokerProcess

PARTITIONS = 2
BURST = 20
PATIENCE_S = 60.0
"""Far more than all time-outs of a consumer together: a consumer that takes longer has stalled."""

REQUEST_TIMEOUT_MS = 1_000

MODES: dict[str, dict[str, Any]] = {
    "alone": {},
    "classic": {"session_timeout_ms": 2_000, "heartbeat_interval_ms": 200},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.mark.parametrize("mode", MODES)
def test_there_is_progress_after_each_fault(
    mode: str,
    mortal_broker: BrokerProcess,
    proxy: AdversityProxy,
    unused_name: Callable[[], str],
    count: Callable[[int, int], int],
    seed: int,
) -> None:
    topic = unused_name()
    with Admin(bootstrap_servers=mortal_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    faults = itertools.islice(all_faults(mode, mortal_broker, proxy, random.Random(seed)), count(3, 200))
    with (
        Producer(bootstrap_servers=mortal_broker.bootstrap, reconnect_backoff_max_ms=200) as producer,
        consumer_of(mode, proxy, topic) as consumer,
    ):
        reader = Reader(consumer, exactly_once=mode == "alone")
        reader.read(send(producer, topic, 0))
        for number, fault in enumerate(faults, 1):
            fault()
            reader.read(send(producer, topic, number))


def all_faults(mode: str, broker: BrokerProcess, proxy: AdversityProxy, chance: random.Random) -> Iterator[Fault]:
    heartbeat = {"classic": ApiKey.HEARTBEAT, "consumer": ApiKey.CONSUMER_GROUP_HEARTBEAT}.get(mode, ApiKey.FETCH)
    yield spoiled(proxy, Spoil.LOSE_ANSWER, heartbeat)
    yield killed(broker) if mode == "consumer" else spoiled(proxy, Spoil.HALF_ANSWER, ApiKey.FETCH)
    yield all_bytes_held(proxy, REQUEST_TIMEOUT_MS / 1000 * 1.2)
    yield from random_faults(proxy, broker, chance)


def consumer_of(mode: str, proxy: AdversityProxy, topic: str) -> Consumer:
    settings = {
        "bootstrap_servers": proxy.bootstrap,
        "auto_offset_reset": "earliest",
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "reconnect_backoff_max_ms": 200,
        "retry_backoff_max_ms": 200,
        "auto_commit_interval_ms": 100,
        **MODES[mode],
    }
    if mode == "alone":
        consumer = Consumer(**settings)
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        return consumer
    return Consumer(topic, group_id=topic, **settings)


def send(producer: Producer, topic: str, number: int) -> set[tuple[int, bytes]]:
    """Write one burst to each partition, without the proxy. Returns the records that must be read."""
    sent = [
        (producer.send(topic, b"%d.%d" % (number, i), partition=partition), (partition, b"%d.%d" % (number, i)))
        for i in range(BURST)
        for partition in range(PARTITIONS)
    ]
    for future, _ in sent:
        future.result(PATIENCE_S)
    return {what for _, what in sent}


class Reader:
    """Reads the expected records and checks their order."""

    def __init__(self, consumer: Consumer, exactly_once: bool) -> None:
        self._consumer = consumer
        self._exactly_once = exactly_once
        self._next = [0] * PARTITIONS
        self._seen: set[tuple[int, bytes]] = set()

    def read(self, expected: set[tuple[int, bytes]]) -> None:
        """Return when all expected records were read. A member that had to join again may read some twice, but must
        miss none."""
        deadline = monotonic() + PATIENCE_S
        while not expected <= self._seen:
            assert monotonic() < deadline, f"stalled: {len(expected - self._seen)} records did not come"
            for record in self._consumer.poll(0.5):
                assert record.offset <= self._next[record.partition], "a gap: records are missing"
                if self._exactly_once:
                    assert record.offset == self._next[record.partition], "a record was read twice"
                self._next[record.partition] = max(self._next[record.partition], record.offset + 1)
                self._seen.add((record.partition, record.value))
