"""Where records wait to be sent: a batch for each partition, filled by many threads, emptied by one event loop.

This is the readable twin of `_accumulator.pyx`, with the same names and the same results; `engine.py` picks one.

`send` runs in the caller's thread and does everything there: it chooses the partition, writes the record into the
partition's open batch and returns its future. One lock guards it all; nothing is done under it that could wait or run
someone else's code, and a full batch joins the queue of sealed ones before the lock is released, so that batches leave
in the order in which they were filled. The loop is woken after that, and once, however many records come.

The loop calls `collect` to learn which partitions have something: a full batch, or an open one that has lingered long
enough. It takes batches one by one (`take`), when it can send them. An open batch that is due goes on filling until
then: under load batches get fuller, not more.

Memory is counted in bytes of records, from `send` until a batch's fate is known. Once somebody had to wait for memory,
those who come later wait behind them (`memory_wanted`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from enum import IntEnum
from threading import Lock
from typing import Any, Final

from moldau.client.errors import MoldauError
from moldau.client.model import RecordMetadata
from moldau.client.producer import futures
from moldau.client.producer.futures import DeliveryCallback
from moldau.client.producer.partitioners import partition_of_key
from moldau.host.clock import Clock, SystemClock, SystemRandomness
from moldau.records.engine import RecordsBuilder
from moldau.records.model import HEADER_SIZE, NO_SEQUENCE, Bytes

MOST_RECORD_OVERHEAD: Final = 36
"""All of a record but key, value and headers: seven numbers of variable length and the attributes, at their longest."""

MOST_HEADER_OVERHEAD: Final = 10
"""The two lengths of a header."""

NEVER: Final = float("inf")


class Refusal(IntEnum):
    """Why `append` did not take a record; what to do about it is the producer's business."""

    UNKNOWN_TOPIC = 1
    UNKNOWN_PARTITION = 2
    BUFFER_FULL = 3
    TOO_LARGE = 4
    CLOSED = 5
    NOT_BYTES = 6
    BAD_TIMESTAMP = 7


