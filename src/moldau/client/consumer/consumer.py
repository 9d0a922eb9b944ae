"""The asyncio consumer: `from moldau.aio import Consumer`.

    async with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        async for record in consumer:
            ...

One task at a time may use a consumer; only `wakeup` may be called by other tasks and threads. Any call may be
cancelled. The consumer stays usable: records that were not returned to the application do not count as read.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from moldau.client.consumer.calls import ConsumerCalls
from moldau.client.consumer.core import ConsumerCore
from moldau.client.consumer.decode import Record
from moldau.client.consumer.offset_reset import CallbackDue, RebalanceListener
from moldau.client.consumer.options import (
    Partitions,
    listener_method,
    listener_of,
    names_of,
    partitions_of,
    pattern_of,
    sort_arguments,
)
from moldau.client.consumer.poll_results import PollResults
from moldau.client.consumer.record_preparation import OnError, RecordPreparation
from moldau.client.consumer.row_decoding import RowDecoding
from moldau.client.consumer.single_owner import SingleOwner
from moldau.client.row_formats import RowFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.client.row_formats import GivenRegistry
    from moldau.schemas.schema import Schema

FOREVER_S = float("inf")
ARROW_ROWS = 1 << 16
"""Default of `max_rows` of `poll_arrow`."""

CLOSE_TIMEOUT_S = 30.0
"""Default time-out of `close`, for the last commit and the request to leave the group."""


class Consumer(ConsumerCalls):
    """Reads records from topics. docs/consumer.md is the guide.

        async with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
            async for record in consumer:
                ...

    Positional arguments are the topics to subscribe to. Settings have Kafka's names, as keywords (`group_id=`) or in a
    mapping (`{"group.id": …}`). `listener` is called when partitions are assigned, revoked or lost.

    `on_error` decides about a record that the deserialisers cannot read. "raise" raises DeserializationError, and the
    position stays at that record. "skip" logs a warning and skips the record. A function is called with the error; then
    the record is skipped.

    One task at a time may use a consumer, otherwise calls raise ConcurrentUseError. Only `wakeup` may be called by
    other tasks and threads. After `close` calls raise ClosedError. An argument of a wrong type raises ArgumentError.
    """

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        listener: RebalanceListener | None = None,
        on_error: OnError | str = "raise",
        **settings: Any,
    ) -> None:
        given = sort_arguments(topics, settings)
        self._preparation = RecordPreparation.of(given.settings, on_error)
        self._row_decoding = RowDecoding(given.settings, on_error)
        self._listener: object = listener_of(listener)
        super().__init__(given.topics, given.settings, SingleOwner(asyncio.current_task))

    # -- starting and closing --------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close. After an error do not commit the records returned last: the application may have failed on them."""
        if error is not None and self._started_core is not None:
            self._started_core.mark_unread()
        await self.close()

    async def close(self, timeout: float | None = CLOSE_TIMEOUT_S) -> None:
        """Commit if enable.auto.commit is set, call the listener, leave the group, and close the connections.

        The last commit and the request to leave take at most `timeout` seconds (default.api.timeout.ms if None). A
        failed last commit is logged. Calling `close` again does nothing.
        """
        with self._use:
            core = self._started_core
            if core is None or core.closed:
                return
            deadline = core.deadline(timeout)
            try:
                due = await core.before_leaving(deadline)
                if due is not None:
                    await self._call_listener(due)
            finally:
                await core.close(deadline)
                self._row_decoding.close()

    # -- subscription ----------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or all topics whose whole name matches the pattern, also topics that are created later.

        With a group.id the members of the group share the partitions; without one this consumer reads all of them.
        The new subscription replaces the one before. No topics and no pattern: the same as `unsubscribe`. `pattern` is
        a Python regular expression; with group.protocol=consumer the broker matches it, in the syntax of RE2.
        `listener` replaces the listener given before.

        Raises IllegalStateError if the consumer reads partitions given to `assign`, or changes between topics and a
        pattern, without `unsubscribe` in between.
        """
        with self._use:
            core = await self._core()
            if listener is not None:
                self._listener = listener_of(listener)
            if pattern is not None:
                await core.subscribe_pattern(pattern_of(pattern))
            elif names := names_of(topics):
                await core.subscribe(names)
            else:
                await self.unsubscribe()

    async def assign(self, partitions: Partitions) -> None:
        """Read exactly these partitions, without sharing them in a group. No partitions: the same as `unsubscribe`.

        Partitions that were assigned before keep their positions. With a group.id reading starts at the committed
        offsets, and offsets can be committed.

        Raises IllegalStateError if the consumer is subscribed to topics; call `unsubscribe` first.
        """
        with self._use:
            core = await self._core()
            if wanted := partitions_of(partitions):
                core.assign(wanted)
            else:
                await self.unsubscribe()

    async def unsubscribe(self) -> None:
        """Stop reading and leave the group. Commits first if enable.auto.commit is set, and calls the listener."""
        with self._use:
            core = await self._core()
            deadline = core.deadline(None)
            due = await core.before_leaving(deadline)
            if due is not None:
                await self._call_listener(due)
            await core.unsubscribe(deadline)

    # -- records ---------------------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[Record]:
        """Return the next records, or an empty list if there are none within `timeout` seconds; None waits for ever.

        At most `max_records` records are returned (max.poll.records if None). `poll` also calls the listener, and
        starts automatic commits of the records that earlier polls returned.

        Raises DeserializationError for a record that cannot be read (see `on_error`), OffsetOutOfRange or
        NoOffsetForPartition if there is no valid position and auto.offset.reset is none, IllegalStateError if the
        consumer has no subscription and no assignment, CorruptRecord for a damaged batch, WakeupError after `wakeup`,
        errors of the listener, and errors of brokers that a retry cannot solve. `poll` may be called again after an
        error.
        """
        with self._use:
            core = await self._core()
            deadline = core.deadline(FOREVER_S if timeout is None else timeout)
            while True:
                results = await self._next_results(core, deadline, max_records=max_records)
                if results is None:
                    return []
                if self._preparation is None:
                    return results.all_at_once()
                try:
                    if records := self._preparation.all(results):
                        return records
                finally:
                    if results.seen < len(results.records):
                        core.take_back()

    async def poll_arrow(
        self,
        max_rows: int = ARROW_ROWS,
        timeout: float | None = 1.0,
        *,
        headers: bool = False,
        key_format: str | None = None,
        value_format: str | None = None,
        key_schema: str | Schema | None = None,
        value_schema: str | Schema | None = None,
        registry: GivenRegistry = None,
    ) -> pa.RecordBatch:
        """Return the next records as an Arrow record batch with Kafka's columns, without a Python object per record.

        Without records within `timeout` seconds the batch has no rows; None waits for ever. At most `max_rows` rows
        are returned; max.poll.records does not apply. `headers` adds a column of the records' headers. Deserialisers
        and interceptors are not called.

        Keys and values are bytes. `value_format="avro"` (and `key_format`) decodes them into columns of their schema,
        which is in `registry`: a client, a URL or settings; without it, the consumer's schema.registry.url. The columns
        are those of `value_schema` if it is given, otherwise those of the newest schema seen so far.

        Raises the same errors as `poll`; DeserializationError only with a format (see `on_error`). Raises ImportError
        if PyArrow is not installed.
        """
        from moldau.records.arrow import ArrowRows, require_pyarrow

        require_pyarrow()  # the first import takes half a second
        wanted = RowFormat(key_format, value_format, key_schema, value_schema, registry).checked()
        with self._use:
            core = await self._core()
            deadline = core.deadline(FOREVER_S if timeout is None else timeout)
            while True:
                outcome = await core.step_rows(deadline, max_rows, bool(headers))
                if isinstance(outcome, CallbackDue):
                    await self._run_callback(core, outcome)
                    continue
                if wanted.is_plain:
                    return ArrowRows(headers=bool(headers)).finish() if outcome is None else outcome.mark_read()
                if outcome is None:
                    empty = ArrowRows(headers=bool(headers)).finish()
                    return (await asyncio.to_thread(self._row_decoding.decoded, empty, wanted)).table
                try:
                    # In a thread: the registry may have to be asked, and native code decodes without the GIL.
                    decoded = await asyncio.to_thread(self._row_decoding.decoded, outcome.table, wanted)
                    outcome.mark_read(decoded.read)
                finally:
                    if outcome.unread_spans():
                        core.take_back()
                if decoded.table.num_rows:
                    return decoded.table

    def __aiter__(self) -> AsyncIterator[Record]:
        """Iterate over the records until the consumer is closed. A record counts as read when it is yielded."""
        return self._records()

    async def _records(self) -> AsyncIterator[Record]:
        prepare = None if self._preparation is None else self._preparation.one
        core = await self._core()
        while not core.closed:
            with self._use:
                results = await self._next_results(core, FOREVER_S, iterating=True)
            if results is not None:
                for record in results.one_by_one(prepare):
                    yield record

    async def _next_results(
        self, core: ConsumerCore, deadline: float, *, max_records: int | None = None, iterating: bool = False
    ) -> PollResults | None:
        while True:
            outcome = await core.step(deadline, max_records, iterating=iterating)
            if not isinstance(outcome, CallbackDue):
                return outcome
            await self._run_callback(core, outcome)

    async def _run_callback(self, core: ConsumerCore, due: CallbackDue) -> None:
        """Call the listener, and report to the core that it has returned or failed."""
        error: BaseException | None = None
        try:
            await self._call_listener(due)
        except BaseException as problem:
            error = problem
            raise
        finally:
            core.callback_done(due, error)

    async def _call_listener(self, due: CallbackDue) -> None:
        method = listener_method(self._listener, due)
        if method is not None:
            outcome = method(list(due.partitions))
            if inspect.isawaitable(outcome):
                await outcome
