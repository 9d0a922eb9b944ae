"""Filter pushdown: filters on topic, partition, offset and timestamp reduce the offsets to read. Pure functions.

Spark still applies every filter. This module only avoids unnecessary reads and never changes the result of a query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from moldau.client.data_types import TopicPartition
from moldau.spark.planning import OffsetRange

LAST_OFFSET = (1 << 63) - 1


@dataclass(frozen=True)
class Narrowing:
    """The conditions on rows that reduce the offsets to read. None means no condition."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    last_offset: int = LAST_OFFSET
    since_ms: int | None = None
    """The earliest timestamp. There is no upper bound, because later records may have earlier timestamps."""

    def wants(self, partition: TopicPartition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )

    def apply(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        narrowed = [
            one.between(max(one.start, self.first_offset), min(one.until, self.last_offset + 1))
            for one in ranges
            if self.wants(one.topic_partition)
        ]
        return [one for one in narrowed if one.size > 0]


def narrowing(filters: Iterable[Filter]) -> Narrowing:
    """Combine all filters. All of them must hold, so each one can only narrow the range."""
    result = Narrowing()
    for one in filters:
        attribute = getattr(one, "attribute", None)
        if attribute is None or len(attribute) != 1:
            continue
        match attribute[0].lower():
            case "topic":
                result = replace(result, topics=_among(result.topics, one, str))
            case "partition":
                result = replace(result, partitions=_among(result.partitions, one, int))
            case "offset":
                first, last = _between(one)
                result = replace(
                    result, first_offset=max(result.first_offset, first), last_offset=min(result.last_offset, last)
                )
            case "timestamp":
                since_ms = _since_ms(one)
                if since_ms is not None:
                    result = replace(result, since_ms=max(result.since_ms or 0, since_ms))
            case _:
                pass
    return result


def _among(old: frozenset[Any] | None, one: Filter, kind: type) -> frozenset[Any] | None:
    if isinstance(one, EqualTo | EqualNullSafe):
        values = frozenset([one.value])
    elif isinstance(one, In):
        values = frozenset(one.value)
    else:
        return old
    values = frozenset(value for value in values if isinstance(value, kind))
    return values if old is None else old & values


def _between(one: Filter) -> tuple[int, int]:
    match one:
        case EqualTo(value=int(value)) | EqualNullSafe(value=int(value)):
            return value, value
        case GreaterThan(value=int(value)):
            return value + 1, LAST_OFFSET
        case GreaterThanOrEqual(value=int(value)):
            return value, LAST_OFFSET
        case LessThan(value=int(value)):
            return 0, value - 1
        case LessThanOrEqual(value=int(value)):
            return 0, value
        case In(value=values) if values and all(isinstance(value, int) for value in values):
            return min(values), max(values)
        case _:
            return 0, LAST_OFFSET


def _since_ms(one: Filter) -> int | None:
    """The lower bound of a timestamp filter. Records have milliseconds and rows microseconds; rounding up never
    excludes a matching record."""
    if not isinstance(one, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
        return None
    value = one.value
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    microseconds = int(value.timestamp()) * 1_000_000 + value.microsecond
    return max(-(-microseconds // 1000), 0)
