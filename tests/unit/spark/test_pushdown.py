from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from moldau.client.data_types import TopicPartition
from moldau.spark.planning import OffsetRange
from moldau.spark.pushdown import Narrowing, narrowing

TOPIC, PARTITION, OFFSET, TIMESTAMP = ("topic",), ("partition",), ("offset",), ("timestamp",)


def test_topics_and_partitions_leave_out_the_others() -> None:
    chosen = narrowing([In(TOPIC, ("a", "b")), EqualTo(TOPIC, "a"), In(PARTITION, (1, 2))])
    assert chosen.wants(TopicPartition("a", 1))
    assert not chosen.wants(TopicPartition("a", 0))
    assert not chosen.wants(TopicPartition("b", 1))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(OFFSET, 7)], (7, 8)),
        ([EqualNullSafe(OFFSET, 7)], (7, 8)),
        ([GreaterThan(OFFSET, 7)], (8, 20)),
        ([GreaterThanOrEqual(OFFSET, 7), LessThan(OFFSET, 9)], (7, 9)),
        ([LessThanOrEqual(OFFSET, 7), GreaterThan(OFFSET, 5)], (6, 8)),
        ([In(OFFSET, (9, 6))], (6, 10)),
        ([Not(EqualTo(OFFSET, 7))], (5, 20)),
        ([IsNotNull(OFFSET)], (5, 20)),
    ],
)
def test_offsets_shorten_a_range(filters: list[Filter], expected: tuple[int, int]) -> None:
    (left,) = narrowing(filters).apply([OffsetRange("a", "", 0, 5, 20)])
    assert (left.start, left.until) == expected


def test_filters_that_match_no_row_leave_no_range() -> None:
    ranges = [OffsetRange("a", "", 0, 5, 20)]
    assert narrowing([LessThan(OFFSET, 5)]).apply(ranges) == []
    assert narrowing([EqualTo(TOPIC, "b")]).apply(ranges) == []
    assert narrowing([EqualTo(TOPIC, "a"), EqualTo(TOPIC, "b")]).apply(ranges) == []
    assert narrowing([EqualTo(PARTITION, None)]).apply(ranges) == []


def test_a_time_from_which_on_is_rounded_up_to_whole_milliseconds() -> None:
    moment = datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    whole_ms = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000
    for kind in (EqualTo, GreaterThan, GreaterThanOrEqual):
        assert narrowing([kind(TIMESTAMP, moment)]).since_ms == whole_ms + 1
    assert narrowing([GreaterThan(TIMESTAMP, moment.replace(microsecond=0))]).since_ms == whole_ms


def test_filters_that_save_no_reading_are_ignored() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    filters: list[Filter] = [
        LessThan(TIMESTAMP, moment),
        EqualTo(TIMESTAMP, moment.replace(tzinfo=None)),
        StringStartsWith(TOPIC, "a"),
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "key"), "x"),
        Not(EqualTo(TOPIC, "a")),
    ]
    assert narrowing(filters) == Narrowing()
