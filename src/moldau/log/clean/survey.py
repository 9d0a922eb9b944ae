"""A log as the cleaner sees it: what deciding needs to know, and the job that follows from a decision.

`look` is cheap and may be called for every log every few seconds; it opens no log that a clean stop left closed.
`prepare` reads indexes and belongs in a thread.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.log.clean.decide import Dirt, LogView, SegmentTimes
from moldau.log.clean.job import Job, Source
from moldau.log.log import Log
from moldau.log.segment import Segment


class Resources(NamedTuple):
    """What a cleaning may use; `log.cleaner.*`."""

    dedupe_bytes: int
    load_factor: float
    read_bytes: int
    bytes_per_second: float


class Prepared(NamedTuple):
    """A job, and the segments that it is about: they must still be the log's when its results come back."""

    job: Job
    segments: dict[int, Segment]


def look(log: Log, high_watermark: int, checkpoint: int | None) -> LogView:
    """On the loop."""
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
    """Asked only where a lag is set, and perhaps in a thread. Opens a log that is cold."""
    log._active or log._open()
    for segment in log._segments.segments:
        if segment.base_offset == base_offset:
            return SegmentTimes(segment.age_from(), segment.largest_timestamp())
    return SegmentTimes(-1, -1)  # retention was faster


def prepare(log: Log, dirt: Dirt, now_ms: int, resources: Resources) -> Prepared:
    """In a thread, before anything else is done to the log. LogError where it cannot be opened."""
    log._active or log._open()
    config = log.config
    segments = [one for one in log._segments.segments if one.base_offset < dirt.upper_offset]
    aborted: list[tuple[int, int, int, int]] = []
    for segment in log._segments.segments:
        # Also of the segments that will be replaced: whoever reads them while that happens must not look for files.
        found = segment.aborted()
        if segment.base_offset >= dirt.upper_offset:
            aborted += [one for one in found if one.first_offset < dirt.upper_offset]
    producers = [
        (producer_id, producer.epoch, producer.batches[-1].last_offset if producer.batches else -1)
        for producer_id, producer in list(log.producers.producers.items())
    ]
    job = Job(
        directory=log.directory,
        sources=[Source(one.base_offset, one.file.size) for one in segments],
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
    return Prepared(job, {one.base_offset: one for one in segments})
