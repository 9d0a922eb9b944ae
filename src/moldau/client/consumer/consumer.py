"""The consumer for asyncio: `from moldau.aio import Consumer`.

    async with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        async for record in consumer:
            ...

One task at a time uses a consumer; `wakeup` alone may be called from elsewhere, from other threads, too. Cancelling any
call leaves the consumer usable: nothing that was not handed to the application counts as read.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from moldau.client.consumer.commits import OnCommit
from moldau.client.consumer.core import ConsumerCore
from moldau.client.consumer.decode import Record
from moldau.client.consumer.handout import Handout
from moldau.client.consumer.lookup import OffsetAndTimestamp
from moldau.client.consumer.membership.membership import GroupMetadata
from moldau.client.consumer.model import CallbackDue, RebalanceListener
from moldau.client.consumer.options import (
    Committable,
    Partitions,
    chosen,
    method_of,
    names_of,
    offsets_of,
    partitions_of,
    pattern_of,
    sort_out,
)
from moldau.client.consumer.prepare import OnError, Preparer
from moldau.client.consumer.queries import Queries
from moldau.client.consumer.sole_use import SoleUse
from moldau.client.metadata import PartitionMetadata
from moldau.client.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

FOREVER_S = float("inf")
ARROW_ROWS = 1 << 16
"""How many rows `poll_arrow` returns at most, where it is not told otherwise."""

CLOSE_TIMEOUT_S = 30.0
"""How long `close` waits for its last commit and for the group to hear of it, where it is not told otherwise."""


class Consumer:
    """Reads records from topics. See the module, and docs/clients.md."""

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        listener: RebalanceListener | None = None,
        on_error: OnError | str = "raise",
        **settings: Any,
    ) -> None:
        """Settings by Kafka's names, as keywords (`group_id=`) or in a mapping (`{"group.id": …}`)."""
        given = sort_out(topics, settings)
        self._topics = given.topics
        self._settings = given.settings
        self._preparer = Preparer.of(given.settings, on_error)
        self._listener: object = listener
        self._use = SoleUse(asyncio.current_task)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._made: ConsumerCore | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin. Every other call does so by itself; the broker is not waited for."""
        if self._made is None:
            self._loop = asyncio.get_running_loop()
            self._made = ConsumerCore(self._settings)
            await self._made.start()
            if self._topics:
                await self._made.subscribe(self._topics)

    async def _core(self) -> ConsumerCore:
        if self._made is None:
            await self.start()
        assert self._made is not None
        return self._made

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """After an error, what the application was given last is not committed: it may not be done with it."""
        if error is not None and self._made is not None:
            self._made.disown()
        await self.close()

    async def close(self, timeout: float | None = CLOSE_TIMEOUT_S) -> None:
        """Commit if that is automatic, tell the listener, leave the group, and end. Calling it again does nothing."""
        with self._use:
            core = self._made
            if core is None or core.closed:
                return
            deadline = core.deadline(timeout)
            try:
                due = await core.before_leaving(deadline)
                if due is not None:
                    await self._call_listener(due)
            finally:
                await core.close(deadline)

    def wakeup(self) -> None:
        """End the poll that waits now, or else the next one, with WakeupError. From any thread."""
        if self._made is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._made.wakeup)

    # -- what to read ----------------------------------------------------------------------------------------------

    async def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or all whose whole name the pattern matches, also those that come later.

        With a group.id the partitions are shared among the members of the group; without one this consumer reads all.
        Replaces what was subscribed to before.
        """
        with self._use:
            core = await self._core()
            if listener is not None:
                self._listener = listener
            if pattern is not None:
                await core.subscribe_pattern(pattern_of(pattern))
            elif names := names_of(topics):
                await core.subscribe(names)
            else:
                await self.unsubscribe()

    async def assign(self, partitions: Partitions) -> None:
        """Read exactly these partitions, whatever other consumers do."""
        with self._use:
            core = await self._core()
            if wanted := partitions_of(partitions):
                core.assign(wanted)
            else:
                await self.unsubscribe()

    async def unsubscribe(self) -> None:
        """Read nothing; leave the group."""
        with self._use:
            core = await self._core()
            deadline = core.deadline(None)
            due = await core.before_leaving(deadline)
            if due is not None:
                await self._call_listener(due)
            await core.unsubscribe(deadline)

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        state = self._made.subscription if self._made is not None else None
        return frozenset(state.topics if state is not None and state.uses_group else ())

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads now."""
        return frozenset(self._made.subscription.assigned if self._made is not None else ())

    # -- records ---------------------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[Record]:
        """Some records (at most max.poll.records), or none when `timeout` seconds are over; None waits for ever.

        Listeners are called in here, and automatic commits made of what earlier polls returned.
        """
        with self._use:
            core = await self._core()
            deadline = core.deadline(FOREVER_S if timeout is None else timeout)
            while True:
                handout = await self._next(core, deadline, max_records=max_records)
                if handout is None:
                    return []
                if self._preparer is None:
                    return handout.all_at_once()
                try:
                    if records := self._preparer.all(handout):
                        return records
                finally:
                    if handout.seen < len(handout.records):
                        core.take_back()

    async def poll_arrow(
        self, max_rows: int = ARROW_ROWS, timeout: float | None = 1.0, *, headers: bool = False
    ) -> pa.RecordBatch:
        """As `poll`, as a table with Kafka's columns and no object a record; without rows when the time is over.

        Keys and values are bytes: deserialisers and interceptors have no part in it. max.poll.records does not count.
        """
        from moldau.records.arrow import ArrowRows, require_pyarrow

        require_pyarrow()  # the first time it is half a second of imports
        with self._use:
            core = await self._core()
            deadline = core.deadline(FOREVER_S if timeout is None else timeout)
            while True:
                outcome = await core.step_rows(deadline, max_rows, headers)
                if not isinstance(outcome, CallbackDue):
                    return outcome if outcome is not None else ArrowRows(headers=headers).finish()
                await self._listened(core, outcome)

    def __aiter__(self) -> AsyncIterator[Record]:
        return self._records()

    async def _records(self) -> AsyncIterator[Record]:
        """One after another, for ever. Each counts as read when it is yielded; ends when the consumer is closed."""
        prepare = None if self._preparer is None else self._preparer.one
        core = await self._core()
        while not core.closed:
            with self._use:
                handout = await self._next(core, FOREVER_S, iterating=True)
            if handout is not None:
                for record in handout.one_by_one(prepare):
                    yield record

    async def _next(
        self, core: ConsumerCore, deadline: float, *, max_records: int | None = None, iterating: bool = False
    ) -> Handout | None:
        while True:
            outcome = await core.step(deadline, max_records, iterating=iterating)
            if not isinstance(outcome, CallbackDue):
                return outcome
            await self._listened(core, outcome)

    async def _listened(self, core: ConsumerCore, due: CallbackDue) -> None:
        error: BaseException | None = None
        try:
            await self._call_listener(due)
        except BaseException as problem:
            error = problem
            raise
        finally:
            core.callback_done(due, error)

    async def _call_listener(self, due: CallbackDue) -> None:
        method = method_of(self._listener, due)
        if method is not None:
            outcome = method(list(due.partitions))
            if inspect.isawaitable(outcome):
                await outcome

    # -- positions -------------------------------------------------------------------------------------------------

    async def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata, *, epoch: int | None = None
    ) -> None:
        """Go on with this offset at the next poll."""
        with self._use:
            core = await self._core()
            if isinstance(offset, OffsetAndMetadata):
                core.seek(TopicPartition(*partition), offset.offset, offset.leader_epoch)
            else:
                core.seek(TopicPartition(*partition), offset, epoch)

    async def seek_to_beginning(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Go on with the first record that is there; of all assigned partitions, if none is given."""
        with self._use:
            (await self._core()).seek_to_beginning(chosen(partitions))

    async def seek_to_end(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Go on behind the last record that is there now; with read_committed, behind the last that is decided."""
        with self._use:
            (await self._core()).seek_to_end(chosen(partitions))

    async def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """The offset of the next record that this consumer will get."""
        with self._use:
            core = await self._core()
            return await core.position(TopicPartition(*partition), core.deadline(timeout))

    async def pause(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        """Get nothing from these until `resume`, and stay in the group all the same."""
        with self._use:
            (await self._core()).pause(partitions_of(partitions))

    async def resume(self, *partitions: TopicPartition | tuple[str, int]) -> None:
        with self._use:
            (await self._core()).pause(partitions_of(partitions), False)

    def paused(self) -> frozenset[TopicPartition]:
        assigned = self._made.subscription.assigned if self._made is not None else {}
        return frozenset(partition for partition, state in assigned.items() if state.paused)

    # -- commits ---------------------------------------------------------------------------------------------------

    async def commit(self, what: Committable = None, *, timeout: float | None = None) -> None:
        """Store how far this consumer has come, and wait until it is stored.

        `what` is a record (all up to and with it), offsets by partition (each of the next record to be read), or
        nothing: then all that this consumer has handed out.
        """
        with self._use:
            core = await self._core()
            await core.commit(offsets_of(what), core.deadline(timeout))

    async def commit_async(self, what: Committable = None, on_commit: OnCommit | None = None) -> None:
        """As `commit`, without waiting: `on_commit(offsets, error)` is called when it is stored, or failed."""
        with self._use:
            (await self._core()).commit_async(offsets_of(what), on_commit)

    async def committed(
        self, *partitions: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing. Of all that is assigned, if none is given."""
        with self._use:
            core = await self._core()
            wanted = chosen(partitions) or list(core.subscription.assigned)
            return dict(await core.committed(wanted, core.deadline(timeout)))

    async def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for `producer.send_offsets`."""
        with self._use:
            return (await self._core()).group_metadata()

    # -- questions -------------------------------------------------------------------------------------------------

    async def beginning_offsets(
        self, *partitions: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset of the first record that is there; of all that is assigned, if none is given."""
        with self._use:
            core = await self._core()
            return await Queries(core).beginning_offsets(chosen(partitions), core.deadline(timeout))

    async def end_offsets(
        self, *partitions: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read; with read_committed, after the last that is decided."""
        with self._use:
            core = await self._core()
            return await Queries(core).end_offsets(chosen(partitions), core.deadline(timeout))

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than a time in milliseconds; None where none is."""
        with self._use:
            core = await self._core()
            return await Queries(core).offsets_for_times(times, core.deadline(timeout))

    async def lag(
        self, *partitions: TopicPartition | tuple[str, int], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """How many offsets this consumer is behind the end; of all that is assigned, if none is given."""
        with self._use:
            core = await self._core()
            return await Queries(core).lag(chosen(partitions), core.deadline(timeout))

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionMetadata]:
        """The partitions of a topic; none where there is no such topic."""
        with self._use:
            core = await self._core()
            return await Queries(core).partitions_for(topic, core.deadline(timeout))

    async def list_topics(self, *, timeout: float | None = None) -> dict[str, list[PartitionMetadata]]:
        """All topics that this consumer may see, with their partitions."""
        with self._use:
            core = await self._core()
            return await Queries(core).list_topics(core.deadline(timeout))

    def metrics(self) -> dict[str, float]:
        """Counts since the start, and how much waits to be read."""
        return {} if self._made is None else Queries(self._made).metrics()
