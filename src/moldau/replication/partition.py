"""Hosted partition: its log, its role, its high watermark, and the requests that wait for it.

A partition leads, follows another broker, or is offline. `manager` changes its role when the cluster image changes. The
role determines which writes, reads and acknowledgements are allowed; this module decides that.

Consumers wait for bytes below the high watermark, followers for bytes in the log, and writers until their records are
safe (while a flush or the replication is in progress). Events wake all of them; nothing polls.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from moldau.cluster.image import NO_LEADER, PartitionState
from moldau.cluster.isr import is_under_min_isr
from moldau.log.epochs import NO_EPOCH
from moldau.log.errors import LogError, OffsetNotInLog
from moldau.log.log import AppendResult, Log
from moldau.replication.leadership import Leadership
from moldau.replication.retry_order import RetryOrder
from moldau.wire.errors import ErrorCode
from moldau.wire.number_types import LeaderEpoch

NOWHERE: Final = -1
"""The limit of the high watermark for a partition that does not lead: it never moves it by itself."""


class ReadWaiter(Protocol):
    """A request that waits for readable bytes."""

    def bytes_arrived(self, count: int) -> None: ...

    def partition_changed(self) -> None:
        """The partition was deleted, failed or changed its role: check again."""


class CopyWaiter(ReadWaiter, Protocol):
    """A follower's fetch that waits for bytes in the log, also above the high watermark."""

    def high_watermark_moved(self) -> None:
        """Answer soon with the new high watermark, even if no bytes arrive."""


class AckWaiter(Protocol):
    """A request that waits until an offset is safe."""

    def acknowledged(self, error: ErrorCode) -> None: ...


