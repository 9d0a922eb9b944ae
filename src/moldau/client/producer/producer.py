"""Producer for asyncio: `from moldau.aio import Producer`.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        future = await producer.send("orders", b"value", key=b"key")
        metadata = await future

`await producer.send(...)` adds the record to a batch and returns a future. It waits in two cases only: for the metadata
of a topic that is used for the first time, and while buffer.memory is full. Await the future for the broker's answer.
If nobody awaits the future of a record that failed, only its `on_delivery` callback receives the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from moldau.client import arguments
from moldau.client.errors import IllegalStateError, TimedOut
from moldau.client.metadata import PartitionMetadata
from moldau.client.producer.accumulator import AppendRefusal
from moldau.client.producer.arrow import AioArrowCalls
from moldau.client.producer.core import HeadersGiven, PreparedRecord, ProducerCore
from moldau.client.producer.engine import RecordFuture
from moldau.client.producer.futures import DeliveryCallback
from moldau.client.producer.memory import Waiter
from moldau.client.producer.txn.calls import AioTransactionCalls


class Producer(AioTransactionCalls, AioArrowCalls):
    """Sends records to topics. All tasks of one event loop may share one producer.

    Settings have Kafka's names. Give them as keywords (`linger_ms=5`) or as a mapping (`{"linger.ms": 5}`).
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self._core = ProducerCore(settings, keywords)
        self._started = False
        self._closing: asyncio.Task[None] | None = None

    async def start(self) -> Self:
        """Start the producer; `async with` calls this.

        An unreachable broker is not an error here, because `send` waits for a broker.
        """
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
        timestamp: int | datetime | None = None,
        headers: HeadersGiven | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> RecordFuture:
        """Add a record to a batch and return a future; await the future for the record's partition and offset.

        `send` waits at most max.block.ms, and only for the metadata of a new topic or while buffer.memory is full.
        `timestamp` is a datetime with a time zone, or milliseconds since 1970. `headers` is a mapping or pairs of str
        and bytes. The producer calls `on_delivery(metadata, error)` in the event loop when the result is known; one of
        the two arguments is None.

        An error that `send` itself raises means that the record was not sent: BufferFull, RecordTooLarge,
        SerializationError, UnknownTopicOrPartition, TimedOut if no broker answered, IllegalStateError outside of a
        transaction, ClosedError after `close`. The future raises errors that occur after that.
        """
        if not self._started:
            raise IllegalStateError("the producer was not started: use `async with`, or await `start()`")
        core = self._core
        record = core.prepare(topic, value, key, partition, timestamp, headers, on_delivery)
        taken = core.append(record)
        if isinstance(taken, AppendRefusal):
            return await self._send_later(taken, record)
        return taken

    async def _send_later(self, refusal: AppendRefusal, record: PreparedRecord) -> RecordFuture:
        core = self._core
        deadline = asyncio.get_running_loop().time() + core.config.max_block_s
        while True:
            if refusal is AppendRefusal.UNKNOWN_TOPIC:
                await core.await_topic(record.topic, deadline)
            elif refusal is AppendRefusal.BUFFER_FULL:
                return await self._when_there_is_memory(record, deadline)
            elif refusal is AppendRefusal.UNKNOWN_PARTITION and record.partition is not None:
                await core.await_partition(record.topic, record.partition, deadline)
            taken = core.append(record)
            if not isinstance(taken, AppendRefusal):
                return taken
            if taken is refusal:
                core.raise_refusal(taken, record)
            refusal = taken

    async def _when_there_is_memory(self, record: PreparedRecord, deadline: float) -> RecordFuture:
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
                if not isinstance(taken, AppendRefusal):
                    return taken
                if taken is not AppendRefusal.BUFFER_FULL:
                    core.raise_refusal(taken, record)
        except TimeoutError:
            core.raise_refusal(AppendRefusal.BUFFER_FULL, record)
        finally:
            core.memory.leave(waiter)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record that was sent before this call is delivered or has failed.

        Raises TimedOut after `timeout` seconds; the producer still sends the records after that.
        """
        timeout = arguments.seconds("timeout", timeout)
        try:
            async with asyncio.timeout(timeout):
                await self._core.flush()
        except TimeoutError:
            raise TimedOut(f"flush: not all records were delivered in {timeout} s; they are still being sent") from None

    async def partitions_for(self, topic: str) -> list[PartitionMetadata]:
        """Return the partitions of a topic with their leaders and replicas.

        Waits at most max.block.ms for the metadata. Raises UnknownTopicOrPartition if the topic does not exist, and
        TimedOut if no broker answered.
        """
        deadline = asyncio.get_running_loop().time() + self._core.config.max_block_s
        return list((await self._core.network.topic(arguments.text("topic", topic), deadline)).partitions)

    def metrics(self) -> dict[str, float]:
        """Return the producer's metrics since its start, with the names that Kafka's producer uses."""
        sender = self._core.sender
        return {} if sender is None else sender.counters.metrics(self._core.accumulator, sender.in_flight)

    async def close(self, timeout: float | None = None) -> None:
        """Send the buffered records and close the producer. Calling it again has no effect.

        After `timeout` seconds the records that are left fail with ClosedError. None means no limit other than
        delivery.timeout.ms. An open transaction is aborted, unless its commit has begun or it is prepared.
        """
        timeout = arguments.seconds("timeout", timeout)
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._core.close(timeout), name="producer: close")
        # If the calling task is cancelled here, the producer is still closed completely.
        await asyncio.shield(self._closing)
