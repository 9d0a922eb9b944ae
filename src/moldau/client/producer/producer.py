"""The producer for asyncio: `from moldau.aio import Producer`.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        future = await producer.send("orders", b"value", key=b"key")
        metadata = await future

`await producer.send(...)` gives the record to the producer; it waits only where it must: for the topic's metadata the
first time, and while buffer.memory is full. What it returns is awaited for the broker's answer, or not at all: that a
record failed whose future nobody awaits is told to nobody but its `on_delivery`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from moldau.client.errors import IllegalStateError, TimedOut
from moldau.client.metadata import PartitionMetadata
from moldau.client.producer.accumulator import Refusal
from moldau.client.producer.arrow import AioArrowCalls
from moldau.client.producer.core import HeadersGiven, Prepared, ProducerCore
from moldau.client.producer.engine import RecordFuture
from moldau.client.producer.futures import DeliveryCallback
from moldau.client.producer.memory import Waiter
from moldau.client.producer.transactions_calls import AioTransactionCalls


class Producer(AioTransactionCalls, AioArrowCalls):
    """Sends records to topics. Safe to use by any number of tasks of one loop."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self._core = ProducerCore(settings, keywords)
        self._started = False
        self._closing: asyncio.Task[None] | None = None

    async def start(self) -> Self:
        """Begin; `async with` does it. A broker that is away is no error yet: `send` waits for it."""
        if not self._started:
            self._started = True
            await self._core.start()
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: HeadersGiven | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> RecordFuture:
        """Give a record to the producer; await what it returns for where the record is.

        `timestamp` is in milliseconds since 1970. `on_delivery(metadata, error)` is called in the loop, one of the two
        is None. Raises what keeps the record from being taken at all; nothing was sent then.
        """
        if not self._started:
            raise IllegalStateError("the producer was not started: use `async with`, or await `start()`")
        core = self._core
        record = core.prepare(topic, value, key, partition, timestamp, headers, on_delivery)
        taken = core.append(record)
        if isinstance(taken, Refusal):
            return await self._send_later(taken, record)
        return taken

    async def _send_later(self, refusal: Refusal, record: Prepared) -> RecordFuture:
        core = self._core
        deadline = asyncio.get_running_loop().time() + core.config.max_block_s
        while True:
            if refusal is Refusal.UNKNOWN_TOPIC:
                await core.await_topic(record.topic, deadline)
            elif refusal is Refusal.BUFFER_FULL:
                return await self._when_there_is_memory(record, deadline)
            elif refusal is Refusal.UNKNOWN_PARTITION and record.partition is not None:
                await core.await_partition(record.topic, record.partition, deadline)
            taken = core.append(record)
            if not isinstance(taken, Refusal):
                return taken
            if taken is refusal:
                core.raise_refusal(taken, record)
            refusal = taken

    async def _when_there_is_memory(self, record: Prepared, deadline: float) -> RecordFuture:
        core = self._core
        signal = asyncio.Event()
        waiter = Waiter(signal.set)
        core.memory.join(waiter)
        core.wake()
        try:
            while True:
                async with asyncio.timeout_at(deadline):
                    await signal.wait()
                signal.clear()
                taken = core.append(record, has_waited=True)
                if not isinstance(taken, Refusal):
                    return taken
                if taken is not Refusal.BUFFER_FULL:
                    core.raise_refusal(taken, record)
        except TimeoutError:
            core.raise_refusal(Refusal.BUFFER_FULL, record)
        finally:
            core.memory.leave(waiter)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until all records that were sent before are delivered or given up; TimedOut after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._core.flush()
        except TimeoutError:
            raise TimedOut(f"flush: not all records were delivered in {timeout} s; they are still being sent") from None

    async def partitions_for(self, topic: str) -> list[PartitionMetadata]:
        """The topic's partitions, with their leaders; waits for at most max.block.ms until the topic is known."""
        deadline = asyncio.get_running_loop().time() + self._core.config.max_block_s
        return list((await self._core.network.topic(topic, deadline)).partitions)

    def metrics(self) -> dict[str, float]:
        """Counts since the start, under the names of Kafka's producer."""
        sender = self._core.sender
        return {} if sender is None else sender.counters.metrics(self._core.accumulator, sender.in_flight)

    async def close(self, timeout: float | None = None) -> None:
        """Send what there is, for at most `timeout` seconds; then give up the rest. May be called again."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._core.close(timeout), name="producer: close")
        # Whoever is cancelled while waiting leaves the closing to itself: never half.
        await asyncio.shield(self._closing)
