"""Record accumulator: one open batch per partition, filled by many threads and emptied by one event loop.

This is the readable twin of `_accumulator.pyx`, with the same names and the same results; `engine.py` chooses one.

`send` does its work in the caller's thread: it chooses the partition, writes the record into the partition's open batch
and returns its future. One lock protects all state. Code under the lock never waits and never calls foreign code. A
full batch is added to the queue of sealed batches before the lock is released, so that batches are sent in the order in
which they were filled. After that `send` wakes the loop, once for any number of records.

The loop calls `collect` for the partitions that have something to send: a full batch, or an open batch whose linger
time is over. It takes batches one by one (`take`) when it can send them. Until then records are still added to an open
batch that is due: under load batches become larger, not more.

Memory is counted in bytes of records, from `send` until a batch is delivered or has failed. While one caller waits for
memory, later callers wait after it (`memory_wanted`).
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from enum import IntEnum
from threading import Lock
from typing import Any, Final

from moldau.client.data_types import RecordMetadata
from moldau.client.errors import MoldauError
from moldau.client.producer import futures
from moldau.client.producer.futures import DeliveryCallback
from moldau.client.producer.partitioners import partition_of_key
from moldau.host.clock import Clock, SystemClock, SystemRandomness
from moldau.records.batch_layout import HEADER_SIZE, NO_SEQUENCE, Bytes
from moldau.records.engine import RecordsBuilder

MOST_RECORD_OVERHEAD: Final = 36
"""The largest size of a record without key, value and headers: seven varints of full length and the attributes."""

MOST_HEADER_OVERHEAD: Final = 10
"""The largest size of the two lengths of a header."""

NEVER: Final = float("inf")


class AppendRefusal(IntEnum):
    """The reason why `append` did not add a record. The producer waits or raises."""

    UNKNOWN_TOPIC = 1
    UNKNOWN_PARTITION = 2
    BUFFER_FULL = 3
    TOO_LARGE = 4
    CLOSED = 5
    NOT_BYTES = 6
    BAD_TIMESTAMP = 7
    WRONG_TYPE = 8
    """The topic is not a str, a number is not an int (a timestamp may be a datetime), or a callback not callable."""


class RecordFuture:
    """The result of one record: its partition and offset, or its error. `send` returns it; it can also be awaited."""

    __slots__ = ("batch", "index", "timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self.batch = batch
        self.index = index
        self.timestamp = timestamp

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the record's result and return its partition, offset and timestamp.

        Raises the error if the record was not delivered, and TimedOut after `timeout` seconds without a result.
        """
        return futures.result(self, timeout)

    def exception(self, timeout: float | None = None) -> MoldauError | None:
        """Wait like `result` and return the error of the record, or None if it was delivered."""
        return futures.exception(self, timeout)

    def done(self) -> bool:
        """Whether the record is delivered or has failed."""
        return futures.is_done(self)

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Call `callback(future)` in the producer's loop when the future is done, or at once if it is done already."""
        futures.call_back(self, callback)

    def cancel(self) -> bool:
        """Return False: a record that `send` has accepted cannot be cancelled."""
        return False

    def cancelled(self) -> bool:
        """Return False: a record that `send` has accepted cannot be cancelled."""
        return False

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return futures.awaiting(self)


