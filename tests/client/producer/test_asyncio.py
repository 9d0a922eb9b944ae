"""Producer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from moldau import errors
from moldau.aio import Producer
from moldau.client.data_types import RecordMetadata
from moldau.client.loop_thread import new_loop
from tests.client.producer.support import PATIENCE_S, values
from tests.support.adversity import AdversityProxy
from tests.support.waiting import loop_turns

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T], loop_factory: Callable[[], Any] = new_loop) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await coroutine

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(bounded())


@pytest.mark.parametrize("loop_factory", [new_loop, asyncio.new_event_loop])
def test_send_is_awaited_for_the_buffer_and_its_result_for_the_offset(
    bootstrap: str, topic: str, loop_factory: Callable[[], Any]
) -> None:
    async def main() -> list[RecordMetadata]:
        async with Producer(bootstrap_servers=bootstrap) as producer:
            futures = [await producer.send(topic, b"%d" % i) for i in range(50)]
            return await asyncio.gather(*futures)

    assert [metadata.offset for metadata in run(main(), loop_factory)] == list(range(50))
    assert values(bootstrap, topic) == [b"%d" % i for i in range(50)]


def test_many_tasks_share_a_producer(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap, batch_size=500, buffer_memory=2_000) as producer:

            async def send(task: int) -> None:
                for i in range(50):
                    await producer.send(topic, b"%d-%d" % (task, i) + b"." * 100)

            await asyncio.gather(*(send(task) for task in range(8)))
            await producer.flush(PATIENCE_S)
            assert producer.metrics()["record-send-total"] == 400

    run(main())
    stored = [value.rstrip(b".") for value in values(bootstrap, topic) if value is not None]
    for task in range(8):
        mine = [value for value in stored if value.startswith(b"%d-" % task)]
        assert mine == [b"%d-%d" % (task, i) for i in range(50)]


def test_a_cancelled_send_that_waits_leaves_the_producer_usable(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        with AdversityProxy(bootstrap) as proxy:
            async with Producer(bootstrap_servers=proxy.bootstrap, buffer_memory=1_000) as producer:
                await (await producer.send(topic, b"first"))
                with proxy.black_hole():
                    for _ in range(5):
                        await producer.send(topic, b"x" * 150)
                    waiting = asyncio.create_task(producer.send(topic, b"cancelled" * 50))
                    await loop_turns()
                    waiting.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await waiting
                assert (await (await producer.send(topic, b"last"))).offset == 6

    run(main())
    assert values(bootstrap, topic)[-1] == b"last"


def test_cancelled_waiting_for_a_record_does_not_touch_the_record(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(bootstrap_servers=bootstrap, linger_ms=200) as producer:
            future = await producer.send(topic, b"x")
            waiting = asyncio.create_task(_result(future))
            await loop_turns()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await future).offset == 0

    run(main())


async def _result(future: Any) -> RecordMetadata:
    metadata: RecordMetadata = await future
    return metadata


def test_a_producer_that_is_not_started_raises(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        producer = Producer(bootstrap_servers=bootstrap)
        with pytest.raises(errors.IllegalStateError, match="async with"):
            await producer.send(topic, b"x")
        await producer.start()
        await producer.close()
        await producer.close()
        with pytest.raises(errors.ClosedError):
            await producer.send(topic, b"x")

    run(main())


def test_a_producer_that_was_never_started_can_be_closed(bootstrap: str) -> None:
    async def main() -> None:
        await Producer(bootstrap_servers=bootstrap).close()

    run(main())
