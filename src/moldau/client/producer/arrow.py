"""`send_batch`: the rows of an Arrow table as records, encoded in C, with one future for all of them.

Columns are found, every row is checked and given its partition before the first one is taken, so that a table that
cannot be sent is refused as a whole. Then rows are written into batches of ARROW_BATCH_BYTES, which join the queues of
their partitions behind all that was sent before; where buffer.memory is full, the call waits for room, at most
max.block.ms for each batch.

Serialisers and interceptors are for records one by one and have no part in this: columns are bytes or text already. A
partitioner of the application's own is asked for every row that does not name its partition, one by one and slowly.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import allocate_lock
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from moldau.client.errors import (
    BufferFull,
    ClosedError,
    IllegalStateError,
    MoldauError,
    RecordTooLarge,
    SerializationError,
    TimedOut,
    error_for,
)
from moldau.client.own_errors import another
from moldau.client.producer.engine import Batch
from moldau.client.producer.memory import Waiter
from moldau.client.producer.partitioners import PartitionChoice
from moldau.host.clock import SystemClock, SystemRandomness
from moldau.records.arrow_encode import ColumnNames, InputRows, partitions_of, rows_of
from moldau.records.arrow_encode_reference import cell_of
from moldau.records.arrow_engine import RowEncoder, check_rows
from moldau.records.arrow_model import NO_SUCH_PARTITION, TOO_LARGE, EncodedRows, RowError
from moldau.records.model import HEADER_SIZE, Bytes
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.client.loop_thread import LoopThread
    from moldau.client.producer.core import ProducerCore

__all__ = ["AioArrowCalls", "BatchFuture", "BatchMetadata", "BlockingArrowCalls"]

ARROW_BATCH_BYTES: Final = 256 * 1024
"""Batches of rows are this large, or batch.size if that is larger: each is a request of its own to its partition."""

_clock = SystemClock()
_randomness = SystemRandomness()


# -- what comes of it --------------------------------------------------------------------------------------------------


class BatchMetadata(NamedTuple):
    """Where the rows of one `send_batch` are."""

    topic: str
    rows: int
    first_offsets: dict[int, int]
    """The offset of the first row in each partition that got any; -1 where the broker did not tell (acks=0)."""


class BatchFuture:
    """The fate of all rows of one `send_batch`. They may be in many batches: it is known when the last one's is."""

    __slots__ = ("_batches", "rows", "topic")

    def __init__(self, topic: str, rows: int, batches: list[Batch]) -> None:
        self.topic = topic
        self.rows = rows
        self._batches = batches

    def result(self, timeout: float | None = None) -> BatchMetadata:
        """Where the rows are; waits for it, and raises what went wrong. TimedOut after `timeout` seconds."""
        self._wait(timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> MoldauError | None:
        """What went wrong first, or None; waits like `result`."""
        self._wait(timeout)
        return next((batch.error for batch in self._leaves() if batch.error is not None), None)

    def done(self) -> bool:
        return all(batch.done for batch in self._leaves())

    def add_done_callback(self, callback: Callable[[BatchFuture], object]) -> None:
        """Call it with this future once it is done: in the producer's loop, or at once if it is."""
        self._when_done(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, BatchMetadata]:
        if not self.done():
            loop = asyncio.get_running_loop()
            here = threading.get_ident()
            arrived: asyncio.Future[None] = loop.create_future()

            def arrive() -> None:
                if not arrived.done():
                    arrived.set_result(None)

            def tell() -> None:
                if threading.get_ident() == here:
                    arrive()
                    return
                try:
                    loop.call_soon_threadsafe(arrive)
                except RuntimeError:
                    pass  # that loop was closed: nobody waits any more

            self._when_done(tell)
            yield from arrived
        return self._outcome()

    def _leaves(self) -> Iterator[Batch]:
        """The batches that really left, in order: one that was too large for the broker was cut into parts."""
        left = list(reversed(self._batches))
        while left:
            batch = left.pop()
            if batch.parts:
                left.extend(part for _, part in reversed(batch.parts))
            else:
                yield batch

    def _when_done(self, callback: Callable[[], object]) -> None:
        while (unknown := next((batch for batch in self._leaves() if not batch.done), None)) is not None:
            if unknown.add_waiter(lambda: self._when_done(callback)):
                return
        callback()

    def _wait(self, timeout: float | None) -> None:
        signal = allocate_lock()
        signal.acquire()
        self._when_done(signal.release)
        if not signal.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise TimedOut(
                f"no answer about all of {self.rows} rows for {self.topic!r} in {timeout} s; they are still being "
                "sent: wait longer, or for delivery.timeout.ms to decide"
            )

    def _outcome(self) -> BatchMetadata:
        first_offsets: dict[int, int] = {}
        failed, error = 0, None
        for batch in self._leaves():
            if batch.error is not None:
                failed += batch.count
                error = error or batch.error
            first_offsets.setdefault(batch.queue.index, batch.base_offset)
        if error is not None:
            raised = another(error)
            raised.add_note(f"{failed} of {self.rows} rows for topic {self.topic!r} were not delivered")
            raise raised
        return BatchMetadata(self.topic, self.rows, first_offsets)


# -- rows on their way in ----------------------------------------------------------------------------------------------


class RowsToSend:
    """The rows of one `send_batch`, checked, then encoded batch by batch."""

    def __init__(self, core: ProducerCore, topic: str, data: pa.Table | pa.RecordBatch, names: ColumnNames) -> None:
        if core.sender is None:
            raise IllegalStateError("the producer was not started: use `async with`, or await `start()`")
        core.transactions.check_send()
        self._core = core
        self._topic = topic
        config = core.config
        now = _clock.now_ms()
        self._batch_bytes = min(max(config.batch_size, ARROW_BATCH_BYTES), config.max_request_size)
        most = min(config.max_request_size, config.buffer_memory) - HEADER_SIZE
        try:
            self._pieces = rows_of(data, names, now)
            for rows in self._pieces:
                check_rows(rows.cells, rows.first_row, most)
        except (TypeError, ValueError) as error:
            self._refuse(error)
        self.rows = sum(rows.cells.rows for rows in self._pieces)
        self.taken = 0
        self._timestamp = now
        self._chosen: list[Bytes | None] = []
        self._batches: list[Batch] = []

    def _refuse(self, error: Exception) -> NoReturn:
        what = f"send_batch to topic {self._topic!r}: {error}"
        if isinstance(error, RowError) and error.fault == TOO_LARGE:
            raise RecordTooLarge(
                f"{what}; send less, or raise max.request.size, buffer.memory and the topic's max.message.bytes",
                ErrorCode.MESSAGE_TOO_LARGE,
            ) from None
        if isinstance(error, RowError) and error.fault == NO_SUCH_PARTITION:
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what) from None
        raise SerializationError(what) from error

    def choose_partitions(self) -> RowError | None:
        """Choose the partition of every row of a topic that is known; gives why that cannot be done yet."""
        self._check_open()
        queues = self._core.accumulator.topics[self._topic]
        try:
            self._choose(queues.count, queues.available)
        except RowError as error:
            return error
        return None

    @property
    def topic_is_known(self) -> bool:
        return self._topic in self._core.accumulator.topics

    async def await_partitions(self, deadline: float) -> None:
        """Wait until the topic, and all of its partitions that rows name, are known."""
        core = self._core
        while not self.topic_is_known:
            self._check_open()
            await core.await_topic(self._topic, deadline)
        missing = self.choose_partitions()
        if missing is not None:
            # The topic may have grown since it was last looked at.
            await core.await_partition(self._topic, missing.found, deadline)
            missing = self.choose_partitions()
        if missing is not None:
            self._refuse(missing)

    def _choose(self, count: int, available: list[int]) -> None:
        by_key = not self._core.config.ignore_keys
        self._chosen = []
        for rows in self._pieces:
            if self._core.partitioner is not None:
                self._chosen.append(self._ask_partitioner(rows, count, available))
            else:
                self._chosen.append(partitions_of(rows, count, by_key))
        self._count = count

    def _ask_partitioner(self, rows: InputRows, count: int, available: list[int]) -> Bytes:
        partitioner = self._core.partitioner
        assert partitioner is not None
        given = partitions_of(rows._replace(cells=rows.cells._replace(key=None)), count)
        chosen = bytearray(4 * rows.cells.rows) if given is None else bytearray(given)
        partitions = memoryview(chosen).cast("i")
        choice = PartitionChoice(count, available)
        for row in range(rows.cells.rows):
            if given is None or partitions[row] < 0:
                key = None if rows.cells.key is None else cell_of(rows.cells.key, row)
                value = None if rows.cells.value is None else cell_of(rows.cells.value, row)
                partition = partitioner.partition(self._topic, key, key, value, value, choice)
                if not 0 <= partition < count:
                    raise RowError(NO_SUCH_PARTITION, rows.first_row + row, partition, count)
                partitions[row] = partition
        return chosen

    def batches(self) -> Iterator[Batch]:
        """Encode while batches are asked for. Each has to be put, or the call given up."""
        encoder = RowEncoder(self._count, self._batch_bytes, self._timestamp)
        encoder.sticky = self._any_partition()
        for rows, partitions in zip(self._pieces, self._chosen, strict=True):
            row = 0
            while row < rows.cells.rows:
                row = encoder.encode(rows.cells, partitions, row)
                full = encoder.take_full()
                if full is not None:
                    yield self._batch(full)
                    if full.partition == encoder.sticky:
                        encoder.sticky = self._any_partition()
        for rest in encoder.flush():
            yield self._batch(rest)

    def _any_partition(self) -> int:
        """For rows that may go anywhere: one that has a leader now."""
        queues = self._core.accumulator.topics.get(self._topic)
        available = queues.available if queues is not None else range(self._count)
        return available[int(_randomness.random() * len(available))]

    def _batch(self, encoded: EncodedRows) -> Batch:
        self._check_open()
        accumulator = self._core.accumulator
        batch = accumulator.new_batch(self._queues[encoded.partition], _clock.monotonic())
        batch.fill(encoded.records, encoded.count, encoded.base_timestamp, encoded.max_timestamp)
        return batch

    @property
    def _queues(self) -> Any:
        return self._core.accumulator.topics[self._topic].queues

    def _check_open(self) -> None:
        if self._core.accumulator.closed:
            raise ClosedError(f"the producer is closed: {self.rows} rows for topic {self._topic!r} cannot be sent")

    def put(self, batch: Batch) -> bool:
        """Queue it; False where there is no memory for it now."""
        if not self._core.accumulator.put(batch):
            return False
        self._batches.append(batch)
        self.taken += batch.count
        return True

    async def put_when_there_is_room(self, batch: Batch) -> None:
        core = self._core
        loop = asyncio.get_running_loop()
        signal = asyncio.Event()
        waiter = Waiter(lambda: loop.call_soon_threadsafe(signal.set))
        core.memory.join(waiter)
        core.wake()
        try:
            async with asyncio.timeout(core.config.max_block_s):
                while not self.put(batch):
                    await signal.wait()
                    signal.clear()
                    self._check_open()
        except TimeoutError:
            raise BufferFull(
                f"no memory for rows for topic {self._topic!r} in max.block.ms ({core.config.max_block_s:g} s): "
                f"buffer.memory ({core.config.buffer_memory}) is full. {self.taken} of {self.rows} rows were taken and "
                "are being sent, the others are not"
            ) from None
        finally:
            core.memory.leave(waiter)

    def future(self) -> BatchFuture:
        return BatchFuture(self._topic, self.rows, self._batches)


