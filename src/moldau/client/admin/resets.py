"""Rules by which a group's offsets are moved, and the pure decision where each partition ends up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from moldau.client.admin.offsets import OffsetSpec
from moldau.client.errors import IllegalStateError
from moldau.client.model import NO_OFFSET, TopicPartition


@dataclass(frozen=True)
class ToEarliest:
    """To the first record that is left."""


@dataclass(frozen=True)
class ToLatest:
    """To the end: only what is written from now on."""


@dataclass(frozen=True)
class ToCurrent:
    """To where the group is: commits again what is committed; a partition without a commit goes to its end."""


@dataclass(frozen=True)
class ToOffset:
    """To one offset in every partition; where the partition does not have it, to the nearest that it has."""

    offset: int


@dataclass(frozen=True)
class ToOffsets:
    """To an offset for each partition, as a file of an export has them; to the nearest that there is."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class ToTimestamp:
    """To the first record that is not older than this, in milliseconds since 1970; to the end where there is none."""

    timestamp_ms: int


@dataclass(frozen=True)
class ByDuration:
    """To the first record that is not older than so long before now; to the end where there is none."""

    back_ms: int


@dataclass(frozen=True)
class ShiftBy:
    """So many records on, or with a negative number back; at most to the first or to the end."""

    by: int


Reset = ToEarliest | ToLatest | ToCurrent | ToOffset | ToOffsets | ToTimestamp | ByDuration | ShiftBy


class ResetOffset(NamedTuple):
    """Where a group was in a partition, and where it is now."""

    before: int | None
    after: int
    asked: int | None = None
    """What the rule said, where the partition does not have that offset and the nearest was taken."""


class NothingToShift(IllegalStateError):
    """A partition was to be shifted in which the group has committed nothing."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(f"cannot shift the offset of {partition}: the group has none committed there")
        self.partition = partition


def specs_needed(reset: Reset, now_ms: int) -> list[int]:
    """Which offsets of the partitions `plan` has to know: of these kinds, or of a time."""
    match reset:
        case ToEarliest() | ToOffset() | ToOffsets() | ShiftBy():
            return [OffsetSpec.EARLIEST, OffsetSpec.LATEST]
        case ToLatest() | ToCurrent():
            return [OffsetSpec.LATEST]
        case ToTimestamp(timestamp_ms):
            return [max(0, timestamp_ms), OffsetSpec.LATEST]
        case ByDuration(back_ms):
            return [max(0, now_ms - back_ms), OffsetSpec.LATEST]


def plan(
    reset: Reset,
    partitions: Iterable[TopicPartition],
    committed: Mapping[TopicPartition, int],
    *,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> dict[TopicPartition, ResetOffset]:
    """Where each partition goes. Raises where a partition is to be shifted from an offset that nobody committed."""
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
    """What the rule says, whether the partition has such an offset or not."""
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
