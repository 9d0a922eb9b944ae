"""Offset resets: the new offset of each partition, for any committed offset and log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.admin import (
    ByDuration,
    OffsetSpec,
    Reset,
    ResetOffset,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToOffsets,
    ToTimestamp,
)
from moldau.client.admin.resets import NothingToShift, plan, specs_needed
from moldau.client.data_types import NO_OFFSET, TopicPartition

ONE = TopicPartition("orders", 0)

offsets = st.integers(0, 1_000)
rules = st.one_of(
    st.just(ToEarliest()),
    st.just(ToLatest()),
    st.just(ToCurrent()),
    st.builds(ToOffset, st.integers(-10, 2_000)),
    st.builds(ToOffsets, st.fixed_dictionaries({ONE: st.integers(-10, 2_000)})),
    st.builds(ToTimestamp, offsets),
    st.builds(ByDuration, offsets),
    st.builds(ShiftBy, st.integers(-2_000, 2_000)),
)


def planned(rule: Reset, before: int | None, earliest: int, latest: int, at_time: int) -> ResetOffset:
    committed = {} if before is None else {ONE: before}
    found = plan(rule, [ONE], committed, earliest={ONE: earliest}, latest={ONE: latest}, at_time={ONE: at_time})
    return found[ONE]


@given(rule=rules, start=offsets, length=offsets, inside=st.floats(0, 1), found=st.booleans())
def test_a_reset_from_inside_a_partition_ends_inside_of_it(
    rule: Reset, start: int, length: int, inside: float, found: bool
) -> None:
    end = start + length
    before = start + int(length * inside)
    new = planned(rule, before, start, end, before if found else NO_OFFSET)
    assert start <= new.after <= end
    assert new.before == before
    assert (new.asked is None) == (new.asked in (None, new.after))


@given(by=st.integers(-5, 5))
def test_shifting_forward_and_back_gives_the_same_offset(by: int) -> None:
    there = planned(ShiftBy(by), 50, 0, 100, NO_OFFSET).after
    assert planned(ShiftBy(-by), there, 0, 100, NO_OFFSET).after == 50


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (ToEarliest(), ResetOffset(7, 5)),
        (ToLatest(), ResetOffset(7, 10)),
        (ToCurrent(), ResetOffset(7, 7)),
        (ToOffset(6), ResetOffset(7, 6)),
        (ToOffset(3), ResetOffset(7, 5, 3)),
        (ToOffset(30), ResetOffset(7, 10, 30)),
        (ToOffsets({ONE: 9}), ResetOffset(7, 9)),
        (ShiftBy(2), ResetOffset(7, 9)),
        (ShiftBy(-3), ResetOffset(7, 5, 4)),
        (ToTimestamp(1), ResetOffset(7, 8)),
        (ByDuration(1), ResetOffset(7, 8)),
    ],
)
def test_each_reset_rule_gives_its_offset(rule: Reset, expected: ResetOffset) -> None:
    assert planned(rule, before=7, earliest=5, latest=10, at_time=8) == expected


def test_a_time_after_the_last_record_resets_to_the_end() -> None:
    assert planned(ToTimestamp(1), None, 5, 10, NO_OFFSET).after == 10


def test_without_a_commit_the_current_offset_is_the_end_and_nothing_can_be_shifted() -> None:
    assert planned(ToCurrent(), None, 5, 10, NO_OFFSET) == ResetOffset(None, 10)
    with pytest.raises(NothingToShift, match="orders-0") as raised:
        planned(ShiftBy(1), None, 5, 10, NO_OFFSET)
    assert raised.value.partition == ONE


def test_only_the_offsets_that_a_rule_needs_are_requested() -> None:
    assert specs_needed(ToLatest(), 0) == [OffsetSpec.LATEST]
    assert specs_needed(ShiftBy(1), 0) == [OffsetSpec.EARLIEST, OffsetSpec.LATEST]
    assert specs_needed(ByDuration(400), 1_000) == [600, OffsetSpec.LATEST]
    assert specs_needed(ByDuration(4_000), 1_000) == [0, OffsetSpec.LATEST]
