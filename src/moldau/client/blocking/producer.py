"""Blocking producer for threads: `from moldau import Producer`.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        future = producer.send("orders", b"value", key=b"key")
        metadata = future.result()

Threads should share one producer, because it puts their records into common batches. `send` does its work in the
calling thread. One event loop thread, shared by all clients of the process, does the rest. Callbacks run in that
thread: they must be quick. They may call `send`, but no method that waits.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import LockType, allocate_lock
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

from moldau.client import arguments
from moldau.client.errors import IllegalStateError, TimedOut
from moldau.client.loop_thread import LoopThread
from moldau.client.metadata import PartitionMetadata
from moldau.client.producer.accumulator import AppendRefusal
from moldau.client.producer.arrow import BlockingArrowCalls
from moldau.client.producer.core import HeadersGiven, PreparedRecord, ProducerCore
from moldau.client.producer.engine import RecordFuture
from moldau.client.producer.futures import DeliveryCallback
from moldau.client.producer.memory import Waiter
from moldau.client.producer.txn.calls import BlockingTransactionCalls


class Producer(BlockingTransactionCalls, BlockingArrowCalls):
    """Sends records to topics. Any number of threads may share one producer.

    Settings have Kafka's names. Give them as keywords (`linger_ms=5`) or as a mapping (`{"linger.ms": 5}`).
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        self._core = core = ProducerCore(settings, keywords)
        self._closed = False
        self._closing = threading.Lock()
        core.slow_path = self._send_later
        self._thread = LoopThread.acquire()
        try:
            self._thread.run(core.start())
        except BaseException:
            self._thread.release()
            raise
        sender, loop = core.sender, self._thread.loop
        assert sender is not None
        core.accumulator.wake = partial(loop.call_soon_threadsafe, sender.run)
        if core.plain:
            # Records need no preparation, so `send` is the accumulator's method: one Python call less per record.
            self.send = core.accumulator.send  # type: ignore[method-assign, assignment]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        headers: HeadersGiven = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> RecordFuture:
        """Add a record to a batch and return a future; its `result()` waits for the record's partition and offset.

        `send` waits at most max.block.ms, and only for the metadata of a new topic or while buffer.memory is full.
        `timestamp` is a datetime with a time zone, or milliseconds since 1970. `headers` is a mapping or pairs of str
        and bytes. The producer calls `on_delivery(metadata, error)` in the loop thread when the result is known; one
        of the two arguments is None.

        An error that `send` itself raises means that the record was not sent: BufferFull, RecordTooLarge,
        SerializationError, UnknownTopicOrPartition, TimedOut if no broker answered, IllegalStateError outside of a
        transaction, ClosedError after `close`. The future raises errors that occur after that.
        """
        core = self._core
        record = core.prepare(topic, value, key, partition, timestamp, headers, on_delivery)
        taken = core.append(record)
        if isinstance(taken, AppendRefusal):
            return self._send_later(taken, record)
        return taken

    def _send_later(self, refusal: AppendRefusal, record: PreparedRecord) -> RecordFuture:
        core = self._core
        deadline = core.clock.monotonic() + core.config.max_block_s
        while True:
            if refusal is AppendRefusal.UNKNOWN_TOPIC:
                self._thread.run(core.await_topic(record.topic, deadline))
            elif refusal is AppendRefusal.BUFFER_FULL:
                return self._when_there_is_memory(record, deadline)
            elif refusal is AppendRefusal.UNKNOWN_PARTITION and record.partition is not None:
                self._thread.run(core.await_partition(record.topic, record.partition, deadline))
            taken = core.append(record)
            if not isinstance(taken, AppendRefusal):
                return taken
            if taken is refusal:
                core.raise_refusal(taken, record)
            refusal = taken

    def _when_there_is_memory(self, record: PreparedRecord, deadline: float) -> RecordFuture:
        if _in_loop(self._thread.loop):
            raise IllegalStateError(
                f"buffer.memory is full, and a callback called `send` to topic {record.topic!r}, but callbacks cannot "
                "wait; send from another thread, or raise buffer.memory"
            )
        core = self._core
        signal = allocate_lock()
        signal.acquire()
        waiter = Waiter(partial(_release, signal))
        core.memory.join(waiter)
        core.wake()
        try:
            while signal.acquire(timeout=max(deadline - core.clock.monotonic(), 0)):
                taken = core.append(record, has_waited=True)
                if not isinstance(taken, AppendRefusal):
                    return taken
                if taken is not AppendRefusal.BUFFER_FULL:
                    core.raise_refusal(taken, record)
            core.raise_refusal(AppendRefusal.BUFFER_FULL, record)
        finally:
            core.memory.leave(waiter)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record that was sent before this call is delivered or has failed.

        Raises TimedOut after `timeout` seconds; the producer still sends the records after that.
        """
        timeout = arguments.seconds("timeout", timeout)
        future = self._thread.submit(self._core.flush())
        try:
            future.result(timeout)
        except TimeoutError:
            raise TimedOut(f"flush: not all records were delivered in {timeout} s; they are still being sent") from None
        finally:
            future.cancel()

    def partitions_for(self, topic: str) -> list[PartitionMetadata]:
        """Return the partitions of a topic with their leaders and replicas.

        Waits at most max.block.ms for the metadata. Raises UnknownTopicOrPartition if the topic does not exist, and
        TimedOut if no broker answered.
        """
        core = self._core
        topic = arguments.text("topic", topic)
        found = self._thread.run(core.network.topic(topic, core.clock.monotonic() + core.config.max_block_s))
        return list(found.partitions)

    def metrics(self) -> dict[str, float]:
        """Return the producer's metrics since its start, with the names that Kafka's producer uses."""
        sender = self._core.sender
        return {} if sender is None else sender.counters.metrics(self._core.accumulator, sender.in_flight)

    def close(self, timeout: float | None = None) -> None:
        """Send the buffered records and close the producer. Calling it again has no effect.

        After `timeout` seconds the records that are left fail with ClosedError. None means no limit other than
        delivery.timeout.ms. An open transaction is aborted, unless its commit has begun or it is prepared.
        """
        timeout = arguments.seconds("timeout", timeout)
        with self._closing:
            if self._closed:
                return
            self._closed = True
            try:
                self._thread.run(self._core.close(timeout))
            finally:
                self._thread.release()


def _release(signal: LockType) -> None:
    if signal.locked():
        signal.release()


def _in_loop(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
