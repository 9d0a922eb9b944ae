"""Retention rules: the segments to delete by time, by size or below the log start offset."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.log.config import LogConfig
from moldau.log.segment import Segment


def expired(
    segments: Sequence[Segment],
    config: LogConfig,
    now_ms: int,
    start_offset: int,
    end_offset: int,
    high_watermark: int,
) -> list[Segment]:
    """The oldest segments, without a gap, that retention deletes: by time, by size, or below the log start offset.

    A segment is deleted only if all of it is below the high watermark. The active segment is included only if it is
    not empty and has expired; the caller then rolls a new segment first.
    """
    surplus = sum(segment.file.size for segment in segments) - config.retention_bytes
    found: list[Segment] = []
    for number, segment in enumerate(segments):
        last = number == len(segments) - 1
        end = end_offset if last else segments[number + 1].base_offset
        if end > high_watermark or (last and not segment.file.size):
            break
        size = segment.file.size
        before_start = not last and end <= start_offset
        if not before_start and not (
            config.deletes and (_too_much(size, surplus, config) or _too_old(segment, config, now_ms))
        ):
            break
        surplus -= size
        found.append(segment)
    return found


def _too_much(size: int, surplus: int, config: LogConfig) -> bool:
    """Whether at least `retention.bytes` remain without this segment."""
    return config.retention_bytes >= 0 and surplus >= size


def _too_old(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    return config.retention_ms >= 0 and now_ms - _latest(segment) > config.retention_ms


def _latest(segment: Segment) -> int:
    """The largest timestamp, or the time of the last write if the records have none."""
    largest = segment.largest_timestamp()
    return largest if largest >= 0 else segment.modified_ms()
