"""The consumer for threads: `from moldau import Consumer`.

    with Consumer("orders", bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        for record in consumer:
            ...

One thread at a time uses a consumer; a second one gets ConcurrentUseError. `wakeup` alone may be called from anywhere.
The work is done on the loop thread that all blocking clients share; listeners, deserialisers and callbacks of commits
run in the thread that calls the consumer, inside its calls, and may call it themselves.
"""

from __future__ import annotations

import re
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from moldau.client.consumer.commits import Offsets, OnCommit
from moldau.client.consumer.consumer import ARROW_ROWS, CLOSE_TIMEOUT_S, FOREVER_S
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
from moldau.client.errors import ClosedError, MoldauError
from moldau.client.loop_thread import LoopThread
from moldau.client.metadata import PartitionMetadata
from moldau.client.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Partition = TopicPartition | tuple[str, int]


class Consumer:
    """Reads records from topics; see the module, docs/clients.md, and `moldau.aio.Consumer` for each call's words."""

    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        listener: RebalanceListener | None = None,
        on_error: OnError | str = "raise",
        **settings: Any,
    ) -> None:
        """Settings by Kafka's names, as keywords (`group_id=`) or in a mapping (`{"group.id": …}`)."""
        given = sort_out(topics, settings)
        self._preparer = Preparer.of(given.settings, on_error)
        self._listener: object = listener
        self._use = SoleUse(get_ident)
        self._told: deque[tuple[OnCommit, Offsets, MoldauError | None]] = deque()  # callbacks of commits that are due
        self._closed = False
        self._thread = LoopThread.acquire()
        try:
            self._core = self._thread.run(self._begin(given.topics, given.settings))
        except BaseException:
            self._thread.release()
            raise

    @staticmethod
    async def _begin(topics: tuple[str, ...], settings: Any) -> ConsumerCore:
        core = ConsumerCore(settings)
        await core.start()
        if topics:
            await core.subscribe(topics)
        return core

    # -- life ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """After an error, what the application was given last is not committed: it may not be done with it."""
        if error is not None and not self._closed:
            self._core.disown()
        self.close()

    def close(self, timeout: float | None = CLOSE_TIMEOUT_S) -> None:
        """Commit if that is automatic, tell the listener, leave the group, and end. Calling it again does nothing."""
        with self._use:
            if self._closed:
                return
            deadline = self._call(lambda: self._core.deadline(timeout))
            try:
                due = self._run(self._core.before_leaving(deadline))
                if due is not None:
                    self._call_listener(due)
            finally:
                self._closed = True
                try:
                    self._thread.run(self._core.close(deadline))
                finally:
                    self._thread.release()
            self._tell_commits()

    def wakeup(self) -> None:
        """End the poll that waits now, or else the next one, with WakeupError. From any thread."""
        if not self._closed:
            self._thread.loop.call_soon_threadsafe(self._core.wakeup)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Have the loop do it, and wait; then call what commits have left to be called."""
        if self._closed:
            coroutine.close()
            raise ClosedError("this consumer was closed; make a new one")
        try:
            return self._thread.run(coroutine)
        finally:
            self._tell_commits()

    def _call(self, function: Callable[[], T]) -> T:
        async def calling() -> T:
            return function()

        return self._run(calling())

    # -- what to read ----------------------------------------------------------------------------------------------

    def subscribe(
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
            if listener is not None:
                self._listener = listener
            if pattern is not None:
                self._run(self._core.subscribe_pattern(pattern_of(pattern)))
            elif names := names_of(topics):
                self._run(self._core.subscribe(names))
            else:
                self.unsubscribe()

    def assign(self, partitions: Partitions) -> None:
        """Read exactly these partitions, whatever other consumers do."""
        with self._use:
            if wanted := partitions_of(partitions):
                self._call(lambda: self._core.assign(wanted))
            else:
                self.unsubscribe()

    def unsubscribe(self) -> None:
        """Read nothing; leave the group."""
        with self._use:
            deadline = self._call(lambda: self._core.deadline(None))
            due = self._run(self._core.before_leaving(deadline))
            if due is not None:
                self._call_listener(due)
            self._run(self._core.unsubscribe(deadline))

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        with self._use:
            state = self._core.subscription
            return self._call(lambda: frozenset(state.topics if state.uses_group else ()))

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this consumer reads now."""
        with self._use:
            return self._call(lambda: frozenset(self._core.subscription.assigned))

    # -- records ---------------------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[Record]:
        """Some records (at most max.poll.records), or none when `timeout` seconds are over; None waits for ever.

        Listeners are called in here, and automatic commits made of what earlier polls returned.
        """
        with self._use:
            until = FOREVER_S if timeout is None else self._call(lambda: self._core.deadline(timeout))
            while True:
                handout = self._next(until, max_records=max_records)
                if handout is None:
                    return []
                if self._preparer is None:
                    return handout.all_at_once()
                try:
                    if records := self._preparer.all(handout):
                        return records
                finally:
                    if handout.seen < len(handout.records):
                        self._call(self._core.take_back)

    def poll_arrow(
        self, max_rows: int = ARROW_ROWS, timeout: float | None = 1.0, *, headers: bool = False
    ) -> pa.RecordBatch:
        """As `poll`, as a table with Kafka's columns and no object a record; without rows when the time is over.

        Keys and values are bytes: deserialisers and interceptors have no part in it. max.poll.records does not count.
        """
        from moldau.records.arrow import ArrowRows, require_pyarrow

        require_pyarrow()  # half a second of imports, the first time: not in the thread of the heartbeats
        with self._use:
            until = FOREVER_S if timeout is None else self._call(lambda: self._core.deadline(timeout))
            while True:
                outcome = self._run(self._core.step_rows(until, max_rows, headers))
                if not isinstance(outcome, CallbackDue):
                    return outcome if outcome is not None else ArrowRows(headers=headers).finish()
                self._listened(outcome)

    def __iter__(self) -> Iterator[Record]:
        """One record after another, for ever. Each counts as read when it is yielded; ends when this is closed.

        Nothing of it but the fetching of the next few hundred is Python code, so it costs little more than a list.
        """
        return chain.from_iterable(iter(self._next_iterator, None))

    def _next_iterator(self) -> Iterator[Record] | None:
        if self._closed:
            return None
        with self._use:
            handout = self._next(FOREVER_S, iterating=True)
        assert handout is not None
        return handout.one_by_one(None if self._preparer is None else self._preparer.one)

    def _next(self, deadline: float, *, max_records: int | None = None, iterating: bool = False) -> Handout | None:
        while True:
            outcome = self._run(self._core.step(deadline, max_records, iterating=iterating))
            if not isinstance(outcome, CallbackDue):
                return outcome
            self._listened(outcome)

    def _listened(self, due: CallbackDue) -> None:
        error: BaseException | None = None
        try:
            self._call_listener(due)
        except BaseException as problem:
            error = problem
            raise
        finally:
            if not self._closed:  # by the listener itself
                self._call(partial(self._core.callback_done, due, error))

    def _call_listener(self, due: CallbackDue) -> None:
        method = method_of(self._listener, due)
        if method is not None:
            method(list(due.partitions))

    # -- positions -------------------------------------------------------------------------------------------------

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata, *, epoch: int | None = None) -> None:
        """Go on with this offset at the next poll."""
        where = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset, "", epoch)
        with self._use:
            self._call(lambda: self._core.seek(TopicPartition(*partition), where.offset, where.leader_epoch))

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Go on with the first record that is there; of all assigned partitions, if none is given."""
        with self._use:
            self._call(lambda: self._core.seek_to_beginning(chosen(partitions)))

    def seek_to_end(self, *partitions: Partition) -> None:
        """Go on behind the last record that is there now; with read_committed, behind the last that is decided."""
        with self._use:
            self._call(lambda: self._core.seek_to_end(chosen(partitions)))

    def position(self, partition: Partition, timeout: float | None = None) -> int:
        """The offset of the next record that this consumer will get."""
        return self._timed(lambda deadline: self._core.position(TopicPartition(*partition), deadline), timeout)

    def pause(self, *partitions: Partition) -> None:
        """Get nothing from these until `resume`, and stay in the group all the same."""
        with self._use:
            self._call(lambda: self._core.pause(partitions_of(partitions)))

    def resume(self, *partitions: Partition) -> None:
        with self._use:
            self._call(lambda: self._core.pause(partitions_of(partitions), False))

    def paused(self) -> frozenset[TopicPartition]:
        with self._use:
            assigned = self._core.subscription.assigned
            return self._call(lambda: frozenset(one for one, state in assigned.items() if state.paused))

    # -- commits ---------------------------------------------------------------------------------------------------

    def commit(self, what: Committable = None, *, timeout: float | None = None) -> None:
        """Store how far this consumer has come, and wait until it is stored.

        `what` is a record (all up to and with it), offsets by partition (each of the next record to be read), or
        nothing: then all that this consumer has handed out.
        """
        offsets = offsets_of(what)
        self._timed(lambda deadline: self._core.commit(offsets, deadline), timeout)

    def commit_async(self, what: Committable = None, on_commit: OnCommit | None = None) -> None:
        """As `commit`, without waiting. `on_commit(offsets, error)` is called inside a later call of the consumer."""
        offsets = offsets_of(what)
        later = None if on_commit is None else self._later(on_commit)
        with self._use:
            self._call(lambda: self._core.commit_async(offsets, later))

    def _later(self, on_commit: OnCommit) -> OnCommit:
        return lambda offsets, error: self._told.append((on_commit, offsets, error))

    def _tell_commits(self) -> None:
        while self._told:
            on_commit, offsets, error = self._told.popleft()
            on_commit(offsets, error)

    def committed(
        self, *partitions: Partition, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing. Of all that is assigned, if none is given."""

        async def ask(deadline: float) -> dict[TopicPartition, OffsetAndMetadata | None]:
            wanted = chosen(partitions) or list(self._core.subscription.assigned)
            return dict(await self._core.committed(wanted, deadline))

        return self._timed(ask, timeout)

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for `producer.send_offsets`."""
        with self._use:
            return self._call(self._core.group_metadata)

    # -- questions -------------------------------------------------------------------------------------------------

    def _timed(self, ask: Callable[[float], Coroutine[Any, Any, T]], timeout: float | None) -> T:
        async def asking() -> T:
            return await ask(self._core.deadline(timeout))

        with self._use:
            return self._run(asking())

    def beginning_offsets(self, *partitions: Partition, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The offset of the first record that is there; of all that is assigned, if none is given."""
        return self._timed(lambda until: Queries(self._core).beginning_offsets(chosen(partitions), until), timeout)

    def end_offsets(self, *partitions: Partition, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read; with read_committed, after the last that is decided."""
        return self._timed(lambda until: Queries(self._core).end_offsets(chosen(partitions), until), timeout)

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than a time in milliseconds; None where none is."""
        return self._timed(lambda until: Queries(self._core).offsets_for_times(times, until), timeout)

    def lag(self, *partitions: Partition, timeout: float | None = None) -> dict[TopicPartition, int]:
        """How many offsets this consumer is behind the end; of all that is assigned, if none is given."""
        return self._timed(lambda until: Queries(self._core).lag(chosen(partitions), until), timeout)

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionMetadata]:
        """The partitions of a topic; none where there is no such topic."""
        return self._timed(lambda until: Queries(self._core).partitions_for(topic, until), timeout)

    def list_topics(self, *, timeout: float | None = None) -> dict[str, list[PartitionMetadata]]:
        """All topics that this consumer may see, with their partitions."""
        return self._timed(lambda until: Queries(self._core).list_topics(until), timeout)

    def metrics(self) -> dict[str, float]:
        """Counts since the start, and how much waits to be read."""
        with self._use:
            return self._call(lambda: Queries(self._core).metrics())
