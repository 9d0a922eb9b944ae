"""One hosted partition: its log, its role, its high watermark, and those who wait for it to move.

It leads, or follows another broker, or is offline. Its role changes as the cluster's image says (`manager` tells it);
who may write, read and acknowledge follows from the role and is decided here.

Consumers wait for bytes below the high watermark, followers for bytes in the log, writers for their records to be safe
(a produce whose flush or replication is under way). All are told by events; nobody polls.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from moldau.cluster.image import NO_LEADER, PartitionState
from moldau.log.errors import LogError, OffsetOutOfRange
from moldau.log.log import AppendResult, Log
from moldau.replication.leadership import Leadership
from moldau.replication.refusals import Refusals
from moldau.wire.errors import ErrorCode

NO_EPOCH: Final = -1
NOWHERE: Final = -1
"""How far a partition that does not lead may move its own high watermark."""


class ReadWaiter(Protocol):
    """Somebody who waits for bytes to become readable."""

    def bytes_arrived(self, count: int) -> None: ...

    def partition_changed(self) -> None:
        """The partition went away, failed or has another role: look again."""


class CopyWaiter(ReadWaiter, Protocol):
    """A follower that waits for bytes in the log, whether consumers may see them or not."""

    def high_watermark_moved(self) -> None:
        """There is something to tell it, if nothing else comes."""


class AckWaiter(Protocol):
    """Somebody who waits until an offset is safe."""

    def acknowledged(self, error: ErrorCode) -> None: ...


class Copying(Protocol):
    """What brings a follower's records here."""

    def flushed(self) -> None:
        """The log's flush is done: what it has may be claimed."""


