"""One partition that is copied from its leader: what to ask for next, and what to do with an answer.

Everything happens on the loop, without waiting: append, cut, raise the start, move the high watermark. When and over
which connection is `fetcher`'s business.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum, auto
from typing import Final, Protocol

from moldau.log.errors import LogError
from moldau.records import HEADER_SIZE, peek_header
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.fetch import FetchRequestPartition, FetchResponseDivergingEpoch, FetchResponsePartition

log = logging.getLogger(__name__)

FIRST_BACK_OFF_S: Final = 0.02
"""After the first error of a partition; doubled with each further one, up to `replica.fetch.backoff.ms`. Most errors
are of a leader that has not heard yet that it leads."""

NO_EPOCH: Final = -1


class CopyOwner(Protocol):
    """Whom a copy tells that its log was flushed."""

    def flushed(self, copy: Copy) -> None: ...


class Next(Enum):
    """What becomes of a partition after an answer."""

    GO_ON = auto()
    """There is something new to ask for."""
    WAIT = auto()
    """Nothing has changed: the leader knows what is wanted."""
    FLUSH = auto()
    """Ask no further before a flush is done."""
    BACK_OFF = auto()
    """Something went wrong: try again in a while."""


class Copy:
    """A follower's side of one partition, in one leader epoch."""

    __slots__ = ("_fetcher", "agrees", "back_off_s", "key", "partition", "sent_in", "timer")

    def __init__(self, partition: Partition, fetcher: CopyOwner) -> None:
        self.partition = partition
        self.key = partition.topic_id, partition.index
        self._fetcher = fetcher
        self.sent_in = -1
        """The number of the request that carried what is asked now: answers to earlier ones are of no use."""
        self.agrees = False
        """The leader has said in this epoch that its log is the same as ours, as far as ours goes."""
        self.back_off_s = 0.0
        self.timer: asyncio.TimerHandle | None = None
        """While it is left out after an error."""

    def flushed(self) -> None:
        self._fetcher.flushed(self)

    @property
    def is_flushed(self) -> bool:
        """Whether all that the log holds may be claimed: to ask for its end says that everything before is safe."""
        log_ = self.partition.log
        return log_.flush_barrier >= log_.end_offset

    def target(self, max_bytes: int) -> FetchRequestPartition:
        """What to ask for: all from the log's end on. The leader sees by the last epoch whether the logs agree."""
        partition = self.partition
        log_ = partition.log
        return FetchRequestPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=log_.end_offset,
            last_fetched_epoch=log_.latest_epoch,
            log_start_offset=log_.start_offset,
            partition_max_bytes=max_bytes,
        )

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # -- taking answers --------------------------------------------------------------------------------------------

    def take(self, answer: FetchResponsePartition, now_ms: int) -> Next:
        """Carry out an answer that is about what is asked now."""
        try:
            outcome = self._take(answer, now_ms)
        except LogError as error:
            # A disk that is full may recover, bytes that were damaged on their way may come whole the next time. A
            # directory that failed takes its partitions offline, and us with them.
            log.error(
                "records of the leader cannot be taken",
                extra={"partition": repr(self.partition), "leader": self.partition.leader_id, "reason": error.message},
            )
            return Next.BACK_OFF
        if outcome is not Next.BACK_OFF:
            self.back_off_s = 0.0
        return outcome

    def _take(self, answer: FetchResponsePartition, now_ms: int) -> Next:
        error = answer.error_code
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._out_of_range(answer, now_ms)
        if error:
            log.debug("leader refuses", extra={"partition": repr(self.partition), "error": error})
            return Next.BACK_OFF
        if answer.diverging_epoch is not None:
            self._cut(answer.diverging_epoch, now_ms)
            return Next.GO_ON
        self.agrees = True
        partition = self.partition
        log_ = partition.log
        before = log_.end_offset, log_.start_offset
        records = answer.records
        if records is not None and len(records):
            self._append(memoryview(records), answer.log_start_offset, now_ms)
        if log_.start_offset < answer.log_start_offset <= log_.end_offset:
            log_.delete_before(answer.log_start_offset)
            partition.truncated()
        partition.follow_high_watermark(answer.high_watermark)
        if (log_.end_offset, log_.start_offset) == before:
            return Next.WAIT
        return Next.GO_ON if self.is_flushed else Next.FLUSH

    def take_high_watermark(self, answer: FetchResponsePartition) -> None:
        """Of an answer to what is not asked any more, all that is still of use. It may not be told again."""
        if self.agrees and not answer.error_code and answer.diverging_epoch is None:
            self.partition.follow_high_watermark(answer.high_watermark)

    def _append(self, records: memoryview, leader_start: int, now_ms: int) -> None:
        log_ = self.partition.log
        nothing_left = log_.end_offset <= leader_start or log_.start_offset == log_.end_offset
        if len(records) >= HEADER_SIZE and nothing_left:
            first = peek_header(records).base_offset
            if first < log_.end_offset:
                # The leader's log begins where ours ends, or ours is empty, and that lies inside of a batch. Nothing of
                # ours is left there: we begin with that whole batch, and hide of it what the leader hides.
                log_.restart_at(first, now_ms)
        log_.append_stamped(records, now_ms)

    def _cut(self, diverging: FetchResponseDivergingEpoch, now_ms: int) -> None:
        """The leader's log and ours part: cut ours, at the latest where they can have been the same.

        The leader has told the largest epoch it has that is not above our last one, and where that ends in its log. If
        we have that epoch too, the logs agree up to the end of it that comes first. If we do not, our last epoch below
        it ends before the leader's begins; the next fetch, from there, asks again.
        """
        partition = self.partition
        log_ = partition.log
        known, our_end = partition.log.epoch_end_offset(diverging.epoch)
        if our_end < 0:
            # It is later than all we have: our records are of earlier epochs than the leader's.
            cut = diverging.end_offset
        elif known == diverging.epoch:
            cut = min(our_end, diverging.end_offset)
        else:
            cut = our_end
        cut = max(0, min(cut, log_.end_offset))
        log.info(
            "log parts from the leader's and is cut",
            extra={"partition": repr(partition), "end": log_.end_offset, "cut": cut, "leader": partition.leader_id},
        )
        if cut < partition.high_watermark:
            log.warning(
                "log is cut below its high watermark: an unclean election gave up what was committed",
                extra={"partition": repr(partition), "cut": cut, "high_watermark": partition.high_watermark},
            )
        self._cut_to(cut, now_ms)

    def cut_to_high_watermark(self, now_ms: int) -> bool:
        """Records without leader epochs (of an old format's past) cannot be compared: only what was committed stays.

        False where the disk does not let us.
        """
        log_ = self.partition.log
        try:
            if log_.latest_epoch == NO_EPOCH and log_.end_offset > self.partition.high_watermark:
                self._cut_to(self.partition.high_watermark, now_ms)
        except LogError as error:
            log.error("log cannot be cut", extra={"partition": repr(self.partition), "reason": error.message})
            return False
        return True

    def _cut_to(self, offset: int, now_ms: int) -> None:
        log_ = self.partition.log
        if offset < log_.start_offset or log_.start_offset == log_.end_offset:
            # One without records still knows the epoch of its last. It must forget it, or the logs part again for ever.
            log_.restart_at(offset, now_ms)
        else:
            log_.truncate_to(offset, now_ms)
        self.partition.truncated()

    def _out_of_range(self, answer: FetchResponsePartition, now_ms: int) -> Next:
        """Our end is outside of the leader's log: we begin anew where that begins.

        Nearly always it begins later than we end, all that we have was deleted there. That it ends earlier is told by
        epochs (`_cut`), save where our log is empty but for its place.
        """
        partition = self.partition
        log_ = partition.log
        start = answer.log_start_offset
        if start <= log_.end_offset and (start < 0 or log_.latest_epoch != NO_EPOCH):
            return Next.BACK_OFF
        log.warning(
            "log is outside of the leader's and is begun anew",
            extra={"partition": repr(partition), "end": log_.end_offset, "start": start},
        )
        log_.restart_at(start, now_ms)
        partition.truncated()
        return Next.GO_ON

    def next_back_off(self, longest_s: float) -> float:
        self.back_off_s = min(max(2 * self.back_off_s, FIRST_BACK_OFF_S), longest_s)
        return self.back_off_s