class RecordFuture:
    """The fate of one record. Made by `send` only."""

    __slots__ = ("batch", "index", "timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self.batch = batch
        self.index = index
        self.timestamp = timestamp

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; waits for it, and raises what went wrong. TimedOut after `timeout` seconds."""
        return futures.result(self, timeout)

    def exception(self, timeout: float | None = None) -> MoldauError | None:
        """What went wrong, or None; waits like `result`."""
        return futures.exception(self, timeout)

    def done(self) -> bool:
        return futures.is_done(self)

    def add_done_callback(self, callback: Callable[[RecordFuture], object]) -> None:
        """Call it with this future once it is done: in the producer's loop, or at once if it is."""
        futures.call_when_done(self, lambda: callback(self))

    def cancel(self) -> bool:
        """A record that was accepted cannot be called back: always False."""
        return False

    def cancelled(self) -> bool:
        return False

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return futures.awaiting(self)


class Batch:
    """Records of one partition that are sent together, and share one fate."""

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
        self.memory = 0  # counted against buffer.memory until the batch's fate is known
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.open = True
        self.due = False  # has lingered long enough: it is taken as it is
        self.done = False
        self.error: MoldauError | None = None
        self.base_offset = -1
        self.log_append_time = -1
        self.parts: list[tuple[int, Batch]] = []
        self._waiters: list[Callable[[], object]] = []
        self._callbacks: list[tuple[RecordFuture, DeliveryCallback]] = []
        # What the sender notes about it; the accumulator does not look at these.
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
        """Write one record. The caller holds the lock, or is alone with a batch that nobody else knows."""
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
        """Take records that were written elsewhere, all that the batch will have. Nobody else knows the batch yet."""
        self._filled = records
        self.count = count
        self.memory = len(records)
        self.size = HEADER_SIZE + len(records)
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp

    def records(self) -> Bytes:
        """What was written, not compressed, without the batch's header. Nothing after it was done."""
        if self._filled is not None:
            return self._filled
        return b"" if self._builder is None else self._builder.records()

    def callbacks(self) -> list[tuple[RecordFuture, DeliveryCallback]]:
        """Future and callback of the records that have one."""
        return self._callbacks

    def add_waiter(self, waiter: Callable[[], object]) -> bool:
        """Have it called once the batch is done or cut into parts; False if it is already."""
        with self.accumulator.lock:
            if self.done or self.parts:
                return False
            self._waiters.append(waiter)
            return True

    def complete(self, base_offset: int, log_append_time: int = -1) -> None:
        """The broker has it."""
        self._finish(base_offset, log_append_time, None)

    def fail(self, error: MoldauError) -> None:
        """It will not be sent, or not again."""
        self._finish(-1, -1, error)

    def split(self, parts: Sequence[Batch]) -> None:
        """Others carry its records from here on, in this order; who waited for it waits for them."""
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
    """A partition's batches that were not taken yet: full ones in order, and the one that is being filled."""

    __slots__ = ("index", "open_batch", "ready", "sealed", "sender_state", "topic")

    def __init__(self, topic: str, index: int) -> None:
        self.topic = topic
        self.index = index
        self.sealed: deque[Batch] = deque()
        self.open_batch: Batch | None = None
        self.ready = False  # the sender was told that there is something to take, and has not taken all of it
        self.sender_state: Any = None  # the sender's own notes


class TopicQueues:
    """A topic's partitions, and the one that records without a key go to at the moment."""

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
    """All batches of one producer that were not sent yet, and the count of its memory."""

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
        """Somebody waits for memory: what lingers must go now."""
        self.closed = False
        self.incomplete: dict[Batch, None] = {}
        """Batches whose fate is not known, in the order of their making."""
        self.topics: dict[str, TopicQueues] = {}
        self.wake = wake
        """Called when the loop has something to look at: without the lock, by whoever sent."""
        self._slow_path = slow_path
        self._clock = clock or SystemClock()
        self._idle: dict[str, TopicQueues] = {}
        self._ready: list[PartitionQueue] = []
        self._lingering: deque[Batch] = deque()
        self._woken = False  # the loop was told and has not looked yet
        self._timer_set = False  # the loop will look when the first lingering batch is due
        self._chance = SystemRandomness().random

    # -- by any thread ---------------------------------------------------------------------------------------------

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
        """`append`, and where that is refused, whatever the producer does about it."""
        taken = self.append(topic, value, key, partition, timestamp, headers, on_delivery)
        if isinstance(taken, Refusal):
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
    ) -> RecordFuture | Refusal:
        """Put one record into its partition's batch, or say why not. Never waits."""
        try:
            listed = list(headers)
            most = MOST_RECORD_OVERHEAD + size_of(key) + size_of(value)
            most += sum(MOST_HEADER_OVERHEAD + len(name.encode()) + size_of(content) for name, content in listed)
        except (TypeError, ValueError, AttributeError):
            return Refusal.NOT_BYTES
        if timestamp is None:
            timestamp = self._clock.now_ms()
        elif not 0 <= timestamp < 1 << 63:
            return Refusal.BAD_TIMESTAMP
        if HEADER_SIZE + most > self.max_request_size or most > self.memory_limit:
            return Refusal.TOO_LARGE
        with self.lock:
            if self.closed:
                return Refusal.CLOSED
            topic_queues = self.topics.get(topic)
            if topic_queues is None:
                return Refusal.UNKNOWN_TOPIC
            if self.memory_used + most > self.memory_limit or (self.memory_wanted and not has_waited):
                return Refusal.BUFFER_FULL
            if partition is None:
                partition = self._choose(topic_queues, key, most)
            if not 0 <= partition < topic_queues.count:
                return Refusal.UNKNOWN_PARTITION
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
        """A batch's worth of bytes went to the sticky partition, or its batch is full: now it is another's turn."""
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

    # -- by the loop -----------------------------------------------------------------------------------------------

    def know_topic(self, name: str, count: int, available: Sequence[int]) -> None:
        """The topic exists, or has changed."""
        with self.lock:
            queues = self.topics.get(name) or self._idle.pop(name, None) or TopicQueues(name)
            queues.update(count, available)
            self.topics[name] = queues

    def forget_topic(self, name: str) -> bool:
        """The topic was not written to for long: the next `send` asks for it anew. False while it has records.

        Its partitions are put aside, not thrown away: the numbers of their records must go on where they were.
        """
        with self.lock:
            queues = self.topics.get(name)
            if queues is not None and any(queue.open_batch or queue.sealed for queue in queues.queues):
                return False
            if queues is not None:
                self._idle[name] = self.topics.pop(name)
            return True

    def unfinished(self) -> list[Batch]:
        """All batches whose fate is not known, in the order of their making."""
        with self.lock:
            return list(self.incomplete)

    def renew_lock(self) -> None:
        """For a forked child, in which nobody is left to release the lock."""
        self.lock = Lock()

    def oldest(self, queue: PartitionQueue) -> float:
        """When the partition's first batch was begun."""
        with self.lock:
            if queue.sealed:
                return queue.sealed[0].created_at
            return NEVER if queue.open_batch is None else queue.open_batch.created_at

    def collect(self, now: float) -> tuple[list[PartitionQueue], float]:
        """Partitions that have something to take since the last call, and when the next one will.

        A partition is named once; it is named again when `take` had left nothing and there is something new.
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
        """Nothing lingers any longer: for `flush`. The next `collect` names all partitions that have records."""
        with self.lock:
            for batch in self._lingering:
                if batch.open:
                    batch.due = True
                    self._make_ready(batch.queue)
            self._lingering.clear()

    def take(self, queue: PartitionQueue, even_if_not_due: bool = False) -> Batch | None:
        """The partition's next batch: a full one, else the open one if it is due. None: nothing is left."""
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
        """A batch that no `send` will touch: for records that come in another way. `put` it when it is full."""
        batch = Batch(self, queue, created_at)
        batch.open = False
        return batch

    def put(self, batch: Batch) -> bool:
        """Queue a batch behind all that was sent to its partition before; False where memory is full.

        A lone batch is taken whatever its size, so that one that is larger than all of the memory can go, too.
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
