"""The consumer itself, without a face: everything that happens between the application's calls and the network.

Owned by one event loop. The asyncio consumer and the blocking one drive it in the same way: they call `step`, and get
records, or a callback that is due (which they make themselves, in the application's own task or thread, and then report
with `callback_done`), or None when the time is over. So there is one implementation, listeners run where the
application runs, and a listener may call the consumer without waiting for itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from moldau.client.consumer.buffer import FetchBuffer
from moldau.client.consumer.commits import Offsets, OnCommit
from moldau.client.consumer.fetcher import Fetcher
from moldau.client.consumer.group import Group, group_of
from moldau.client.consumer.handout import Handout
from moldau.client.consumer.lookup import OffsetLookup
from moldau.client.consumer.membership.membership import GroupMetadata
from moldau.client.consumer.model import EARLIEST, LATEST, CallbackDue, Reset, reset_of
from moldau.client.consumer.positions import Positions
from moldau.client.consumer.signal import Signal
from moldau.client.consumer.subscription import NO_EPOCH, Mode, Subscription
from moldau.client.errors import ClosedError, IllegalStateError, MoldauError, TimedOut, WakeupError, error_for
from moldau.client.metadata import ClusterMetadata
from moldau.client.model import OffsetAndMetadata, TopicPartition
from moldau.client.network import Network
from moldau.client.settings import ClientSettings
from moldau.host.clock import Clock, SystemClock
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.records.arrow import ArrowRows

T = TypeVar("T")

ITERATION_RECORDS: Final = 4_096
"""How many records an iterator takes at once: enough that a hop to another thread does not count."""

RECALL_S: Final = 0.1
"""An iterator that has not come back for so long keeps max.poll.records, as a poll would have given it, and no more:
a slow application has to come back to its group in time."""

SLICE_S: Final = 0.5
"""How long `step` sleeps at most before it shows the group again that the application is waiting in poll."""


class ConsumerCore:
    """One consumer. See the module."""

    def __init__(self, settings: ClientSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self.subscription = Subscription()
        self.network = Network(settings)
        self.buffer = FetchBuffer(self.subscription)
        self.lookup = OffsetLookup(self.network, settings)
        self.policy = reset_of(settings["auto.offset.reset"])
        self.records_handed_out = 0
        self._changed = Signal()
        self._max_records: int = settings["max.poll.records"]
        self._api_timeout_s = settings["default.api.timeout.ms"] / 1_000
        self._slice_s = min(SLICE_S, settings["max.poll.interval.ms"] / 4_000)
        self._group: Group = group_of(self.network, settings, self.subscription, self._something_changed)
        self._assigned_before: tuple[TopicPartition, ...] = ()
        self._topic_error: MoldauError | None = None
        self._first_contact: asyncio.Task[ClusterMetadata] | None = None
        self._recall: asyncio.TimerHandle | None = None
        self._woken = False
        self._started = False
        self._closed = False

    async def start(self) -> None:
        """Begin to learn about the cluster. A broker that is away is no error yet; the calls that need it will say."""
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
        self._begin_contact()

    async def close(self, deadline: float) -> None:
        """Commit if that is automatic, leave the group, and end everything. Never half: also when cancelled."""
        if self._closed:
            return
        self.take_back()
        self._closed = True
        if not self._started:
            return
        try:
            await self._group.close(deadline)
        finally:
            if self._first_contact is not None:
                self._first_contact.cancel()
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
        """When a call with this time-out has to be over; without one, after default.api.timeout.ms."""
        return asyncio.get_running_loop().time() + (self._api_timeout_s if timeout_s is None else max(timeout_s, 0.0))

    # -- what to read ----------------------------------------------------------------------------------------------

    async def subscribe(self, topics: Iterable[str]) -> None:
        self._prepare_change()
        names = list(topics)
        self.subscription.subscribe(names)
        await self._group.subscribed()
        self._something_changed()

    async def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        self._prepare_change()
        self.subscription.subscribe_pattern(pattern)
        await self._group.subscribed()
        self._something_changed()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._prepare_change()
        before = self.subscription.topics
        self.subscription.assign(partitions)
        self.network.follow(self.subscription.topics)
        self.network.unfollow([topic for topic in before if topic not in self.subscription.topics])
        self._assignment_changed()

    async def unsubscribe(self, deadline: float) -> None:
        """Read nothing more, and leave the group; `before_leaving` has been told."""
        self._prepare_change()
        if self.subscription.uses_group:
            await self._group.leave(deadline)
        else:
            self.network.unfollow(self.subscription.topics)
        self.subscription.unsubscribe()
        self._assignment_changed()

    async def before_leaving(self, deadline: float) -> CallbackDue | None:
        """Commit, where that is automatic; then what the application should hear before `unsubscribe` or `close`."""
        self.take_back()
        if not self._started or self._closed:
            return None
        return await self._group.before_leaving(deadline) if self.subscription.uses_group else None

    def _prepare_change(self) -> None:
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
    ) -> Handout | CallbackDue | None:
        """The next thing for the application, at the latest when `deadline` has come: then it may be None.

        Whoever is `iterating` gets more at once, since what was not yielded can be had back.
        """
        if iterating:
            limit, piece = max(ITERATION_RECORDS, self._max_records), self._max_records
        else:
            limit, piece = self._max_records if max_records is None else max_records, 0
        return await self._step(deadline, lambda: self._take(limit, piece))

    async def step_rows(self, deadline: float, max_rows: int, headers: bool) -> pa.RecordBatch | CallbackDue | None:
        """As `step`, with rows of a table: they are the application's at once."""
        from moldau.records.arrow import ArrowRows

        rows = ArrowRows(headers=headers)
        outcome = await self._step(deadline, lambda: self._take_rows(rows, max_rows))
        return outcome.finish() if isinstance(outcome, ArrowRows) else outcome

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
                    await asyncio.sleep(0)  # whoever polls without waiting must not keep the loop from working
                return None
            await self._changed.wait(min(deadline, now + self._slice_s))
            waited = True

    def _take(self, limit: int, piece: int) -> Handout | None:
        handout = self.buffer.take(limit, piece)
        if not handout.records:
            return None
        self.subscription.in_hand = handout
        self.records_handed_out += len(handout.records)
        if 0 < piece < len(handout.records):
            self._recall = asyncio.get_running_loop().call_later(RECALL_S, handout.recall)
        return handout

    def _take_rows(self, rows: ArrowRows, max_rows: int) -> ArrowRows | None:
        self.buffer.take_rows(rows, max_rows)
        self.records_handed_out += rows.rows
        return rows if rows.rows else None

    def take_back(self) -> None:
        """What an iterator holds and has not yielded goes back: whatever comes now begins where the application is."""
        if self._recall is not None:
            self._recall.cancel()
            self._recall = None
        handout = self.subscription.in_hand
        if handout is not None:
            self.subscription.in_hand = None
            assert isinstance(handout, Handout)
            self.records_handed_out -= len(handout.records) - handout.seen
            self.buffer.give_back(handout)

    def disown(self) -> None:
        """What the application was given last does not count as read: it has failed on it."""
        if isinstance(self.subscription.in_hand, Handout):
            self.subscription.in_hand.disown()

    def callback_done(self, due: CallbackDue, error: BaseException | None) -> None:
        """The application has heard of it; an error of its listener is raised to it, and changes nothing here."""
        self._group.callback_done(due, error)
        self._assignment_changed()

    def wakeup(self) -> None:
        """End the call that waits now, or else the next one, with WakeupError. In the loop; facades bring it there."""
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
            error = self._contact_error()
        if error is not None:
            raise error

    def _begin_contact(self) -> None:
        """Somebody has to hear when there is no cluster to be found at all: reading nothing for ever is no answer."""
        loop = asyncio.get_running_loop()
        self._first_contact = loop.create_task(self.network.refreshed(self.deadline(None)), name="first contact")
        self._first_contact.add_done_callback(lambda _: self._changed.set())

    def _contact_error(self) -> MoldauError | None:
        contact = self._first_contact
        if contact is None or not contact.done():
            return None
        self._first_contact = None
        error = None if contact.cancelled() else contact.exception()
        if not isinstance(error, MoldauError):
            return None
        self._begin_contact()
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
        """Hand out nothing of these, or again; what was fetched for them is kept."""
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
        """The offset of the next record that the application will get; looked up where it is not known yet."""
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
