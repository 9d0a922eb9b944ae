"""Cancellation of transactional calls at every await: the same call can be repeated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.aio import Consumer, Producer
from moldau.client.data_types import TopicPartition
from moldau.client.errors import IllegalStateError
from tests.client.cancellation.interrupt import at_every_suspension, cancel_at, in_time
from tests.client.core.support import run


@asynccontextmanager
async def transactional(bootstrap: str, name: str) -> AsyncIterator[Producer]:
    producer = Producer(bootstrap_servers=bootstrap, transactional_id=name, linger_ms=0)
    await producer.start()
    try:
        yield producer
    finally:
        await in_time(producer.close())


async def committed(bootstrap: str, topic: str) -> list[bytes]:
    """The records that a consumer with read_committed gets."""
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        partition = TopicPartition(topic, 0)
        await consumer.assign([partition])
        end = (await consumer.end_offsets(partition))[partition]
        values: list[bytes] = []
        while await consumer.position(partition) < end:
            values += [record.value for record in await consumer.poll(1.0)]
        return values


ENDINGS = {"commit": True, "abort": False}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_cancelled_end_of_a_transaction_can_be_repeated(
    bootstrap: str, topic: str, unused_name: Callable[[], str], ending: str
) -> None:
    async def main() -> None:
        expected: list[bytes] = []
        async with transactional(bootstrap, unused_name()) as producer:
            await in_time(producer.init_transactions())

            def end() -> Coroutine[Any, Any, None]:
                return producer.commit_transaction() if ENDINGS[ending] else producer.abort_transaction()

            async def scenario(k: int) -> bool:
                await producer.begin_transaction()
                await producer.send(topic, b"%d" % k)
                cancelled = await cancel_at(k, end())
                if cancelled:
                    await in_time(end())
                expected.extend([b"%d" % k] if ENDINGS[ending] else [])
                return cancelled

            assert await at_every_suspension(scenario) >= 1
        assert await committed(bootstrap, topic) == expected

    run(main())


def test_a_cancelled_init_transactions_can_be_repeated(
    bootstrap: str, topic: str, unused_name: Callable[[], str]
) -> None:
    async def main() -> None:
        expected: list[bytes] = []

        async def scenario(k: int) -> bool:
            async with transactional(bootstrap, unused_name()) as producer:
                cancelled = await cancel_at(k, producer.init_transactions())
                if cancelled:
                    await in_time(producer.init_transactions())
                async with producer.transaction():
                    await producer.send(topic, b"%d" % k)
                expected.append(b"%d" % k)
                return cancelled

        assert await at_every_suspension(scenario) >= 1
        assert await committed(bootstrap, topic) == expected

    run(main())


def test_a_cancelled_block_is_aborted_or_its_commit_can_be_repeated(
    bootstrap: str, topic: str, unused_name: Callable[[], str]
) -> None:
    async def main() -> None:
        expected: list[bytes] = []
        async with transactional(bootstrap, unused_name()) as producer:
            await in_time(producer.init_transactions())

            async def block(value: bytes) -> None:
                async with producer.transaction():
                    await producer.send(topic, value)

            async def scenario(k: int) -> bool:
                cancelled = await cancel_at(k, block(b"cancelled %d" % k))
                refused = ""
                try:
                    await in_time(producer.begin_transaction())
                except IllegalStateError as error:
                    refused = str(error)
                if not refused:
                    await in_time(producer.abort_transaction())
                else:  # The commit had begun and may have succeeded: only repeating the call can tell.
                    assert cancelled and "call commit_transaction() again" in refused
                    await in_time(producer.commit_transaction())
                await in_time(block(b"whole %d" % k))
                expected.append(b"whole %d" % k)
                return cancelled

            assert await at_every_suspension(scenario) >= 1
        found = await committed(bootstrap, topic)
        assert [value for value in found if value.startswith(b"whole")] == expected
        assert len(found) == len(set(found)), "a record is there twice"

    run(main())


def test_a_cancelled_send_offsets_can_be_repeated(bootstrap: str, topic: str, unused_name: Callable[[], str]) -> None:
    async def main() -> None:
        group, partition = unused_name(), TopicPartition(topic, 0)
        async with transactional(bootstrap, unused_name()) as producer:
            await in_time(producer.init_transactions())

            async def scenario(k: int) -> bool:
                await producer.begin_transaction()
                cancelled = await cancel_at(k, producer.send_offsets({partition: k}, group))
                if cancelled:
                    await in_time(producer.send_offsets({partition: k}, group))
                await in_time(producer.commit_transaction())
                async with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
                    found = await in_time(consumer.committed(partition))
                assert found[partition].offset == k
                return cancelled

            assert await at_every_suspension(scenario) >= 1

    run(main())