class Batch:
    """Records of one partition that are sent together and have one result."""

    __slots__ = (
        "_builder", "_callbacks", "_filled", "_waiters", "accumulator", "attempts", "base_offset", "base_timestamp",
        "body", "count", "created_at", "done", "due", "error", "in_doubt", "log_append_time", "max_timestamp", "memory",
        "open", "parts", "producer_epoch", "producer_id", "queue", "sequence", "size", "written_at",
    )  # fmt: skip

    def __init__(self, accumulator: Accumulator, queue: PartitionQueue, created_at: float) -> None:
        self.accumulator = accumulator
        self.queue = queue
        self.created_at = created_at
        self._builder: RecordsBuilder | None = RecordsBuilder()
        self._filled: bytes | None = None
        self.count = 0
        self.size = HEADER_SIZE
        self.memory = 0  # counted against buffer.memory until the batch is delivered or has failed
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.open = True
        self.due = False  # the linger time is over: it is taken even if it is not full
        self.done = False
        self.error: MoldauError | None = None
        self.base_offset = -1
        self.log_append_time = -1
        self.parts: list[tuple[int, Batch]] = []
        self._waiters: list[Callable[[], object]] = []
        self._callbacks: list[tuple[RecordFuture, DeliveryCallback]] = []
        # State of the sender; the accumulator does not use it.
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = NO_SEQUENCE
        self.attempts = 0
        self.in_doubt = False
        self.body: Bytes | None = None
        self.written_at = 0.0

    def add(
        self,
        timestamp: int,
        key: Bytes | None,
        value: Bytes | None,
        headers: Iterable[tuple[str, Bytes | None]] = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> RecordFuture:
        """Write one record. The caller holds the lock, or has created the batch and not shared it yet."""
        builder = self._builder
        assert builder is not None
        future = RecordFuture(self, self.count, timestamp)
        grown = HEADER_SIZE + builder.append(self.count, timestamp, key, value, headers)
        self.memory += grown - self.size
        self.size = grown
        self.count += 1
        if self.count == 1:
            self.base_timestamp = timestamp
        self.max_timestamp = builder.max_timestamp
        if on_delivery is not None:
            self._callbacks.append((future, on_delivery))
        return future

    def fill(self, records: bytes, count: int, base_timestamp: int, max_timestamp: int) -> None:
        """Set the encoded records of a new batch that is not shared yet. No more records can be added to it."""
        self._filled = records
        self.count = count
        self.memory = len(records)
        self.size = HEADER_SIZE + len(records)
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp

    def records(self) -> Bytes:
        """The encoded records, uncompressed and without the batch header. Empty when the batch is done."""
        if self._filled is not None:
            return self._filled
        return b"" if self._builder is None else self._builder.records()

    def callbacks(self) -> list[tuple[RecordFuture, DeliveryCallback]]:
        """The future and callback of each record that has a callback."""
        return self._callbacks

    def add_waiter(self, waiter: Callable[[], object]) -> bool:
        """Call `waiter` when the batch is done or split. Return False if it already is."""
        with self.accumulator.lock:
            if self.done or self.parts:
                return False
            self._waiters.append(waiter)
            return True

    def complete(self, base_offset: int, log_append_time: int = -1) -> None:
        """The batch is delivered."""
        self._finish(base_offset, log_append_time, None)

    def fail(self, error: MoldauError) -> None:
        """The batch has failed and is not sent again."""
        self._finish(-1, -1, error)

    def split(self, parts: Sequence[Batch]) -> None:
        """Replace the batch by parts that have its records in the same order. Its waiters look for the parts."""
        first = 0
        found: list[tuple[int, Batch]] = []
        for part in parts:
            found.append((first, part))
            first += part.count
        with self.accumulator.lock:
            self.parts = found
            self.accumulator.incomplete.pop(self, None)
            self.accumulator.incomplete.update(dict.fromkeys(parts))
            waiters, self._waiters = self._waiters, []
            self.accumulator.memory_used += sum(part.memory for part in parts) - self.memory
            self.memory = 0
            self._builder = self._filled = self.body = None
        futures.run_waiters(waiters)

    def _finish(self, base_offset: int, log_append_time: int, error: MoldauError | None) -> None:
        with self.accumulator.lock:
            if self.done:
                return
            self.base_offset = base_offset
            self.log_append_time = log_append_time
            self.error = error
            self.done = True
            self.accumulator.memory_used -= self.memory
            self.accumulator.incomplete.pop(self, None)
            self._builder = self._filled = self.body = None
            waiters, self._waiters = self._waiters, []
            callbacks, self._callbacks = self._callbacks, []
        futures.run_waiters(waiters)
        if callbacks:
            futures.run_callbacks(self, callbacks)


class PartitionQueue:
    """The batches of a partition that are not taken yet: the full ones in order, and the open one."""

    __slots__ = ("index", "open_batch", "ready", "sealed", "sender_state", "topic")

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.sealed: deque[Batch] = deque()
        self.open_batch: Batch | None = None
        self.ready = False  # `collect` has named it, or will, and not all batches are taken
        self.sender_state: Any = None  # PartitionSendState of the sender


class TopicQueues:
    """The partitions of a topic, and the sticky partition for records without a key."""

    __slots__ = ("available", "count", "name", "queues", "sticky", "sticky_bytes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.queues: list[PartitionQueue] = []
        self.available: list[int] = []
        self.sticky = -1
        self.sticky_bytes = 0

    def update(self, count: int, available: Sequence[int]) -> None:
        """The topic has `count` partitions, and those `available` have a leader."""
        for index in range(len(self.queues), count):
            self.queues.append(PartitionQueue(self.name, index))
        self.count = count
        self.available = list(available) or list(range(count))
        if self.sticky not in self.available:
            self.sticky = -1


class Accumulator:
    """All batches of one producer that are not sent yet, and its memory count."""

    def __init__(
        self,
        batch_size: int,
        linger_s: float,
        memory_limit: int,
        max_request_size: int,
        wake: Callable[[], object],
        slow_path: Callable[..., RecordFuture],
        ignore_keys: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.batch_size = max(batch_size, 1)
        self.linger_s = linger_s
        self.memory_limit = memory_limit
        self.max_request_size = max_request_size
        self.ignore_keys = ignore_keys
        self.lock = Lock()
        self.memory_used = 0
        self.memory_wanted = False
        """A caller waits for memory: open batches do not linger, and later callers wait after it."""
        self.closed = False
        self.incomplete: dict[Batch, None] = {}
        """Batches that are neither delivered nor failed, in the order of their creation."""
        self.topics: dict[str, TopicQueues] = {}
        self.wake = wake
        """Called by the sending thread, without the lock, when the loop has something to do."""
        self._slow_path = slow_path
        self._clock = clock or SystemClock()
        self._idle: dict[str, TopicQueues] = {}
        self._ready: list[PartitionQueue] = []
        self._lingering: deque[Batch] = deque()
        self._woken = False  # `wake` was called and `collect` not yet
        self._timer_set = False  # the loop has a timer for the first lingering batch
        self._chance = SystemRandomness().random

    # -- called by any thread --------------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Bytes | None = None,
        key: Bytes | None = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, Bytes | None]] = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> RecordFuture:
        """Append the record. If it is refused, return what the producer's slow path returns."""
        taken = self.append(topic, value, key, partition, timestamp, headers, on_delivery)
        if isinstance(taken, AppendRefusal):
            return self._slow_path(taken, topic, value, key, partition, timestamp, headers, on_delivery)
        return taken

    def append(
        self,
        topic: str,
        value: Bytes | None,
        key: Bytes | None,
        partition: int | None,
        timestamp: int | None,
        headers: Iterable[tuple[str, Bytes | None]],
        on_delivery: DeliveryCallback | None,
        has_waited: bool = False,
    ) -> RecordFuture | AppendRefusal:
        """Add one record to the open batch of its partition, or return the reason why not. Never waits."""
        if not isinstance(topic, str):
            return AppendRefusal.WRONG_TYPE  # type: ignore[unreachable]
        if on_delivery is not None and not callable(on_delivery):
            return AppendRefusal.WRONG_TYPE  # type: ignore[unreachable]
        try:
            listed = list(headers)
            most = MOST_RECORD_OVERHEAD + size_of(key) + size_of(value)
            most += sum(MOST_HEADER_OVERHEAD + len(name.encode()) + size_of(content) for name, content in listed)
        except (TypeError, ValueError, AttributeError):
            return AppendRefusal.NOT_BYTES
        try:
            timestamp = None if timestamp is None else operator.index(timestamp)
            partition = None if partition is None else operator.index(partition)
        except TypeError:
            return AppendRefusal.WRONG_TYPE
        if timestamp is None:
            timestamp = self._clock.now_ms()
        elif not 0 <= timestamp < 1 << 63:
            return AppendRefusal.BAD_TIMESTAMP
        if HEADER_SIZE + most > self.max_request_size or most > self.memory_limit:
            return AppendRefusal.TOO_LARGE
        with self.lock:
            if self.closed:
                return AppendRefusal.CLOSED
            topic_queues = self.topics.get(topic)
            if topic_queues is None:
                return AppendRefusal.UNKNOWN_TOPIC
            if self.memory_used + most > self.memory_limit or (self.memory_wanted and not has_waited):
                return AppendRefusal.BUFFER_FULL
            if partition is None:
                partition = self._choose(topic_queues, key, most)
            if not 0 <= partition < topic_queues.count:
                return AppendRefusal.UNKNOWN_PARTITION
            queue = topic_queues.queues[partition]
            batch = queue.open_batch
            news = False
            if batch is not None and batch.size + most > self.batch_size:
                self._seal(queue, batch)
                batch, news = None, True
            if batch is None:
                batch = self._open(queue)
                news = news or not self._timer_set
            before = batch.memory
            future = batch.add(timestamp, key, value, listed, on_delivery)
            self.memory_used += batch.memory - before
            if partition == topic_queues.sticky:
                topic_queues.sticky_bytes += batch.memory - before
            if batch.size >= self.batch_size:
                self._seal(queue, batch)
                news = True
            wake = news and not self._woken
            if wake:
                self._woken = True
        if wake:
            self.wake()
        return future

    def _choose(self, queues: TopicQueues, key: Bytes | None, size: int) -> int:
        if key is not None and not self.ignore_keys:
            return partition_of_key(key, queues.count) if queues.count else -1
        if queues.sticky < 0 or self._has_had_its_batch(queues, size):
            if not queues.available:
                return -1
            queues.sticky = queues.available[int(self._chance() * len(queues.available))]
            queues.sticky_bytes = 0
        return queues.sticky

    def _has_had_its_batch(self, queues: TopicQueues, size: int) -> bool:
        """Whether the sticky partition got batch.size bytes, or its batch is full: then another one is chosen."""
        batch = queues.queues[queues.sticky].open_batch
        filled = (
            queues.sticky_bytes + HEADER_SIZE if batch is None else max(queues.sticky_bytes + HEADER_SIZE, batch.size)
        )
        return filled + size > self.batch_size

    def _open(self, queue: PartitionQueue) -> Batch:
        batch = queue.open_batch = Batch(self, queue, self._clock.monotonic())
        self.incomplete[batch] = None
        self._lingering.append(batch)
        return batch

    def _seal(self, queue: PartitionQueue, batch: Batch) -> None:
        batch.open = False
        queue.open_batch = None
        queue.sealed.append(batch)
        self._make_ready(queue)

    def _make_ready(self, queue: PartitionQueue) -> None:
        if not queue.ready:
            queue.ready = True
            self._ready.append(queue)

    # -- called by the loop ----------------------------------------------------------------------------------------

    def know_topic(self, name: str, count: int, available: Sequence[int]) -> None:
        """Set the partition count of a new or changed topic, and its partitions that have a leader."""
        with self.lock:
            queues = self.topics.get(name) or self._idle.pop(name, None) or TopicQueues(name)
            queues.update(count, available)
            self.topics[name] = queues

    def forget_topic(self, name: str) -> bool:
        """Remove an idle topic, so that the next `send` requests its metadata. Return False if it has records.

        Its partitions are kept aside, because their sequence numbers must continue when the topic is used again.
        """
        with self.lock:
            queues = self.topics.get(name)
            if queues is not None and any(queue.open_batch or queue.sealed for queue in queues.queues):
                return False
            if queues is not None:
                self._idle[name] = self.topics.pop(name)
            return True

    def unfinished(self) -> list[Batch]:
        """All batches that are neither delivered nor failed, in the order of their creation."""
        with self.lock:
            return list(self.incomplete)

    def renew_lock(self) -> None:
        """Replace the lock in a forked child, in which the thread that held it does not exist."""
        self.lock = Lock()

    def oldest(self, queue: PartitionQueue) -> float:
        """The creation time of the partition's first batch."""
        with self.lock:
            if queue.sealed:
                return queue.sealed[0].created_at
            return NEVER if queue.open_batch is None else queue.open_batch.created_at

    def collect(self, now: float) -> tuple[list[PartitionQueue], float]:
        """Return the partitions that became ready since the last call, and the time when the next one will.

        A partition is returned once. It is returned again after `take` has emptied it and new records are ready.
        """
        with self.lock:
            self._woken = False
            lingering = self._lingering
            while lingering:
                first = lingering[0]
                if first.open:
                    if first.created_at + self.linger_s > now and not self.memory_wanted:
                        break
                    first.due = True
                    self._make_ready(first.queue)
                lingering.popleft()
            self._timer_set = bool(lingering)
            ready, self._ready = self._ready, []
            return ready, lingering[0].created_at + self.linger_s if lingering else NEVER

    def hurry(self) -> None:
        """End all linger times, for `flush`. The next `collect` returns all partitions that have records."""
        with self.lock:
            for batch in self._lingering:
                if batch.open:
                    batch.due = True
                    self._make_ready(batch.queue)
            self._lingering.clear()

    def take(self, queue: PartitionQueue, even_if_not_due: bool = False) -> Batch | None:
        """Return the partition's next full batch, otherwise the open one if it is due, otherwise None."""
        with self.lock:
            batch = queue.open_batch
            if queue.sealed:
                taken: Batch | None = queue.sealed.popleft()
            elif batch is not None and (batch.due or even_if_not_due):
                taken = batch
                batch.open = False
                queue.open_batch = None
            else:
                taken = None
            queue.ready = bool(queue.sealed) or (queue.open_batch is not None and queue.open_batch.due)
            return taken

    def new_batch(self, queue: PartitionQueue, created_at: float) -> Batch:
        """Return a batch that `send` does not write to, for `send_batch` and for splits. `put` queues it."""
        batch = Batch(self, queue, created_at)
        batch.open = False
        return batch

    def put(self, batch: Batch) -> bool:
        """Queue a batch after all earlier records of its partition. Return False if memory is full.

        If no memory is used, a batch of any size is accepted, so that one larger than buffer.memory can be sent too.
        """
        with self.lock:
            if self.memory_used and self.memory_used + batch.memory > self.memory_limit:
                return False
            self.memory_used += batch.memory
            self.incomplete[batch] = None
            queue = batch.queue
            if queue.open_batch is not None:
                self._seal(queue, queue.open_batch)
            self._seal(queue, batch)
            wake = not self._woken
            self._woken = True
        if wake:
            self.wake()
        return True


def size_of(content: Bytes | None) -> int:
    return 0 if content is None else content.nbytes if isinstance(content, memoryview) else len(memoryview(content))
