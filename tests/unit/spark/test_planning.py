from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.data_types import TopicPartition
from moldau.spark.planning import OffsetRange, backlog, grouped, limited, ranges, split, worth_a_batch

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

partitions = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 30))
backlogs = st.dictionaries(partitions, st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), min_size=1)
sizes = st.lists(st.integers(1, 10_000), min_size=1, max_size=30)


def whole(*lengths: int) -> list[OffsetRange]:
    return [OffsetRange("a", "", index, 100, 100 + length) for index, length in enumerate(lengths)]


def test_ranges_lie_between_offsets_and_empty_ranges_are_dropped() -> None:
    begin = {A0: 5, A1: 7, B0: 0}
    end = {B0: 3, A0: 9, A1: 7}
    assert ranges(begin, end, {"a": "1d"}) == [OffsetRange("a", "1d", 0, 5, 9), OffsetRange("b", "", 0, 0, 3)]


def test_everything_is_taken_where_it_is_within_the_limit() -> None:
    assert limited({A0: 0, A1: 5}, {A0: 3, A1: 5}, 3) == {A0: 3, A1: 5}


def test_a_limit_is_shared_in_proportion() -> None:
    assert limited({A0: 0, A1: 0, B0: 50}, {A0: 900, A1: 300, B0: 50}, 120) == {A0: 90, A1: 30, B0: 50}


def test_a_flooded_partition_does_not_starve_a_small_one() -> None:
    assert limited({A0: 0, A1: 0}, {A0: 1_000_000, A1: 1}, 10) == {A0: 9, A1: 1}


@given(backlogs, st.integers(1, 20_000))
def test_a_limited_batch_advances_in_every_partition_up_to_its_limit(
    drawn: dict[TopicPartition, tuple[int, int]], limit: int
) -> None:
    begin = {partition: start for partition, (start, _) in drawn.items()}
    latest = {partition: start + size for partition, (start, size) in drawn.items()}
    end = limited(begin, latest, limit)
    waiting = {partition for partition in latest if latest[partition] > begin[partition]}
    assert end.keys() == latest.keys()
    assert all(begin[partition] <= end[partition] <= latest[partition] for partition in end)
    assert all(end[partition] > begin[partition] for partition in waiting)
    assert backlog(begin, end) == min(backlog(begin, latest), max(limit, len(waiting)))


def test_a_batch_waits_a_bounded_time_for_enough_records() -> None:
    assert worth_a_batch(10, 10, now_ms=5, last_batch_ms=4, max_delay_ms=100)
    assert not worth_a_batch(9, 10, now_ms=103, last_batch_ms=4, max_delay_ms=100)
    assert worth_a_batch(9, 10, now_ms=104, last_batch_ms=4, max_delay_ms=100)
    assert worth_a_batch(1, 10, now_ms=0, last_batch_ms=None, max_delay_ms=100)


def test_each_partition_is_one_task_by_default() -> None:
    assert split(whole(5, 5_000_000), None, None) == whole(5, 5_000_000)


def test_large_ranges_are_split_first() -> None:
    pieces = split(whole(10, 1000), 5, None)
    assert [piece.size for piece in pieces] == [10, 250, 250, 250, 250]


@given(sizes, st.none() | st.integers(1, 60), st.none() | st.integers(100, 3000))
def test_pieces_cover_their_range_without_gap_or_overlap(
    lengths: list[int], at_least: int | None, max_records: int | None
) -> None:
    originals = whole(*lengths)
    pieces = split(originals, at_least, max_records)
    for one in originals:
        mine = [piece for piece in pieces if piece.partition == one.partition]
        assert mine[0].start == one.start and mine[-1].until == one.until
        assert all(left.until == right.start for left, right in pairwise(mine))
        assert all(piece.size > 0 for piece in mine)
        assert max_records is None or all(piece.size <= max_records for piece in mine)
    assert len(pieces) >= min(at_least or 1, sum(lengths))


def test_small_ranges_share_a_task_where_tasks_are_few() -> None:
    assert grouped(whole(5, 1000), None) == [(one,) for one in whole(5, 1000)]
    tasks = grouped(whole(5, 1000, 6, 7), 2)
    assert [[one.size for one in task] for task in tasks] == [[1000], [7, 6, 5]]


@given(sizes, st.integers(1, 40))
def test_every_range_is_in_one_task(lengths: list[int], at_most: int) -> None:
    originals = whole(*lengths)
    tasks = grouped(originals, at_most)
    assert len(tasks) == min(at_most, len(originals))
    assert sorted(one.partition for task in tasks for one in task) == [one.partition for one in originals]
