"""Columnar sending (`send_batch`): the rows of an Arrow table as records, encoded in C, with one future for all.

The columns and all rows are checked, and each row gets its partition, before the first row is added. A table that
cannot be sent is therefore refused as a whole. Then the rows are written into batches of ARROW_BATCH_BYTES, which are
queued after all earlier records of their partitions. If buffer.memory is full, the call waits at most max.block.ms per
batch.

Serializers and interceptors work per record and are not used here: the columns contain bytes or text already, or become
Avro data as a whole (`row_encoding.py`). A custom partitioner is called for each row without a partition: this is slow.
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from moldau.client import arguments
from moldau.client.client_errors import error_copy
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
from moldau.client.producer.engine import Batch
from moldau.client.producer.futures import wait_in_loop
from moldau.client.producer.memory import Waiter
from moldau.client.producer.partitioners import PartitionChoice
from moldau.client.row_formats import RowFormat
from moldau.host.clock import SystemClock, SystemRandomness
from moldau.records.arrow_encode import ColumnNames, InputRows, Tabular, partitions_of, rows_of
from moldau.records.arrow_encode_reference import cell_of
from moldau.records.arrow_engine import RowEncoder, check_rows
from moldau.records.arrow_layout import NO_SUCH_PARTITION, TOO_LARGE, EncodedRows, RowError
from moldau.records.batch_layout import HEADER_SIZE, Bytes
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.client.loop_thread import LoopThread
    from moldau.client.producer.core import ProducerCore
    from moldau.client.producer.row_encoding import PartColumns
    from moldau.client.row_formats import GivenRegistry
    from moldau.schemas.schema import Schema

__all__ = ["AioArrowCalls", "BatchFuture", "BatchMetadata", "BlockingArrowCalls"]

ARROW_BATCH_BYTES: Final = 256 * 1024
"""The size of a batch of rows, or batch.size if that is larger. Large batches are usually sent one per request."""

_clock = SystemClock()
_randomness = SystemRandomness()


# -- results -----------------------------------------------------------------------------------------------------------


class BatchMetadata(NamedTuple):
    """The result of one `send_batch`: where its rows were written."""

    topic: str
    rows: int
    first_offsets: dict[int, int]
    """The offset of the first row per partition that got rows; -1 if the broker did not answer (acks=0)."""


class BatchFuture:
    """The result of all rows of one `send_batch`. It is done when the last of their batches is done. Can be awaited."""

    __slots__ = ("_batches", "rows", "topic")

    def __init__(self, topic: str, rows: int, batches: list[Batch]) -> None:
        self.topic = topic
        self.rows = rows
        self._batches = batches

    def result(self, timeout: float | None = None) -> BatchMetadata:
        """Wait for all rows and return where they were written.

        Raises the first error if rows were not delivered, and TimedOut after `timeout` seconds without a result.
        """
        self._wait(timeout)
        return self._outcome()

    def exception(self, timeout: float | None = None) -> MoldauError | None:
        """Wait like `result` and return the first error, or None if all rows were delivered."""
        self._wait(timeout)
        return next((batch.error for batch in self._leaves() if batch.error is not None), None)

    def done(self) -> bool:
        """Whether every row is delivered or has failed."""
        return all(batch.done for batch in self._leaves())

    def add_done_callback(self, callback: Callable[[BatchFuture], object]) -> None:
        """Call `callback(future)` in the producer's loop when the future is done, or at once if it is done already."""
        arguments.function("callback", callback)
        self._when_done(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, BatchMetadata]:
        if not self.done():
            yield from wait_in_loop(self._when_done)
        return self._outcome()

    def _leaves(self) -> Iterator[Batch]:
        """The batches in order, with the parts of those that were split because the broker found them too large."""
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
        timeout = arguments.seconds("timeout", timeout)
        signal = allocate_lock()
        signal.acquire()
        self._when_done(signal.release)
        if not signal.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise TimedOut(
                f"no result for all of {self.rows} rows for topic {self.topic!r} within {timeout} s; the producer "
                "still sends them until delivery.timeout.ms is over: wait longer"
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
            raised = error_copy(error)
            raised.add_note(f"{failed} of {self.rows} rows for topic {self.topic!r} were not delivered")
            raise raised
        return BatchMetadata(self.topic, self.rows, first_offsets)


# -- encoding rows -----------------------------------------------------------------------------------------------------


class RowsToSend:
    """The rows of one `send_batch`: checked first, then encoded batch by batch."""

    def __init__(self, core: ProducerCore, topic: str, data: Tabular, names: ColumnNames) -> None:
        if core.sender is None:
            raise IllegalStateError("the producer was not started: use `async with`, or await `start()`")
        core.transactions.check_send()
        self._core = core
        self._topic = arguments.text("topic", topic)
        for column, name in zip(names._fields, names, strict=True):
            if name is not None and not isinstance(name, str):
                arguments.refuse(column, name, "the name of a column, or None")
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
                f"{what}; send a smaller record, or raise max.request.size, buffer.memory and the topic's "
                "max.message.bytes",
                ErrorCode.MESSAGE_TOO_LARGE,
            ) from None
        if isinstance(error, RowError) and error.fault == NO_SUCH_PARTITION:
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what) from None
        raise SerializationError(what) from error

    def choose_partitions(self) -> RowError | None:
        """Choose the partition of each row of a known topic. Return the error if a partition is not known."""
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
        """Wait until the topic and all partitions that rows name are known. Raises if a partition does not exist."""
        core = self._core
        while not self.topic_is_known:
            self._check_open()
            await core.await_topic(self._topic, deadline)
        missing = self.choose_partitions()
        if missing is not None:
            # Partitions may have been added since the last metadata.
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
        """Encode the rows lazily, batch by batch. The caller must `put` each batch before it asks for the next."""
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
        """Return a random partition that has a leader, for rows without key and partition."""
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
            raise ClosedError(f"the producer is closed; {self.rows} rows for topic {self._topic!r} cannot be sent")

    def put(self, batch: Batch) -> bool:
        """Queue a batch. Return False if there is no memory for it now."""
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
                f"no memory for rows for topic {self._topic!r} within max.block.ms ({core.config.max_block_s:g} s): "
                f"buffer.memory ({core.config.buffer_memory}) is full. {self.taken} of {self.rows} rows were taken and "
                "are being sent, the others are not; send more slowly, or raise buffer.memory"
            ) from None
        finally:
            core.memory.leave(waiter)

    def future(self) -> BatchFuture:
        return BatchFuture(self._topic, self.rows, self._batches)


