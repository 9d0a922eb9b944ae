"""Asyncio consumer: iteration, poll, listeners, and cancellation at any point."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau import TopicPartition
from moldau.aio import Consumer
from moldau.client.errors import ConcurrentUseError, WakeupError
from moldau.client.loop_thread import new_loop
from tests.client.consumer.conftest import PATIENCE_S
from tests.support.waiting import loop_turns

Write = Callable[..., int]


def run(test: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(bounded())


@asynccontextmanager
async def reading(bootstrap: str, *topics: str, **settings: Any) -> AsyncIterator[Consumer]:
    defaults = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 50}
    async with Consumer(*topics, **{**defaults, **settings}) as consumer:
        yield consumer


async def take(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async for record in consumer:
        found.append(record.value)
        if len(found) == count:
            break
    return found


def test_records_are_read_by_iteration_and_by_poll(bootstrap: str, write: Write, topic: str) -> None:
    async def test() -> None:
        async with reading(bootstrap, topic) as consumer:
            assert await take(consumer, 3) == [b"0", b"1", b"2"]
            assert await consumer.position((topic, 0)) == 3
            assert [record.value for record in await consumer.poll(timeout=30, max_records=2)] == [b"3", b"4"]
            await consumer.seek((topic, 0), 9)
            assert await take(consumer, 1) == [b"9"]
            assert await consumer.lag() == {TopicPartition(topic, 0): 0}
            assert consumer.assignment() == {TopicPartition(topic, 0)}

    write(topic, [b"%d" % i for i in range(10)])
    run(test())


def test_a_listener_may_be_a_coroutine_and_use_the_consumer(
    bootstrap: str, write: Write, topic: str, group: str
) -> None:
    class Listener:
        def __init__(self) -> None:
            self.heard: list[str] = []

        async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            assert await consumer_of["it"].position(partitions[0]) == 0
            await consumer_of["it"].seek(partitions[0], 2)
            self.heard.append("assigned")

        async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            await consumer_of["it"].commit()
            self.heard.append("revoked")

    consumer_of: dict[str, Consumer] = {}

    async def test() -> None:
        listener = Listener()
        settings = {"group_id": group, "group_protocol": "consumer", "listener": listener}
        async with reading(bootstrap, topic, **settings) as consumer:
            consumer_of["it"] = consumer
            assert await take(consumer, 1) == [b"2"]
        assert listener.heard == ["assigned", "revoked"]

    write(topic, [b"%d" % i for i in range(4)])
    run(test())


def test_two_tasks_at_once_are_refused(bootstrap: str, topic: str) -> None:
    async def test() -> None:
        async with reading(bootstrap, topic) as consumer:
            waiting = asyncio.create_task(consumer.poll(timeout=None))
            await loop_turns()
            with pytest.raises(ConcurrentUseError):
                await consumer.poll()
            consumer.wakeup()
            with pytest.raises(WakeupError):
                await waiting

    run(test())


def test_cancelling_at_any_point_loses_nothing(bootstrap: str, write: Write, topic: str, seed: int) -> None:
    """Records that were not returned are returned again; records that were returned are not."""
    chance = random.Random(seed)

    async def test() -> None:
        found: list[bytes | None] = []
        async with reading(bootstrap, topic, max_poll_records=7, max_partition_fetch_bytes=400) as consumer:
            while len(found) < 300:
                polling = asyncio.create_task(consumer.poll(timeout=None))
                for _ in range(chance.randint(0, 6)):
                    await asyncio.sleep(chance.choice((0, 0, 0.0005)))  # the moment of the cancellation
                polling.cancel()
                try:
                    found += [record.value for record in await polling]
                except asyncio.CancelledError:
                    continue
        assert found == [b"%d" % i for i in range(300)]

    for start in range(0, 300, 20):
        write(topic, [b"%d" % i for i in range(start, start + 20)])
    run(test())


def test_a_close_that_is_cancelled_still_closes(bootstrap: str, topic: str, group: str) -> None:
    async def test() -> None:
        async with reading(bootstrap, topic, group_id=group, group_protocol="consumer") as consumer:
            await consumer.poll(timeout=0.2)
            closing = asyncio.create_task(consumer.close())
            await loop_turns()
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert [task for task in others if "bounded" not in repr(task.get_coro())] == []

    run(test())
