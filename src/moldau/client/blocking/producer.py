"""The producer for threads: `from moldau import Producer`.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        future = producer.send("orders", b"value", key=b"key")
        metadata = future.result()

Any number of threads may use one producer, and should: it batches for all of them. `send` does its work in the calling
thread; a loop thread, shared by all clients of the process, does the rest. Callbacks run in that thread: they must be
quick, and may call `send`, but nothing that waits.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import LockType, allocate_lock
from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self

from moldau.client.errors import IllegalStateError, TimedOut
from moldau.client.loop_thread import LoopThread
from moldau.client.metadata import PartitionMetadata
from moldau.client.producer.accumulator import Refusal
from moldau.client.producer.arrow import BlockingArrowCalls
from moldau.client.producer.core import HeadersGiven, Prepared, ProducerCore
from moldau.client.producer.engine import RecordFuture
from moldau.client.producer.futures import DeliveryCallback
from moldau.client.producer.memory import Waiter
from moldau.client.producer.transactions_calls import BlockingTransactionCalls


class Producer(BlockingTransactionCalls, BlockingArrowCalls):
    """Sends records to topics. Safe to use by any number of threads."""

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
            # Nothing to be done with records before they are written: `send` is the accumulator's, without a detour.
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
        timestamp: int | None = None,
        headers: HeadersGiven = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> RecordFuture:
        """Give a record to the producer. `result()` of what it returns waits for where the record is.

        It waits only where it must, at most max.block.ms: for the topic's metadata the first time, and while
        buffer.memory is full. `timestamp` is in milliseconds since 1970. `on_delivery(metadata, error)` is called in
        the loop's thread, one of the two is None. Raises what keeps the record from being taken; nothing was sent then.
        """
        core = self._core
        record = core.prepare(topic, value, key, partition, timestamp, headers, on_delivery)
        taken = core.append(record)
        if isinstance(taken, Refusal):
            return self._send_later(taken, record)
        return taken

    def _send_later(self, refusal: Refusal, record: Prepared) -> RecordFuture:
        core = self._core
        deadline = core.clock.monotonic() + core.config.max_block_s
        while True:
            if refusal is Refusal.UNKNOWN_TOPIC:
                self._thread.run(core.await_topic(record.topic, deadline))
            elif refusal is Refusal.BUFFER_FULL:
                return self._when_there_is_memory(record, deadline)
            elif refusal is Refusal.UNKNOWN_PARTITION and record.partition is not None:
                self._thread.run(core.await_partition(record.topic, record.partition, deadline))
            taken = core.append(record)
            if not isinstance(taken, Refusal):
                return taken
            if taken is refusal:
                core.raise_refusal(taken, record)
            refusal = taken

    def _when_there_is_memory(self, record: Prepared, deadline: float) -> RecordFuture:
        if _in_loop(self._thread.loop):
            raise IllegalStateError(
                f"buffer.memory is full, and `send` to {record.topic!r} was called by a callback: it cannot wait there"
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
                if not isinstance(taken, Refusal):
                    return taken
                if taken is not Refusal.BUFFER_FULL:
                    core.raise_refusal(taken, record)
            core.raise_refusal(Refusal.BUFFER_FULL, record)
        finally:
            core.memory.leave(waiter)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all records that were sent before are delivered or given up; TimedOut after `timeout` seconds."""
        future = self._thread.submit(self._core.flush())
        try:
            future.result(timeout)
        except TimeoutError:
            raise TimedOut(f"flush: not all records were delivered in {timeout} s; they are still being sent") from None
        finally:
            future.cancel()

    def partitions_for(self, topic: str) -> list[PartitionMetadata]:
        """The topic's partitions, with their leaders; waits for at most max.block.ms until the topic is known."""
        core = self._core
        found = self._thread.run(core.network.topic(topic, core.clock.monotonic() + core.config.max_block_s))
        return list(found.partitions)

    def metrics(self) -> dict[str, float]:
        """Counts since the start, under the names of Kafka's producer."""
        sender = self._core.sender
        return {} if sender is None else sender.counters.metrics(self._core.accumulator, sender.in_flight)

    def close(self, timeout: float | None = None) -> None:
        """Send what there is, for at most `timeout` seconds; then give up the rest. May be called again."""
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
