"""Follower's copy of one partition: builds fetch requests and applies the leader's responses to the log.

Everything happens on the loop, without waiting: append, truncate, raise the start offset, move the high watermark. The
`fetcher` decides when and over which connection requests are sent.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import Final, Protocol

from moldau.host.event_log import event_logger
from moldau.log.epochs import NO_EPOCH
from moldau.log.errors import LogError
from moldau.records import HEADER_SIZE, peek_header
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.fetch import FetchRequestPartition, FetchResponseDivergingEpoch, FetchResponsePartition
from moldau.wire.number_types import LeaderEpoch

log = event_logger(__name__)

FIRST_BACK_OFF_S: Final = 0.02
"""Back-off after the first error of a partition; doubled with each further error, up to `replica.fetch.backoff.ms`.
Most errors come from a leader that does not know yet that it leads."""


class CopyOwner(Protocol):
    """The fetcher of a copy, which is notified when the copy's log was flushed."""

    def flushed(self, copy: FollowerPartition) -> None: ...


class Next(Enum):
    """What to do with a partition after a response."""

    GO_ON = auto()
    """The fetch target changed: send it."""
    WAIT = auto()
    """Nothing changed: the leader already has the current fetch target."""
    FLUSH = auto()
    """Do not fetch again before the log is flushed."""
    BACK_OFF = auto()
    """An error: fetch again after a delay."""


class FollowerPartition:
    """The follower's side of one partition, in one leader epoch."""

    __slots__ = ("_fetcher", "agrees", "back_off_s", "key", "partition", "sent_in", "timer")

    def __init__(self, partition: Partition, fetcher: CopyOwner) -> None:
        self.partition = partition
        self.key = partition.topic_id, partition.index
        self._fetcher = fetcher
        self.sent_in = -1
        """The number of the request that carried the current fetch target. Responses to earlier requests are
        ignored."""
        self.agrees = False
        """The leader has confirmed in this epoch that our log is a prefix of its log."""
        self.back_off_s = 0.0
        self.timer: asyncio.TimerHandle | None = None
        """Set while the partition is left out after an error."""

    def flushed(self) -> None:
        self._fetcher.flushed(self)

    @property
    def is_flushed(self) -> bool:
        """Whether the log is flushed to its end as far as required: a fetch from an offset tells the leader that all
        records before it are safe here."""
        log_ = self.partition.log
        return log_.flush_barrier >= log_.end_offset

    def target(self, max_bytes: int) -> FetchRequestPartition:
        """The fetch target: everything from the log end offset. The leader uses the last epoch to detect diverging
        logs."""
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

    # -- applying responses ----------------------------------------------------------------------------------------

    def take(self, answer: FetchResponsePartition, now_ms: int) -> Next:
        """Apply a response to the current fetch target."""
        try:
            outcome = self._take(answer, now_ms)
        except LogError as error:
            # A full disk may recover, and bytes that were damaged in transit may arrive intact next time. If the
            # directory failed, it takes its partitions offline, including this one.
            log.error(
                "records from the leader cannot be appended",
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
            log.debug("leader returned an error", extra={"partition": repr(self.partition), "error": error})
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
        """Apply the high watermark of a response to an outdated fetch target. The rest of it is useless, but the leader
        may not send this high watermark again."""
        if self.agrees and not answer.error_code and answer.diverging_epoch is None:
            self.partition.follow_high_watermark(answer.high_watermark)

    def _append(self, records: memoryview, leader_start: int, now_ms: int) -> None:
        log_ = self.partition.log
        nothing_left = log_.end_offset <= leader_start or log_.start_offset == log_.end_offset
        if len(records) >= HEADER_SIZE and nothing_left:
            first = peek_header(records).base_offset
            if first < log_.end_offset:
                # The leader's log begins where ours ends, or ours is empty, and that offset is inside a batch. Nothing
                # of our log is left there, so it begins with that whole batch. The log start offset hides the same
                # records as on the leader.
                log_.restart_at(first, now_ms)
        log_.append_stamped(records, now_ms)

    def _cut(self, diverging: FetchResponseDivergingEpoch, now_ms: int) -> None:
        """Truncate our log because it diverges from the leader's.

        The leader sent its largest epoch that is not above our last one, and the end offset of that epoch in its log.
        If we have that epoch too, the logs agree up to the smaller of both end offsets. If we do not, our last epoch
        below it ends before the leader's epoch begins; the next fetch, from there, compares again.
        """
        partition = self.partition
        log_ = partition.log
        known, our_end = partition.log.epoch_end_offset(LeaderEpoch(diverging.epoch))
        if our_end < 0:
            # The epoch is later than all of ours: all our records have earlier epochs.
            cut = diverging.end_offset
        elif known == diverging.epoch:
            cut = min(our_end, diverging.end_offset)
        else:
            cut = our_end
        cut = max(0, min(cut, log_.end_offset))
        log.info(
            "log diverges from the leader's and is truncated",
            extra={"partition": repr(partition), "end": log_.end_offset, "cut": cut, "leader": partition.leader_id},
        )
        if cut < partition.high_watermark:
            log.warning(
                "log is truncated below its high watermark: an unclean election lost committed records",
                extra={"partition": repr(partition), "cut": cut, "high_watermark": partition.high_watermark},
            )
        self._cut_to(cut, now_ms)

    def cut_to_high_watermark(self, now_ms: int) -> bool:
        """Truncate a log without leader epochs (from an old record format) to its high watermark, because such records
        cannot be compared with the leader's.

        False if the disk failed.
        """
        log_ = self.partition.log
        try:
            if log_.latest_epoch == NO_EPOCH and log_.end_offset > self.partition.high_watermark:
                self._cut_to(self.partition.high_watermark, now_ms)
        except LogError as error:
            log.error("log cannot be truncated", extra={"partition": repr(self.partition), "reason": error.message})
            return False
        return True

    def _cut_to(self, offset: int, now_ms: int) -> None:
        log_ = self.partition.log
        if offset < log_.start_offset or log_.start_offset == log_.end_offset:
            # A log without records still has the epoch of its last record. It must forget it, otherwise the logs
            # diverge again at every fetch.
            log_.restart_at(offset, now_ms)
        else:
            log_.truncate_to(offset, now_ms)
        self.partition.truncated()

    def _out_of_range(self, answer: FetchResponsePartition, now_ms: int) -> Next:
        """Our log end offset is outside the leader's log: restart our log at the leader's start offset.

        Nearly always the leader's log begins after our end, because the leader deleted all that we have. If the
        leader's log ends before ours, it reports a diverging epoch (`_cut`), except if our log has only an offset and
        no records.
        """
        partition = self.partition
        log_ = partition.log
        start = answer.log_start_offset
        if start <= log_.end_offset and (start < 0 or log_.latest_epoch != NO_EPOCH):
            return Next.BACK_OFF
        log.warning(
            "log is outside the leader's offset range and is restarted",
            extra={"partition": repr(partition), "end": log_.end_offset, "start": start},
        )
        log_.restart_at(start, now_ms)
        partition.truncated()
        return Next.GO_ON

    def next_back_off(self, longest_s: float) -> float:
        self.back_off_s = min(max(2 * self.back_off_s, FIRST_BACK_OFF_S), longest_s)
        return self.back_off_s