class Copying(Protocol):
    """The follower side that copies records to this partition."""

    def flushed(self) -> None:
        """The log was flushed: the follower may report its records to the leader."""


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
        """The state of the followers, while this broker leads."""
        self.copying: Copying | None = None
        """The copying from the leader, while this broker follows."""
        self.in_sync_count = 0
        self.high_watermark = max(min(high_watermark, log.end_offset), log.start_offset)
        self.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        """The reason why appends are refused; NONE while it leads."""
        self.failure = ErrorCode.NONE
        """The reason why the partition is unusable: its directory failed, or it is being deleted."""
        self.flushing = False
        self._refusals: RetryOrder | None = None
        """Created when the first batch is refused."""
        self._reach = NOWHERE
        """The limit of the high watermark, from the offsets of the followers."""
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
        """Start to lead in a new leader epoch. `refresh` then determines the limit of the high watermark.

        The high watermark does not change: everything below it was committed by earlier leaders. Nothing is known of
        the followers yet: they may have truncated records that they had in an earlier epoch.
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

    def follow(self, leader_id: int, leader_epoch: LeaderEpoch) -> None:
        """Another broker leads, or none. Requests that wait here get an error and must ask the new leader."""
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.stop_leading()

    def stop_leading(self) -> None:
        """Stop leading, whichever broker leads now. The epoch stays known: this broker never leads in it again."""
        self.leads = False
        self.leadership = None
        self._reach = NOWHERE
        if not self.failure:
            self.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self.fail_acks(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._wake_readers()

    def refresh(self, now: float, max_lag_s: float) -> bool:
        """Recompute the limit of the high watermark, after followers or in-sync replicas have changed.

        Returns whether the high watermark waits for a follower that is about to join the in-sync replicas.
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
        """The error for requests that only the leader may answer; NONE if this broker leads."""
        return self.failure or self.refusal

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """The error for a client with this leader epoch."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    @property
    def knows_its_end(self) -> bool:
        """False for a new leader until its high watermark has reached the start of its epoch: before that, its latest
        offset may be lower than one that an earlier leader has reported."""
        return self.leadership is None or self.high_watermark >= self.leadership.start_offset

    @property
    def lacks_replicas(self) -> bool:
        """Whether it leads and one of its replicas is not in sync."""
        leadership = self.leadership
        return leadership is not None and len(leadership.isr) < len(leadership.state.replicas)

    @property
    def under_min_isr(self) -> bool:
        """Whether it leads and has too few in-sync replicas for acks=all."""
        configured = self.log.config.min_insync_replicas
        # The first comparison decides nearly always; every append calls this.
        if self.in_sync_count >= configured or self.leadership is None:
            return False
        return is_under_min_isr(self.leadership.state, configured)

    def epoch_at(self, offset: int) -> LeaderEpoch:
        """The leader epoch of an offset. The log end offset belongs to the current epoch, because its next record goes
        there."""
        return self.leader_epoch if offset >= self.log.end_offset else self.log.epochs.epoch_at(offset)

    def epoch_end_offset(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, int]:
        """The largest epoch not above the given one, and its end offset; (-1, -1) for a future epoch.

        The log knows an epoch from its first record on, but the leader exists before that: until it has written, its
        epoch begins and ends at the log end offset. Otherwise a reader that waits at an empty log would get an error.
        """
        log = self.log
        known, end_offset = log.epoch_end_offset(epoch)
        if end_offset >= 0 or not 0 <= epoch <= self.leader_epoch:
            return known, end_offset
        if epoch == self.leader_epoch or log.latest_epoch < 0:
            return epoch, log.end_offset
        return log.latest_epoch, log.end_offset

    def diverging_epoch(self, offset: int, last_epoch: LeaderEpoch) -> tuple[LeaderEpoch, int] | None:
        """Compare with the log of a reader that has all records below `offset`, the last one in `last_epoch`.

        Returns None if both logs are equal up to there. Otherwise returns the largest epoch here that is not above
        `last_epoch`, and its end offset: after that, the logs differ. Raises OffsetNotInLog if the offset is outside
        this log.
        """
        log = self.log
        if last_epoch >= 0:
            epoch, end_offset = self.epoch_end_offset(last_epoch)
            if end_offset >= 0 and (epoch < last_epoch or end_offset < offset):
                return epoch, end_offset
            if end_offset < 0:
                raise OffsetNotInLog(f"epoch {last_epoch} is beyond {self!r}, which is at {self.leader_epoch}")
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetNotInLog(f"offset {offset} is outside {self!r}, {log.start_offset} to {log.end_offset}")
        return None

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(
        self, records: memoryview, now_ms: int, *, all_replicas: bool = False, coordinator: bool = False
    ) -> AppendResult:
        """Append a batch as the leader. Raises LogError with the error code for the client.

        With `all_replicas` (acks=all), the partition must have `min.insync.replicas` in-sync replicas. With
        `coordinator`, the batch is the broker's own.
        """
        log = self.log
        try:
            if self.refusal:
                code = self.failure or self.refusal
                raise LogError(code, f"{self.topic}-{self.index} cannot be written to here: {code.name}")
            if all_replicas and self.under_min_isr:
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
                self._refusals = self._refusals or RetryOrder()
                self._refusals.note(records, error.code, now_ms)
            raise
        self.advance()
        return result

    def advance(self) -> None:
        """Move the high watermark as far as allowed, after the log has grown or was flushed, and wake waiting requests.

        With one replica, only a flush that the topic's settings require before a record is visible delays it.
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
        """Set the high watermark that the leader reported to this follower."""
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
        """Whether all records below `next_offset` are safe for acks=all: on all in-sync replicas."""
        return next_offset <= self.high_watermark

    def is_stored(self, next_offset: int) -> bool:
        """Whether all records below `next_offset` are safe for acks=1: in this log, and flushed if the topic requires
        it."""
        return next_offset <= self.log.flush_barrier

    def moved_to(self, log: Log) -> None:
        """Replace the log by one with the same records in another directory."""
        self._shown_bytes += log.appended_bytes - self.log.appended_bytes
        self._copied_bytes += log.appended_bytes - self.log.appended_bytes
        self.log = log

    def truncated(self) -> None:
        """The log was truncated or its start moved: adjust the high watermark."""
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
        """For acks=all: wait until the high watermark reaches this offset."""
        _queue(self._ack_waiters, next_offset, waiter)

    def await_flush(self, next_offset: int, waiter: AckWaiter) -> None:
        """For acks=1: wait until the log is flushed up to this offset."""
        _queue(self._flush_waiters, next_offset, waiter)

    def await_start(self, offset: int, waiter: AckWaiter) -> None:
        """Wait until the log of no live replica begins before this offset."""
        self._start_waiters.append((offset, waiter))

    @property
    def start_is_awaited(self) -> bool:
        return bool(self._start_waiters)

    def replicas_start_at(self, offset: int) -> None:
        """The log of no live replica begins before this offset: answer the requests that wait for it."""
        waiters, self._start_waiters = self._start_waiters, []
        for wanted, waiter in waiters:
            if wanted <= offset:
                waiter.acknowledged(ErrorCode.NONE)
            else:
                self._start_waiters.append((wanted, waiter))

    def start_moved(self) -> None:
        """The log start offset has moved: answer followers soon, so that they learn it."""
        self.truncated()
        for follower in list(self._copy_waiters):
            follower.high_watermark_moved()

    def fail(self, error: ErrorCode) -> None:
        """Make the partition unusable, and answer all waiting requests with this error."""
        self.failure = self.refusal = error
        self.leads = False
        self.leadership = None
        self.copying = None
        self._reach = NOWHERE
        self._wake_readers()
        self.fail_acks(error)

    def fail_acks(self, error: ErrorCode) -> None:
        """Answer all waiting writers with an error: their records may or may not be safe."""
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
    """Insert in order of offsets, nearly always at the end: only a retry of a batch that is not safe yet waits for an
    earlier offset."""
    at = len(waiters)
    while at and waiters[at - 1][0] > offset:
        at -= 1
    waiters.insert(at, (offset, waiter))


def _acknowledge(waiters: deque[tuple[int, AckWaiter]], offset: int) -> None:
    while waiters and waiters[0][0] <= offset:
        waiters.popleft()[1].acknowledged(ErrorCode.NONE)
