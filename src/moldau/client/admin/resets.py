"""Rules for the reset of a group's offsets, and the computation of the new offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from moldau.client import arguments
from moldau.client.admin.offsets import OffsetSpec
from moldau.client.data_types import NO_OFFSET, TopicPartition
from moldau.client.errors import IllegalStateError


@dataclass(frozen=True)
class ToEarliest:
    """Reset to the first record of each partition."""


@dataclass(frozen=True)
class ToLatest:
    """Reset to the end of each partition, so that the group reads only new records."""


@dataclass(frozen=True)
class ToCurrent:
    """Keep the committed offset; a partition without one is set to its end."""


@dataclass(frozen=True)
class ToOffset:
    """Reset all partitions to one offset, or to the nearest offset that the partition has."""

    offset: int


@dataclass(frozen=True)
class ToOffsets:
    """Reset each partition to its own offset, for example from an exported file, or to the nearest that it has."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class ToTimestamp:
    """Reset to the first record with this timestamp or a later one, or to the end if there is none."""

    timestamp_ms: int | datetime
    """Milliseconds since 1970, or a datetime with a time zone."""


@dataclass(frozen=True)
class ByDuration:
    """Reset to the first record of the last `back_ms` milliseconds, or to the end if there is none."""

    back_ms: int | timedelta
    """Milliseconds, or a timedelta."""


@dataclass(frozen=True)
class ShiftBy:
    """Move the offset forward, or back with a negative number, within the range of the partition."""

    by: int


Reset = ToEarliest | ToLatest | ToCurrent | ToOffset | ToOffsets | ToTimestamp | ByDuration | ShiftBy


def checked_reset(given: object) -> Reset:
    """Return the rule with converted numbers. Raises ArgumentError if it is not a rule."""
    match given:
        case ToEarliest() | ToLatest() | ToCurrent():
            return given
        case ToOffset(offset):
            return ToOffset(arguments.number("offset", offset))
        case ToOffsets(offsets):
            return ToOffsets(arguments.by_partition("offsets", offsets, arguments.number))
        case ToTimestamp(time):
            return ToTimestamp(arguments.milliseconds("timestamp_ms", time))
        case ByDuration(timedelta() as back):
            return ByDuration(back // timedelta(milliseconds=1))
        case ByDuration(back):
            return ByDuration(arguments.number("back_ms", back))
        case ShiftBy(by):
            return ShiftBy(arguments.number("by", by))
        case _:
            return arguments.refuse("to", given, "a rule, such as ToEarliest(), ToOffset(42) or ShiftBy(-10)")


class ResetOffset(NamedTuple):
    """The old and the new offset of a group in a partition."""

    before: int | None
    after: int
    asked: int | None = None
    """The offset of the rule, if the partition does not have it and `after` is the nearest; otherwise None."""


class NothingToShift(IllegalStateError):
    """The offset of a partition cannot be shifted, because the group has no committed offset for it."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(
            f"cannot shift the offset of {partition}: the group has no committed offset for it; use another rule"
        )
        self.partition = partition


def specs_needed(reset: Reset, now_ms: int) -> list[int]:
    """Return the offsets that `plan` needs for each partition: OffsetSpec values, or timestamps."""
    match reset:
        case ToEarliest() | ToOffset() | ToOffsets() | ShiftBy():
            return [OffsetSpec.EARLIEST, OffsetSpec.LATEST]
        case ToLatest() | ToCurrent():
            return [OffsetSpec.LATEST]
        case ToTimestamp(int(timestamp_ms)):
            return [max(0, timestamp_ms), OffsetSpec.LATEST]
        case ByDuration(int(back_ms)):
            return [max(0, now_ms - back_ms), OffsetSpec.LATEST]
    raise AssertionError(f"{reset} was not checked")


def plan(
    reset: Reset,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int],
    *,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> dict[TopicPartition, ResetOffset]:
    """Return the new offset of each partition. Raises NothingToShift for ShiftBy without a committed offset."""
    planned = {}
    for partition in partitions:
        before = committed.get(partition)
        asked = _asked(reset, partition, before, earliest, latest, at_time)
        after = asked
        if isinstance(reset, ToOffset | ToOffsets | ShiftBy):
            after = min(max(asked, earliest[partition]), latest[partition])
        planned[partition] = ResetOffset(before, after, None if after == asked else asked)
    return planned


def _asked(
    reset: Reset,
    partition: TopicPartition,
    before: int | None,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> int:
    """The offset of the rule, which may be outside the range of the partition."""
    match reset:
        case ToEarliest():
            return earliest[partition]
        case ToLatest():
            return latest[partition]
        case ToCurrent():
            return latest[partition] if before is None else before
        case ToOffset(offset):
            return offset
        case ToOffsets(offsets):
            return offsets[partition]
        case ToTimestamp() | ByDuration():
            return latest[partition] if at_time[partition] == NO_OFFSET else at_time[partition]
        case ShiftBy(by):
            if before is None:
                raise NothingToShift(partition)
            return before + by