# -- methods of the producers ------------------------------------------------------------------------------------------


class AioArrowCalls:
    """Columnar sending of the asyncio producer."""

    _core: ProducerCore

    async def send_batch(
        self,
        topic: str,
        data: Tabular,
        *,
        value: PartColumns = "value",
        key: PartColumns = None,
        timestamp: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
        key_format: str | None = None,
        value_format: str | None = None,
        key_schema: str | Schema | None = None,
        value_schema: str | Schema | None = None,
        registry: GivenRegistry = None,
    ) -> BatchFuture:
        """Send all rows of a table and return one future for them; await the future for the offsets.

        `data` is a pyarrow.Table, a pyarrow.RecordBatch or a pandas.DataFrame. `value`, `key`, `timestamp`, `headers`
        and `partition` are names of columns. Keys and values are binary or text. Timestamps are Arrow timestamps or
        milliseconds. Headers are list<struct<key, value>> or a map. A row without a partition goes to the partition of
        its key's hash; without a key, to any partition.

        `value_format="avro"` (and `key_format`) writes a struct column, or a list of columns, as Avro records of
        `value_schema`, which is registered in `registry`: a client, a URL or settings; without it, at
        schema.registry.url. Without schema, the latest of the subject is written. Each row has to fit the schema.

        All rows are checked before the first is sent. Raises SerializationError, RecordTooLarge or
        UnknownTopicOrPartition for a row that cannot be sent. BufferFull says how many rows were taken before
        buffer.memory was full for max.block.ms.
        """
        names = {"value": value, "key": key, "timestamp": timestamp, "headers": headers, "partition": partition}
        wanted = RowFormat(key_format, value_format, key_schema, value_schema, registry).checked()
        if wanted.is_plain:
            chosen = ColumnNames(**names)  # type: ignore[arg-type]  # RowsToSend checks the names
        else:
            # In a thread: the registry may have to be asked, and native code encodes without the GIL.
            data, chosen = await asyncio.to_thread(self._core.row_encoding.encoded, topic, data, names, wanted)
        rows = RowsToSend(self._core, topic, data, chosen)
        await rows.await_partitions(asyncio.get_running_loop().time() + self._core.config.max_block_s)
        for batch in rows.batches():
            if not rows.put(batch):
                await rows.put_when_there_is_room(batch)
        return rows.future()


class BlockingArrowCalls:
    """Columnar sending of the blocking producer."""

    _core: ProducerCore
    _thread: LoopThread

    def send_batch(
        self,
        topic: str,
        data: Tabular,
        *,
        value: PartColumns = "value",
        key: PartColumns = None,
        timestamp: str | None = None,
        headers: str | None = None,
        partition: str | None = None,
        key_format: str | None = None,
        value_format: str | None = None,
        key_schema: str | Schema | None = None,
        value_schema: str | Schema | None = None,
        registry: GivenRegistry = None,
    ) -> BatchFuture:
        """Send all rows of a table and return one future for them; its `result()` waits for the offsets.

        `data` is a pyarrow.Table, a pyarrow.RecordBatch or a pandas.DataFrame. `value`, `key`, `timestamp`, `headers`
        and `partition` are names of columns. Keys and values are binary or text. Timestamps are Arrow timestamps or
        milliseconds. Headers are list<struct<key, value>> or a map. A row without a partition goes to the partition of
        its key's hash; without a key, to any partition.

        `value_format="avro"` (and `key_format`) writes a struct column, or a list of columns, as Avro records of
        `value_schema`, which is registered in `registry`: a client, a URL or settings; without it, at
        schema.registry.url. Without schema, the latest of the subject is written. Each row has to fit the schema.

        All rows are checked before the first is sent. Raises SerializationError, RecordTooLarge or
        UnknownTopicOrPartition for a row that cannot be sent. BufferFull says how many rows were taken before
        buffer.memory was full for max.block.ms.
        """
        names = {"value": value, "key": key, "timestamp": timestamp, "headers": headers, "partition": partition}
        wanted = RowFormat(key_format, value_format, key_schema, value_schema, registry).checked()
        if wanted.is_plain:
            chosen = ColumnNames(**names)  # type: ignore[arg-type]  # RowsToSend checks the names
        else:
            data, chosen = self._core.row_encoding.encoded(topic, data, names, wanted)
        rows = RowsToSend(self._core, topic, data, chosen)
        deadline = _clock.monotonic() + self._core.config.max_block_s
        if not rows.topic_is_known or rows.choose_partitions() is not None:
            self._thread.run(rows.await_partitions(deadline))
        for batch in rows.batches():
            if not rows.put(batch):
                self._thread.run(rows.put_when_there_is_room(batch))
        return rows.future()
