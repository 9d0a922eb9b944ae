"""View of a log for the cleaner, and the job that follows from a decision.

`view_of` is cheap and may be called for every log every few seconds; it does not open a cold log. `prepare` reads
indexes and runs in a thread.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.log.clean.job import Job, SourceSegment
from moldau.log.clean.schedule import Dirt, LogView, SegmentTimes
from moldau.log.log import Log
from moldau.log.segment import Segment


class Resources(NamedTuple):
    """The limits of a cleaning (`log.cleaner.*`)."""

    dedupe_bytes: int
    load_factor: float
    read_bytes: int
    bytes_per_second: float


class PreparedCleaning(NamedTuple):
    """A job and its segments, which must still be the log's when the results come back."""

    job: Job
    segments: dict[int, Segment]


def view_of(log: Log, high_watermark: int, checkpoint: int | None) -> LogView:
    """The view of a log; on the event loop."""
    cold = log._cold
    if cold is not None:
        bases = [one.base_offset for one in cold.segments]
        sizes = [one.size for one in cold.segments]
    else:
        bases = log._segments.bases
        sizes = [one.file.size for one in log._segments.segments]
    settled = min(log.stable_offset(high_watermark), log.recovery_point)
    return LogView(
        bases, sizes, log.start_offset, log.end_offset, settled, checkpoint, lambda number: _times(log, bases[number])
    )


def _times(log: Log, base_offset: int) -> SegmentTimes:
    """The timestamps of a segment, needed only if a compaction lag is set; may run in a thread. Opens a cold log."""
    log._active or log._open()
    for segment in log._segments.segments:
        if segment.base_offset == base_offset:
            return SegmentTimes(segment.age_from(), segment.largest_timestamp())
    return SegmentTimes(-1, -1)  # retention has deleted it meanwhile


def prepare(log: Log, dirt: Dirt, now_ms: int, resources: Resources) -> PreparedCleaning:
    """Build the job; in a thread, before anything else is done to the log. LogError if the log cannot be opened."""
    log._active or log._open()
    config = log.config
    segments = [one for one in log._segments.segments if one.base_offset < dirt.upper_offset]
    aborted: list[tuple[int, int, int, int]] = []
    for segment in log._segments.segments:
        # Load the index of all segments: a reader of a segment that is being replaced must not look for its file.
        found = segment.aborted()
        if segment.base_offset >= dirt.upper_offset:
            aborted += [one for one in found if one.first_offset < dirt.upper_offset]
    producers = [
        (producer_id, producer.epoch, producer.batches[-1].last_offset if producer.batches else -1)
        for producer_id, producer in list(log.producers.producers.items())
    ]
    job = Job(
        directory=log.directory,
        sources=[SourceSegment(one.base_offset, one.file.size) for one in segments],
        first_dirty_offset=dirt.first_dirty_offset,
        upper_offset=dirt.upper_offset,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        aborted=aborted,
        producers=producers,
        **resources._asdict(),
    )
    return PreparedCleaning(job, {one.base_offset: one for one in segments})