class Partition:
    __slots__ = (
        "_ack_waiters",
        "_copied_bytes",
        "_copy_waiters",
        "_flush_waiters",
        "_reach",
        "_read_waiters",
        "_refusals",
        "_shown_bytes",
        "_start_waiters",
        "copying",
        "failure",
        "flushing",
        "high_watermark",
        "in_sync_count",
        "index",
        "leader_epoch",
        "leader_id",
        "leadership",
        "leads",
        "log",
        "refusal",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, log: Log, high_watermark: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leads = False
        self.leadership: Leadership | None = None
        """What is known of the followers, while this broker leads."""
        self.copying: Copying | None = None
        """Where the records come from, while this broker follows."""
        self.in_sync_count = 0
        self.high_watermark = max(min(high_watermark, log.end_offset), log.start_offset)
        self.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        """Why nothing may be appended here; NONE while it leads."""
        self.failure = ErrorCode.NONE
        """Why nothing can be done with it: its directory failed, or it is being deleted."""
        self.flushing = False
        self._refusals: Refusals | None = None
        """From the first batch on that was refused."""
        self._reach = NOWHERE
        """How far the high watermark may go for what the followers have."""
        self._shown_bytes = self._copied_bytes = log.appended_bytes
        self._read_waiters: dict[ReadWaiter, None] = {}
        self._copy_waiters: dict[CopyWaiter, None] = {}
        self._ack_waiters: deque[tuple[int, AckWaiter]] = deque()  # by offset, ascending
        self._flush_waiters: deque[tuple[int, AckWaiter]] = deque()
        self._start_waiters: list[tuple[int, AckWaiter]] = []

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    # -- roles -----------------------------------------------------------------------------------------------------

    def lead(self, node_id: int, state: PartitionState, now: float) -> None:
        """A new leader epoch is ours. `refresh` says how far the high watermark may go in it.

        The high watermark stays what it was: below it everything was committed by earlier leaders. Of the followers
        nothing is known yet: what they had in an earlier epoch they may have cut off since.
        """
        self.copying = None
        self.leader_id = node_id
        self.leader_epoch = state.leader_epoch
        self.leadership = Leadership(node_id, state, self.log.end_offset, now)
        self.in_sync_count = len(state.isr)
        self._reach = self.high_watermark
        if not self.failure:
            self.leads = True
            self.refusal = ErrorCode.NONE
        self._wake_readers()

    def follow(self, leader_id: int, leader_epoch: int) -> None:
        """Another broker leads, or nobody. Whoever wrote here and was not answered must ask there."""
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.stop_leading()

    def stop_leading(self) -> None:
        """We do not lead, whoever does. The epoch stays known: we never lead in it again."""
        self.leads = False
        self.leadership = None
        self._reach = NOWHERE
        if not self.failure:
            self.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.fail_acks(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._wake_readers()

    def refresh(self, now: float, max_lag_s: float) -> bool:
        """What followers have, or who is in sync, has changed: see how far the high watermark may go now.

        Returns whether it waits for a follower that is about to come into the in-sync set.
        """
        leadership = self.leadership
        if leadership is None or not self.leads:
            return False
        self.in_sync_count = len(leadership.isr)
        self._reach, held = leadership.reach(self.high_watermark, self.log.config.min_insync_replicas, now, max_lag_s)
        self.advance()
        return held

    # -- checks ----------------------------------------------------------------------------------------------------

    def leader_error(self) -> ErrorCode:
        """What to tell those who must ask the leader; NONE where that is us."""
        return self.failure or self.refusal

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """What to tell a client that believes the leader's epoch to be this."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def knows_its_end(self) -> bool:
        """False for a new leader until its high watermark has reached where its epoch began: what it could call the
        latest offset may be less than an earlier leader has told."""
        return self.leadership is None or self.high_watermark >= self.leadership.start_offset

    @property
    def lacks_replicas(self) -> bool:
        """Whether it leads, and one of its replicas is not in sync."""
        leadership = self.leadership
        return leadership is not None and len(leadership.isr) < len(leadership.state.replicas)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of an offset; the log's end belongs to the current one, whose records come there."""
        return self.leader_epoch if offset >= self.log.end_offset else self.log.epochs.epoch_at(offset)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above the asked one, and where it ends; (-1, -1) for one that has not come.

        The log knows an epoch from its first record on. The leader is there before: until it has written, its epoch
        begins and ends at the log's end. A reader that waits at an empty log must not be told that it is lost.
        """
        log = self.log
        known, end_offset = log.epoch_end_offset(epoch)
        if end_offset >= 0 or not 0 <= epoch <= self.leader_epoch:
            return known, end_offset
        if epoch == self.leader_epoch or log.latest_epoch < 0:
            return epoch, log.end_offset
        return log.latest_epoch, log.end_offset

    def parting(self, offset: int, last_epoch: int) -> tuple[int, int] | None:
        """Whether the log of a reader that has all below `offset`, the last of it in `last_epoch`, is the same as this
        one so far: None. Else the largest epoch here that is not above it, and where that ends: beyond, they differ.

        Raises OffsetOutOfRange where the offset is outside of this log.
        """
        log = self.log
        if last_epoch >= 0:
            epoch, end_offset = self.epoch_end_offset(last_epoch)
            if end_offset >= 0 and (epoch < last_epoch or end_offset < offset):
                return epoch, end_offset
            if end_offset < 0:
                raise OffsetOutOfRange(f"epoch {last_epoch} is beyond {self!r}, which is at {self.leader_epoch}")
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is outside of {self!r}, {log.start_offset} to {log.end_offset}")
        return None

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(
        self, records: memoryview, now_ms: int, *, all_replicas: bool = False, coordinator: bool = False
    ) -> AppendResult:
        """Append a batch as the leader. Raises LogError, with the code to answer.

        With `all_replicas` (acks=all) the topic's `min.insync.replicas` must be there to take it. With `coordinator`
        it is the broker's own.
        """
        log = self.log
        try:
            if self.refusal:
                code = self.failure or self.refusal
                raise LogError(code, f"{self.topic}-{self.index} cannot be written to here: {code.name}")
            if all_replicas and self.in_sync_count < log.config.min_insync_replicas:
                raise LogError(
                    ErrorCode.NOT_ENOUGH_REPLICAS,
                    f"{self.in_sync_count} replicas of {self.topic}-{self.index} are in sync, "
                    f"min.insync.replicas is {log.config.min_insync_replicas}",
                )
            if self._refusals is not None and not coordinator:
                self._refusals.check(records, now_ms, log.producers)
            result = log.append(records, self.leader_epoch, now_ms, coordinator=coordinator)
        except LogError as error:
            if not coordinator:
                self._refusals = self._refusals or Refusals()
                self._refusals.note(records, error.code, now_ms)
            raise
        self.advance()
        return result

    def advance(self) -> None:
        """The log has grown, or was flushed: let the high watermark follow as far as it may, and tell those who wait.

        With one replica the only thing that holds it back is a flush that the topic's settings demand before a record
        may be seen.
        """
        log = self.log
        visible = log.flush_barrier
        if self._copy_waiters:
            arrived = log.appended_bytes - self._copied_bytes
            if arrived:
                for waiter in list(self._copy_waiters):
                    waiter.bytes_arrived(arrived)
        self._copied_bytes = log.appended_bytes
        if self._flush_waiters:
            _acknowledge(self._flush_waiters, visible)
        if self.copying is not None:
            self.copying.flushed()
        if visible > self._reach:
            visible = self._reach
        if visible > self.high_watermark:
            self._show(visible)

    def follow_high_watermark(self, offset: int) -> None:
        """The leader's, as it told a follower."""
        visible = min(offset, self.log.end_offset)
        if visible > self.high_watermark:
            self._show(visible)

    def _show(self, visible: int) -> None:
        self.high_watermark = visible
        log = self.log
        if self._read_waiters:
            arrived = log.appended_bytes - self._shown_bytes
            for waiter in list(self._read_waiters):
                waiter.bytes_arrived(arrived)
        self._shown_bytes = log.appended_bytes
        if self._ack_waiters:
            _acknowledge(self._ack_waiters, visible)
        for follower in list(self._copy_waiters):
            follower.high_watermark_moved()

    def is_safe(self, next_offset: int) -> bool:
        """Whether all below `next_offset` is where it must be for acks=all: on all replicas in sync."""
        return next_offset <= self.high_watermark

    def is_stored(self, next_offset: int) -> bool:
        """Whether all below `next_offset` is where it must be for acks=1: here, and flushed if the topic asks so."""
        return next_offset <= self.log.flush_barrier

    def moved_to(self, log: Log) -> None:
        """Another log holds the very same records, in another directory: it is this partition's from now on."""
        self._shown_bytes += log.appended_bytes - self.log.appended_bytes
        self._copied_bytes += log.appended_bytes - self.log.appended_bytes
        self.log = log

    def truncated(self) -> None:
        """The log was cut or its start moved: what is visible follows."""
        self.high_watermark = max(min(self.high_watermark, self.log.end_offset), self.log.start_offset)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def await_bytes(self, waiter: ReadWaiter) -> None:
        self._read_waiters[waiter] = None

    def await_copy(self, waiter: CopyWaiter) -> None:
        self._copy_waiters[waiter] = None

    def forget_reader(self, waiter: ReadWaiter) -> None:
        self._read_waiters.pop(waiter, None)

    def forget_copier(self, waiter: CopyWaiter) -> None:
        self._copy_waiters.pop(waiter, None)

    def await_ack(self, next_offset: int, waiter: AckWaiter) -> None:
        """For acks=all: until the high watermark is there."""
        _queue(self._ack_waiters, next_offset, waiter)

    def await_flush(self, next_offset: int, waiter: AckWaiter) -> None:
        """For acks=1."""
        _queue(self._flush_waiters, next_offset, waiter)

    def await_start(self, offset: int, waiter: AckWaiter) -> None:
        """Until no live replica's log begins before this offset."""
        self._start_waiters.append((offset, waiter))

    @property
    def start_is_awaited(self) -> bool:
        return bool(self._start_waiters)

    def replicas_start_at(self, offset: int) -> None:
        """No live replica's log begins before this offset."""
        waiters, self._start_waiters = self._start_waiters, []
        for wanted, waiter in waiters:
            if wanted <= offset:
                waiter.acknowledged(ErrorCode.NONE)
            else:
                self._start_waiters.append((wanted, waiter))

    def start_moved(self) -> None:
        """The log begins later now: followers are told soon."""
        self.truncated()
        for follower in list(self._copy_waiters):
            follower.high_watermark_moved()

    def fail(self, error: ErrorCode) -> None:
        """Nothing more will happen here: answer all who wait."""
        self.failure = self.refusal = error
        self.leads = False
        self.leadership = None
        self.copying = None
        self._reach = NOWHERE
        self._wake_readers()
        self.fail_acks(error)

    def fail_acks(self, error: ErrorCode) -> None:
        """What was appended may or may not be safe: nobody is told that it is."""
        starts, self._start_waiters = self._start_waiters, []
        for _, waiter in starts:
            waiter.acknowledged(error)
        for waiters in (self._ack_waiters, self._flush_waiters):
            while waiters:
                waiters.popleft()[1].acknowledged(error)

    def _wake_readers(self) -> None:
        for waiter in [*self._read_waiters, *self._copy_waiters]:
            waiter.partition_changed()


def _queue(waiters: deque[tuple[int, AckWaiter]], offset: int, waiter: AckWaiter) -> None:
    """Nearly always at the end: only the repetition of a batch that is not safe yet waits for an earlier offset."""
    at = len(waiters)
    while at and waiters[at - 1][0] > offset:
        at -= 1
    waiters.insert(at, (offset, waiter))


def _acknowledge(waiters: deque[tuple[int, AckWaiter]], offset: int) -> None:
    while waiters and waiters[0][0] <= offset:
        waiters.popleft()[1].acknowledged(ErrorCode.NONE)