# -- as applications call it -------------------------------------------------------------------------------------------


class AioArrowCalls:
    """The columnar part of the producer for asyncio."""

    _core: ProducerCore

    async def send_batch(
        self,
        topic: str,
        data: pa.Table | pa.RecordBatch,
        *,
        value: str | None = "value",
        key: str | None = None,
        timestamp: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
    ) -> BatchFuture:
        """Give all rows to the producer; await what it returns for where they are. Names are those of columns.

        Keys and values are binary or text; timestamps are Arrow's, or milliseconds; headers list<struct<key, value>> or
        a map. A row without a partition goes where its key's hash says, without a key to any. Raises what keeps the
        rows from being taken, before any of them is.
        """
        rows = RowsToSend(self._core, topic, data, ColumnNames(value, key, timestamp, headers, partition))
        await rows.await_partitions(asyncio.get_running_loop().time() + self._core.config.max_block_s)
        for batch in rows.batches():
            if not rows.put(batch):
                await rows.put_when_there_is_room(batch)
        return rows.future()


class BlockingArrowCalls:
    """The columnar part of the blocking producer."""

    _core: ProducerCore
    _thread: LoopThread

    def send_batch(
        self,
        topic: str,
        data: pa.Table | pa.RecordBatch,
        *,
        value: str | None = "value",
        key: str | None = None,
        timestamp: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
    ) -> BatchFuture:
        """Give all rows to the producer. `result()` of what it returns waits for where they are. Names are of columns.

        Keys and values are binary or text; timestamps are Arrow's, or milliseconds; headers list<struct<key, value>> or
        a map. A row without a partition goes where its key's hash says, without a key to any. Raises what keeps the
        rows from being taken, before any of them is.
        """
        rows = RowsToSend(self._core, topic, data, ColumnNames(value, key, timestamp, headers, partition))
        deadline = _clock.monotonic() + self._core.config.max_block_s
        if not rows.topic_is_known or rows.choose_partitions() is not None:
            self._thread.run(rows.await_partitions(deadline))
        for batch in rows.batches():
            if not rows.put(batch):
                self._thread.run(rows.put_when_there_is_room(batch))
        return rows.future()
