"""Accumulator filled by many threads while a loop empties it: no loss, and records keep their order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from moldau.client.producer import accumulator as reference
from tests.unit.client.producer.twins import TOPIC, TWINS, Harness, records_of

THREADS = 4
PARTITIONS = 3
JOIN_S = 100


@pytest.mark.timeout(120)
@pytest.mark.parametrize("twin", TWINS)
def test_nothing_is_lost_between_threads(twin: ModuleType, count: Callable[[int, int], int]) -> None:
    each = count(4_000, 50_000) if twin is reference else count(50_000, 1_000_000)
    harness = Harness(twin, partitions=PARTITIONS, batch_size=2_000, memory=1 << 40)
    accumulator = harness.accumulator
    arrived = threading.Event()
    finished = threading.Event()
    accumulator_woken = harness._wake

    def fill(thread: int) -> None:
        send = accumulator.send
        for i in range(each):
            send(TOPIC, b"%d" % i, b"%d" % thread, partition=i % PARTITIONS)

    def wait_for_more() -> None:
        arrived.wait(0.001)
        arrived.clear()

    next_of: dict[tuple[int, int], int] = {}
    seen = 0
    threads = [threading.Thread(target=fill, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    accumulator_woken()
    while seen < THREADS * each:
        if not any(thread.is_alive() for thread in threads):
            finished.set()
        batches = harness.drain(even_if_not_due=finished.is_set())
        for batch in batches:
            for record in records_of(batch):
                lane = (int(record.key or b"-1"), batch.queue.index)
                number = int(record.value or b"-1")
                assert number == next_of.get(lane, batch.queue.index)
                next_of[lane] = number + PARTITIONS
                seen += 1
            batch.complete(0)
        if finished.is_set() and not batches:
            break
        wait_for_more()
    for thread in threads:
        thread.join(JOIN_S)
    assert seen == THREADS * each
    assert accumulator.memory_used == 0 and accumulator.unfinished() == []


@pytest.mark.parametrize("twin", TWINS)
def test_many_threads_wait_for_one_batch(twin: ModuleType) -> None:
    harness = Harness(twin)
    futures = [harness.send(b"x") for _ in range(8)]
    results: list[Any] = []
    threads = [threading.Thread(target=lambda f=future: results.append(f.result(JOIN_S).offset)) for future in futures]
    for thread in threads:
        thread.start()
    harness.drain()[0].complete(40)
    for thread in threads:
        thread.join(JOIN_S)
    assert sorted(results) == list(range(40, 48))
