"""Consumer core: the implementation that the asyncio and the blocking consumer share.

Owned by one event loop. Both consumers call `step` and get one of three things: records, a listener callback that is
due, or None after the deadline. They run the callback in the application's own task or thread, and then report it with
`callback_done`. So there is one implementation, listeners run where the application runs, and a listener may call the
consumer without waiting for itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from moldau.client import arguments
from moldau.client.consumer.buffer import FetchBuffer
from moldau.client.consumer.commits import Offsets, OnCommit
from moldau.client.consumer.fetcher import Fetcher
from moldau.client.consumer.group import GroupBinding, group_of
from moldau.client.consumer.membership.membership import GroupMetadata
from moldau.client.consumer.offset_lookup import OffsetLookup
from moldau.client.consumer.offset_reset import EARLIEST, LATEST, CallbackDue, Reset, reset_of
from moldau.client.consumer.poll_results import PollResults, RowResults
from moldau.client.consumer.positions import Positions
from moldau.client.consumer.subscription import NO_EPOCH, Mode, Subscription
from moldau.client.consumer.wakeup_signal import WakeupSignal
from moldau.client.data_types import OffsetAndMetadata, TopicPartition
from moldau.client.errors import ClosedError, IllegalStateError, MoldauError, TimedOut, WakeupError, error_for
from moldau.client.metadata import ClusterMetadata
from moldau.client.network import Network
from moldau.client.settings import ClientSettings
from moldau.host.clock import Clock, SystemClock
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.records.arrow import ArrowRows

T = TypeVar("T")

ITERATION_RECORDS: Final = 4_096
"""Records that an iterator takes at once: so many that the cost of a switch to the loop thread does not matter."""

END_EARLY_S: Final = 0.1
"""After this time an iterator may yield only the piece that it is reading, max.poll.records at most as after a poll.
Otherwise a slow application would not return within max.poll.interval.ms, and its group would remove it."""

SLICE_S: Final = 0.5
"""Longest sleep of `step` before it reports to the group again that the application is waiting in poll."""


class ConsumerCore:
    """One consumer, without its public calls. See the module."""

    def __init__(self, settings: ClientSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self.subscription = Subscription()
        self.network = Network(settings)
        self.buffer = FetchBuffer(self.subscription)
        self.lookup = OffsetLookup(self.network, settings)
        self.policy = reset_of(settings["auto.offset.reset"])
        self.records_handed_out = 0
        self._changed = WakeupSignal()
        self._max_records: int = settings["max.poll.records"]
        self._api_timeout_s = settings["default.api.timeout.ms"] / 1_000
        self._slice_s = min(SLICE_S, settings["max.poll.interval.ms"] / 4_000)
        self._group: GroupBinding = group_of(self.network, settings, self.subscription, self._something_changed)
        self._assigned_before: tuple[TopicPartition, ...] = ()
        self._topic_error: MoldauError | None = None
        self._first_metadata: asyncio.Task[ClusterMetadata] | None = None
        self._early_end: asyncio.TimerHandle | None = None
        self._woken = False
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Start to fetch metadata. An unreachable broker is not an error yet: the calls that need it raise one."""
        if self._started:
            return
        self._started = True
        self.fetcher = Fetcher(
            self.network,
            self.settings,
            self.subscription,
            self.buffer,
            policy=self.policy,
            changed=self._something_changed,
        )
        self.positions = Positions(
            self.network,
            self.settings,
            self.subscription,
            self.buffer,
            self.lookup,
            policy=self.policy,
            committed=self._group.committed if self._group.has_id else None,
            changed=self._something_changed,
            now_ms=self._clock.now_ms,
        )
        self.network.on_metadata(self._metadata_changed)
        await self.network.start()
        self._fetch_first_metadata()

    async def close(self, deadline: float) -> None:
        """Commit if enable.auto.commit is set, leave the group, and stop all tasks; all of them also if cancelled."""
        if self._closed:
            return
        self.take_back()
        self._closed = True
        if not self._started:
            return
        try:
            await self._group.close(deadline)
        finally:
            if self._first_metadata is not None:
                self._first_metadata.cancel()
            await self.positions.close()
            await self.fetcher.close()
            await self.network.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def check_open(self) -> None:
        if self._closed:
            raise ClosedError("this consumer was closed; make a new one")

    def deadline(self, timeout_s: float | None) -> float:
        """Return the loop time at which a call with this time-out must end; None means default.api.timeout.ms."""
        given = arguments.seconds("timeout", timeout_s)
        return asyncio.get_running_loop().time() + (self._api_timeout_s if given is None else max(given, 0.0))

    # -- subscription and assignment -------------------------------------------------------------------------------

    async def subscribe(self, topics: Iterable[str]) -> None:
        self._before_change()
        names = list(topics)
        self.subscription.subscribe(names)
        await self._group.subscribed()
        self._something_changed()

    async def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        self._before_change()
        self.subscription.subscribe_pattern(pattern)
        await self._group.subscribed()
        self._something_changed()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._before_change()
        before = self.subscription.topics
        self.subscription.assign(partitions)
        self.network.follow(self.subscription.topics)
        self.network.unfollow([topic for topic in before if topic not in self.subscription.topics])
        self._assignment_changed()

    async def unsubscribe(self, deadline: float) -> None:
        """Stop reading and leave the group. The caller has called `before_leaving` and the listener."""
        self._before_change()
        if self.subscription.uses_group:
            await self._group.leave(deadline)
        else:
            self.network.unfollow(self.subscription.topics)
        self.subscription.unsubscribe()
        self._assignment_changed()

    async def before_leaving(self, deadline: float) -> CallbackDue | None:
        """Commit if enable.auto.commit is set, and return the callback to run before `unsubscribe` or `close`."""
        self.take_back()
        if not self._started or self._closed:
            return None
        return await self._group.before_leaving(deadline) if self.subscription.uses_group else None

    def _before_change(self) -> None:
        self.check_open()
        self.take_back()
        self._topic_error = None

    def _metadata_changed(self, metadata: ClusterMetadata) -> None:
        if self._closed:
            return
        self._group.metadata_changed(metadata)
        for name in self.subscription.topics:
            topic = metadata.topics.get(name)
            if topic is not None and topic.error is not ErrorCode.NONE and not topic.error.retriable:
                self._topic_error = error_for(topic.error, f"reading topic {name!r}")
        self.positions.note_leaders()
        self.positions.pump()
        self.fetcher.pump()
        self._changed.set()

    def _assignment_changed(self) -> None:
        assigned = tuple(self.subscription.assigned)
        if assigned != self._assigned_before:
            self._assigned_before = assigned
            self.fetcher.forget_unassigned()
            self.positions.note_leaders()
        self.positions.pump()
        self.fetcher.pump()

    def _something_changed(self) -> None:
        self._changed.set()

    # -- records ---------------------------------------------------------------------------------------------------

    async def step(
        self, deadline: float, max_records: int | None = None, *, iterating: bool = False
    ) -> PollResults | CallbackDue | None:
        """Return the next records, or a callback that is due, or None after `deadline`.

        An iterator (`iterating`) gets more records at once, because records that were not yielded can be taken back.
        """
        if iterating:
            limit, piece = max(ITERATION_RECORDS, self._max_records), self._max_records
        else:
            limit, piece = arguments.optional_number("max_records", max_records, 1) or self._max_records, 0
        return await self._step(deadline, lambda: self._take(limit, piece))

    async def step_rows(self, deadline: float, max_rows: int, headers: bool) -> RowResults | CallbackDue | None:
        """Like `step`, with rows of a table."""
        from moldau.records.arrow import ArrowRows

        rows = ArrowRows(headers=headers)
        most = arguments.number("max_rows", max_rows, 1)
        return await self._step(deadline, lambda: self._take_rows(rows, most))

    async def _step(self, deadline: float, take: Callable[[], T | None]) -> T | CallbackDue | None:
        self.check_open()
        self.take_back()
        if self.subscription.mode is Mode.NONE:
            raise IllegalStateError("this consumer reads nothing yet; call subscribe() or assign() first")
        loop = asyncio.get_running_loop()
        waited = False
        while True:
            self._answer_wakeup()
            now = loop.time()
            due = self._group.polled(now)
            if due is not None:
                return due
            self._assignment_changed()
            self._raise_errors()
            taken = take()
            if self.buffer.drained:
                self.fetcher.pump()
            if taken is not None:
                return taken
            if now >= deadline:
                if not waited:
                    await asyncio.sleep(0)  # an application that polls with time-out 0 must not starve the loop
                return None
            await self._changed.wait(min(deadline, now + self._slice_s))
            waited = True

    def _take(self, limit: int, piece: int) -> PollResults | None:
        results = self.buffer.take(limit, piece)
        if not results.records:
            return None
        self.subscription.in_hand = results
        self.records_handed_out += len(results.records)
        if 0 < piece < len(results.records):
            self._early_end = asyncio.get_running_loop().call_later(END_EARLY_S, results.end_early)
        return results

    def _take_rows(self, rows: ArrowRows, max_rows: int) -> RowResults | None:
        spans = self.buffer.take_rows(rows, max_rows)
        if not rows.rows:
            return None
        results = RowResults(rows.finish(), rows.rows, spans)
        self.subscription.in_hand = results
        self.records_handed_out += results.count
        return results

    def take_back(self) -> None:
        """Take back the records that an iterator holds and has not yielded, and rows that the application did not get.

        Every call that moves a position or changes the assignment does this first, so it starts from what the
        application has seen.
        """
        if self._early_end is not None:
            self._early_end.cancel()
            self._early_end = None
        results = self.subscription.in_hand
        if results is not None:
            self.subscription.in_hand = None
            if isinstance(results, RowResults):
                self.records_handed_out -= results.count if results.unread_spans() else 0
                self.buffer.give_back_rows(results)
                return
            assert isinstance(results, PollResults)
            self.records_handed_out -= len(results.records) - results.seen
            self.buffer.give_back(results)

    def mark_unread(self) -> None:
        """Do not count the records returned last as read, because the application failed on them."""
        if isinstance(self.subscription.in_hand, PollResults):
            self.subscription.in_hand.mark_unread()

    def callback_done(self, due: CallbackDue, error: BaseException | None) -> None:
        """Continue after a callback. An error of the listener is raised to the application and changes nothing here."""
        self._group.callback_done(due, error)
        self._assignment_changed()

    def wakeup(self) -> None:
        """Let the call that waits now, otherwise the next one, raise WakeupError. Called on the loop only."""
        self._woken = True
        self._changed.set()

    def _answer_wakeup(self) -> None:
        if self._woken:
            self._woken = False
            raise WakeupError("wakeup() was called")

    def _raise_errors(self) -> None:
        error = self._group.failure or self.positions.take_error() or self.fetcher.take_error()
        if error is None and self._topic_error is not None:
            error, self._topic_error = self._topic_error, None
            self.network.refresh_soon()
        if error is None:
            error = self._first_metadata_error()
        if error is not None:
            raise error

    def _fetch_first_metadata(self) -> None:
        """Fetch metadata once, so that poll raises an error if no broker of the cluster can be reached.

        Without this, poll would return no records for ever.
        """
        loop = asyncio.get_running_loop()
        self._first_metadata = loop.create_task(self.network.refreshed(self.deadline(None)), name="first metadata")
        self._first_metadata.add_done_callback(lambda _: self._changed.set())

    def _first_metadata_error(self) -> MoldauError | None:
        first = self._first_metadata
        if first is None or not first.done():
            return None
        self._first_metadata = None
        error = None if first.cancelled() else first.exception()
        if not isinstance(error, MoldauError):
            return None
        self._fetch_first_metadata()
        return error

    # -- positions -------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int | None = None) -> None:
        self.check_open()
        if offset < 0:
            raise IllegalStateError(f"seek to {offset}: an offset is not negative; see seek_to_beginning, seek_to_end")
        state = self.subscription.state(partition)
        self.take_back()
        state.seek(offset, NO_EPOCH if leader_epoch is None else leader_epoch)
        self._moved()

    def seek_to(self, reset: Reset, partitions: Collection[TopicPartition] | None) -> None:
        self.check_open()
        chosen = list(self.subscription.assigned) if not partitions else list(partitions)
        states = [self.subscription.state(partition) for partition in chosen]
        self.take_back()
        for state in states:
            state.ask_reset(reset)
        self._moved()

    def seek_to_beginning(self, partitions: Collection[TopicPartition] | None) -> None:
        self.seek_to(EARLIEST, partitions)

    def seek_to_end(self, partitions: Collection[TopicPartition] | None) -> None:
        self.seek_to(LATEST, partitions)

    def pause(self, partitions: Iterable[TopicPartition], paused: bool = True) -> None:
        """Pause or resume partitions. Records that were fetched for them stay in the buffer."""
        self.check_open()
        states = [self.subscription.state(partition) for partition in partitions]
        self.take_back()
        for state in states:
            state.paused = paused
        self._moved()

    def _moved(self) -> None:
        self.positions.note_leaders()
        self.positions.pump()
        self.fetcher.pump()

    async def position(self, partition: TopicPartition, deadline: float) -> int:
        """Return the offset of the next record that the application will get; look it up if it is not known yet."""
        while True:
            self.check_open()
            self._answer_wakeup()
            consumed = self.subscription.consumed(partition)
            if consumed is not None:
                return consumed[0]
            self.positions.pump()
            self._raise_errors()
            if asyncio.get_running_loop().time() >= deadline:
                raise TimedOut(f"the position of {partition} was not found in time")
            await self._changed.wait(deadline)

    # -- commits ---------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Offsets | None, deadline: float) -> None:
        self.check_open()
        await self._group.commit(offsets, deadline)

    def commit_async(self, offsets: Offsets | None, on_commit: OnCommit | None) -> None:
        self.check_open()
        self._group.commit_async(offsets, on_commit)

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        self.check_open()
        return await self._group.committed(partitions, deadline)

    def group_metadata(self) -> GroupMetadata:
        self.check_open()
        return self._group.group_metadata()
