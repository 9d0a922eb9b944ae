"""Cleaning schedule: logs that are due, their cleanable range, and merged segments."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moldau.log.clean.schedule import (
    MAX_RELATIVE_OFFSET,
    LogView,
    SegmentTimes,
    SourceSize,
    assess,
    group,
    worth_cleaning,
)
from moldau.log.clean.throttle import LEAST_WAIT_S, MOST_WAIT_S, CleanerThrottle
from moldau.log.config import LogConfig

NOW = 1_000_000
COMPACTED = LogConfig(cleanup_policy="compact")


def view(
    bases: Sequence[int] = (0, 10, 20, 30),
    sizes: Sequence[int] = (100, 100, 100, 50),
    *,
    start: int = 0,
    end: int = 35,
    settled: int = 35,
    checkpoint: int | None = None,
    times: Sequence[SegmentTimes] = (SegmentTimes(1, 1),) * 4,
) -> LogView:
    return LogView(bases, sizes, start, end, settled, checkpoint, lambda number: times[number])


def test_a_log_never_cleaned_is_dirty_except_for_its_active_segment() -> None:
    dirt = assess(view(), COMPACTED, NOW)
    assert (dirt.first_dirty_offset, dirt.upper_offset, dirt.clean_bytes, dirt.dirty_bytes) == (0, 30, 0, 300)
    assert dirt.ratio == 1.0
    assert worth_cleaning(dirt, COMPACTED)


def test_cleaning_continues_where_it_ended() -> None:
    dirt = assess(view(checkpoint=20), COMPACTED, NOW)
    assert (dirt.first_dirty_offset, dirt.upper_offset, dirt.clean_bytes, dirt.dirty_bytes) == (20, 30, 200, 100)


@pytest.mark.parametrize(("ratio", "due"), [(0.3, True), (0.34, False), (1.0, False), (0.0, True)])
def test_a_log_is_due_when_enough_of_it_is_dirty(ratio: float, due: bool) -> None:
    config = LogConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=ratio)
    assert worth_cleaning(assess(view(checkpoint=20), config, NOW), config) is due


def test_a_log_without_new_records_is_never_due() -> None:
    config = LogConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    assert not worth_cleaning(assess(view(checkpoint=30), config, NOW), config)
    assert not worth_cleaning(assess(view([0], [0], end=0, settled=0), config, NOW), config)
    assert not worth_cleaning(assess(view([0], [90], end=9, settled=9), config, NOW), config)


@pytest.mark.parametrize(("settled", "upper"), [(35, 30), (30, 30), (29, 20), (20, 20), (19, 10), (9, 0), (0, 0)])
def test_only_whole_segments_below_the_cleanable_offset_are_cleaned(settled: int, upper: int) -> None:
    assert assess(view(settled=settled), COMPACTED, NOW).upper_offset == upper


@pytest.mark.parametrize("checkpoint", [-5, 3, 36, 1000])
def test_a_checkpoint_outside_the_log_is_ignored(checkpoint: int) -> None:
    assert assess(view(start=4, checkpoint=checkpoint), COMPACTED, NOW).first_dirty_offset == 4


def test_young_segments_wait_for_min_compaction_lag() -> None:
    config = LogConfig(cleanup_policy="compact", min_compaction_lag_ms=100)
    ages = [SegmentTimes(1, NOW - age) for age in (500, 99, 500, 0)]
    assert assess(view(times=ages), config, NOW).upper_offset == 10
    assert assess(view(times=ages), config, NOW + 1).upper_offset == 30


def test_a_record_that_waited_too_long_makes_its_log_due_whatever_its_share() -> None:
    config = LogConfig(cleanup_policy="compact", min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000)
    ages = [SegmentTimes(NOW - age, NOW) for age in (9000, 9000, 1000, 9000)]
    dirt = assess(view(checkpoint=20, times=ages), config, NOW)
    assert not dirt.overdue
    later = assess(view(checkpoint=20, times=ages), config, NOW + 1)
    assert later.overdue
    assert worth_cleaning(later, config)


def test_segments_roll_in_time_for_max_compaction_lag() -> None:
    assert LogConfig(cleanup_policy="compact", max_compaction_lag_ms=5, segment_ms=100).roll_ms == 5
    assert LogConfig(cleanup_policy="compact,delete", max_compaction_lag_ms=500, segment_ms=100).roll_ms == 100
    assert LogConfig(cleanup_policy="delete", max_compaction_lag_ms=5, segment_ms=100).roll_ms == 100


# -- groups ------------------------------------------------------------------------------------------------------------


def sources(*sizes: int, index: int = 0, step: int = 10) -> list[SourceSize]:
    return [SourceSize(number * step, size, index, index) for number, size in enumerate(sizes)]


def test_neighbours_become_one_up_to_the_size_of_a_segment() -> None:
    assert group(sources(40, 40, 40, 100, 10, 10), 60, 100, 1000) == [range(2), range(2, 3), range(3, 4), range(4, 6)]


def test_a_segment_that_is_too_large_stays_alone() -> None:
    assert group(sources(500, 1, 1), 30, 100, 1000) == [range(1), range(1, 3)]


def test_indexes_bound_a_group_too() -> None:
    assert group(sources(1, 1, 1, index=60), 30, 100, 120) == [range(2), range(2, 3)]


def test_offsets_stay_within_reach_of_the_base() -> None:
    far = MAX_RELATIVE_OFFSET // 2 + 1
    assert group(sources(1, 1, 1, step=far), 3 * far, 100, 100) == [range(2), range(2, 3)]


def test_no_segments_make_no_group() -> None:
    assert group([], 0, 100, 100) == []


# -- throttle ----------------------------------------------------------------------------------------------------------


def test_a_throttle_asks_for_the_time_that_the_bytes_should_take() -> None:
    throttle = CleanerThrottle(1000.0, now=5.0)
    assert throttle.wait(5.0) == 0
    throttle.spend(10)
    assert throttle.wait(5.0) == 0, "the pause is too short to sleep"
    throttle.spend(490)
    assert throttle.wait(5.0) == pytest.approx(0.5)
    assert throttle.wait(5.4) == pytest.approx(0.1)
    assert throttle.wait(5.5 - LEAST_WAIT_S / 2) == 0


def test_a_throttle_accumulates_no_credit_and_waits_in_parts() -> None:
    throttle = CleanerThrottle(1000.0, now=0.0)
    assert throttle.wait(100.0) == 0
    throttle.spend(50_000)
    assert throttle.wait(100.0) == MOST_WAIT_S
    assert throttle.wait(149.5) == pytest.approx(0.5)


def test_no_limit_means_no_waiting() -> None:
    throttle = CleanerThrottle(float("inf"), now=0.0)
    throttle.spend(1 << 40)
    assert throttle.wait(0.0) == 0
