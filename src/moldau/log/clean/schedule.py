"""Cleaning decisions: which log to clean, up to which offset, and which segments to merge. Pure; Kafka's rules.

A log has a clean part, which an earlier cleaning has processed, and a dirty part after it. Cleaning is worth its I/O
when the dirty part is a large enough share of the log, or when a record in it has waited too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.log.config import LogConfig

MAX_RELATIVE_OFFSET = 2**31 - 1
"""The largest distance of a record from its segment's base offset: the index stores it in 32 bits."""

MAX_SEGMENT_BYTES = 2**31 - 1
"""The index stores positions in 32 bits too."""


class SegmentTimes(NamedTuple):
    """The timestamp of a segment's first batch, and the largest of all batches; -1 if there is none."""

    first: int
    largest: int


class LogView(NamedTuple):
    """The facts about a log that a decision needs."""

    bases: Sequence[int]
    """The base offsets of all segments, the active one last."""
    sizes: Sequence[int]
    start_offset: int
    end_offset: int
    settled_offset: int
    """The minimum of last stable offset, high watermark and recovery point: everything below is final and durable."""
    checkpoint: int | None
    """The end of the last cleaning, from `cleaner-offset-checkpoint`."""
    times: Callable[[int], SegmentTimes]
    """The timestamps of a segment, by index. May read the disk; called only if a compaction lag is set."""


class Dirt(NamedTuple):
    """The part of a log that can be cleaned."""

    first_dirty_offset: int
    upper_offset: int
    """The base offset of the first segment that must not be cleaned."""
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    """A record has waited longer than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def assess(view: LogView, config: LogConfig, now_ms: int) -> Dirt:
    """Compute how dirty a log is."""
    dirty = first_dirty_offset(view)
    begin = _holding(view.bases, dirty)
    end = max(begin, _first_untouchable(view, config, now_ms, begin))
    overdue = config.max_compaction_lag_ms < now_ms and any(
        0 < view.times(number).first < now_ms - config.max_compaction_lag_ms for number in range(begin, end)
    )
    return Dirt(
        dirty,
        view.bases[end] if end > begin else dirty,
        sum(view.sizes[:begin]),
        sum(view.sizes[begin:end]),
        overdue,
    )


def worth_cleaning(dirt: Dirt, config: LogConfig) -> bool:
    """Whether a cleaning of this log is due."""
    if not dirt.dirty_bytes or dirt.upper_offset <= dirt.first_dirty_offset:
        return False
    return dirt.overdue or dirt.ratio > config.min_cleanable_dirty_ratio


def first_dirty_offset(view: LogView) -> int:
    """The start of the next cleaning: the end of the last one, unless the log no longer contains that offset."""
    if view.checkpoint is None or not view.start_offset <= view.checkpoint <= view.end_offset:
        return view.start_offset
    return view.checkpoint


def _first_untouchable(view: LogView, config: LogConfig, now_ms: int, begin: int) -> int:
    """The index of the first segment from `begin` on that must not be cleaned; at the latest the active one."""
    for number in range(begin, len(view.bases) - 1):
        if view.bases[number + 1] > view.settled_offset:
            return number
        if config.min_compaction_lag_ms > 0 and view.times(number).largest > now_ms - config.min_compaction_lag_ms:
            return number
    return len(view.bases) - 1


def _holding(bases: Sequence[int], offset: int) -> int:
    return max((number for number, base in enumerate(bases) if base <= offset), default=0)


class SourceSize(NamedTuple):
    """The sizes of a segment's files."""

    base_offset: int
    log_bytes: int
    index_bytes: int
    time_index_bytes: int


def group(sources: Sequence[SourceSize], end_offset: int, segment_bytes: int, index_bytes: int) -> list[range]:
    """Group adjacent segments to be merged: before cleaning, their total size is within the limits of one segment.

    The last source ends at `end_offset`. Returns ranges of indexes into `sources`.
    """
    groups: list[range] = []
    begin = 0
    while begin < len(sources):
        end = begin + 1
        total = sources[begin]
        while end < len(sources):
            one = sources[end]
            total = SourceSize(
                total.base_offset,
                total.log_bytes + one.log_bytes,
                total.index_bytes + one.index_bytes,
                total.time_index_bytes + one.time_index_bytes,
            )
            following = sources[end + 1].base_offset if end + 1 < len(sources) else end_offset
            if (
                total.log_bytes > min(segment_bytes, MAX_SEGMENT_BYTES)
                or max(total.index_bytes, total.time_index_bytes) > index_bytes
                or following - 1 - total.base_offset > MAX_RELATIVE_OFFSET
            ):
                break
            end += 1
        groups.append(range(begin, end))
        begin = end
    return groups
