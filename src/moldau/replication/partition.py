"""One hosted partition: its log, its high watermark, and those who wait for it to move.

Readers wait for bytes (a long-poll fetch), writers wait for their records to be safe (a produce whose flush or
replication is under way). Both are told by the move of the high watermark; nobody polls.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from moldau.log.errors import LogError
from moldau.log.log import AppendResult, Log
from moldau.wire.errors import ErrorCode

NO_EPOCH = -1


class ReadWaiter(Protocol):
    """Somebody who waits for bytes to become readable."""

    def bytes_arrived(self, count: int) -> None: ...

    def partition_changed(self) -> None:
        """The partition went away or failed: look again."""


class AckWaiter(Protocol):
    """Somebody who waits until an offset is below the high watermark."""

    def acknowledged(self, error: ErrorCode) -> None: ...


class Partition:
    __slots__ = (
        "_ack_waiters",
        "_read_waiters",
        "_shown_bytes",
        "failure",
        "flushing",
        "high_watermark",
        "in_sync_count",
        "index",
        "leader_epoch",
        "log",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str, topic_id: bytes, index: int, log: Log, leader_epoch: int, in_sync_count: int
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.in_sync_count = in_sync_count
        self.high_watermark = log.end_offset  # what was there before we were has been seen: it cannot be hidden again
        self.failure = ErrorCode.NONE
        """Why nothing can be done with it: its directory failed, or it is being deleted."""
        self.flushing = False
        self._shown_bytes = log.appended_bytes
        self._read_waiters: dict[ReadWaiter, None] = {}
        self._ack_waiters: deque[tuple[int, AckWaiter]] = deque()  # by offset, ascending

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    # -- checks ----------------------------------------------------------------------------------------------------

    def epoch_error(self, current_leader_epoch: int) -> ErrorCode:
        """What to tell a client that believes the leader's epoch to be this."""
        if current_leader_epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

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

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, records: memoryview, now_ms: int, *, all_replicas: bool = False) -> AppendResult:
        """Append a client's batch. Raises LogError, with the code to answer.

        With `all_replicas` (acks=all) the topic's `min.insync.replicas` must be there to take it.
        """
        if self.failure:
            raise LogError(self.failure, f"{self.topic}-{self.index} is not available: {self.failure.name}")
        log = self.log
        if all_replicas and self.in_sync_count < log.config.min_insync_replicas:
            raise LogError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.in_sync_count} replicas of {self.topic}-{self.index} are in sync, "
                f"min.insync.replicas is {log.config.min_insync_replicas}",
            )
        result = log.append(records, self.leader_epoch, now_ms)
        self.advance()
        return result

    def advance(self) -> None:
        """Let the high watermark follow the log, and tell those who waited for it.

        On one node the only thing that holds it back is a flush that the topic's settings demand before a record may be
        seen.
        """
        log = self.log
        visible = log.flush_barrier
        if visible <= self.high_watermark:
            return
        self.high_watermark = visible
        if self._read_waiters:
            arrived = log.appended_bytes - self._shown_bytes
            for waiter in list(self._read_waiters):
                waiter.bytes_arrived(arrived)
        self._shown_bytes = log.appended_bytes
        acks = self._ack_waiters
        while acks and acks[0][0] <= visible:
            acks.popleft()[1].acknowledged(ErrorCode.NONE)

    def is_safe(self, next_offset: int) -> bool:
        """Whether all below `next_offset` may be acknowledged."""
        return next_offset <= self.high_watermark

    def moved_to(self, log: Log) -> None:
        """Another log holds the very same records, in another directory: it is this partition's from now on."""
        self._shown_bytes += log.appended_bytes - self.log.appended_bytes
        self.log = log

    def truncated(self) -> None:
        """The log was cut or its start moved: what is visible follows."""
        self.high_watermark = min(self.high_watermark, self.log.end_offset)

    # -- waiting ---------------------------------------------------------------------------------------------------

    def await_bytes(self, waiter: ReadWaiter) -> None:
        self._read_waiters[waiter] = None

    def forget_reader(self, waiter: ReadWaiter) -> None:
        self._read_waiters.pop(waiter, None)

    def await_ack(self, next_offset: int, waiter: AckWaiter) -> None:
        self._ack_waiters.append((next_offset, waiter))

    def fail(self, error: ErrorCode) -> None:
        """Nothing more will happen here: answer all who wait."""
        self.failure = error
        for waiter in list(self._read_waiters):
            waiter.partition_changed()
        self.fail_acks(error)

    def fail_acks(self, error: ErrorCode) -> None:
        """What was appended may or may not be safe: nobody is told that it is."""
        while self._ack_waiters:
            self._ack_waiters.popleft()[1].acknowledged(error)
