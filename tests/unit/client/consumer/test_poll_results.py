"""Iteration: records that were not yielded are not counted as read, wherever the iteration is interrupted."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer.decode import Record
from moldau.client.consumer.poll_results import PollResults, Span
from moldau.client.consumer.subscription import AssignedPartition
from moldau.client.data_types import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def handout(a: int = 4, b: int = 3, piece: int = 0) -> PollResults:
    records = [Record("t", 0, 10 + i, leader_epoch=1) for i in range(a)]
    records += [Record("t", 1, 50 + 2 * i, leader_epoch=2) for i in range(b)]
    spans = [
        Span(A, AssignedPartition(A), 1, None, 0, a, 8, 0, 10 + a, 1),
        Span(B, AssignedPartition(B), 2, None, a, a + b, 50, -1, 50 + 2 * b + 5, 3),
    ]
    return PollResults(records, [span for span in spans if span.first < span.stop], piece)


def taken(one: PollResults, count: int) -> list[int]:
    records = one.one_by_one(None)
    return [next(records).offset for _ in range(count)]


def test_no_record_counts_as_read_before_it_is_yielded() -> None:
    one = handout()
    assert one.seen == 0
    assert one.unseen(A) == (8, 0)  # the earlier position of the partition
    assert one.unseen(B) == (50, -1)


def test_the_position_follows_the_last_record_that_was_yielded() -> None:
    one = handout()
    assert taken(one, 2) == [10, 11]
    assert one.unseen(A) == (12, 1)
    assert one.unseen(B) == (50, -1)


def test_after_all_records_were_yielded_the_position_is_that_of_the_partition() -> None:
    one = handout()
    taken(one, 5)
    assert one.unseen(A) is None
    assert one.unseen(B) == (51, 2)


def test_taking_all_records_at_once_returns_all() -> None:
    one = handout()
    assert len(one.all_at_once()) == 7
    assert one.unseen(A) is None and one.unseen(B) is None


def test_a_record_that_cannot_be_prepared_was_not_seen() -> None:
    one = handout(piece=2)

    def prepare(record: Record) -> bool:
        if record.offset == 12:
            raise ValueError("no number")
        return True

    with pytest.raises(ValueError, match="no number"):
        list(one.one_by_one(prepare))
    assert one.seen == 2
    assert one.unseen(A) == (12, 1)


def test_a_record_that_is_left_out_counts_as_seen() -> None:
    one = handout()
    assert [record.offset for record in one.one_by_one(lambda record: record.offset != 11)] == [10, 12, 13, 50, 52, 54]
    assert one.seen == 7


def test_a_recall_ends_the_iteration_after_the_current_piece() -> None:
    one = handout(a=10, b=0, piece=4)
    records = one.one_by_one(None)
    assert [next(records).offset for _ in range(5)] == [10, 11, 12, 13, 14]
    one.end_early()
    assert [record.offset for record in records] == [15, 16, 17]
    assert [back.position for _, back in one.take_back()] == [18]


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 5), st.integers(0, 18), st.booleans())
def test_every_record_is_either_yielded_or_taken_back(a: int, b: int, piece: int, before: int, recalled: bool) -> None:
    one = handout(a, b, piece)
    all_offsets = [(record.partition, record.offset) for record in one.records]
    iterator = one.one_by_one(None)
    yielded = [(record.partition, record.offset) for record in islice(iterator, before)]
    if recalled:
        one.end_early()
        yielded += [(record.partition, record.offset) for record in iterator]
    rest: list[tuple[int, int]] = []
    assert one.seen == len(yielded)
    for _, back in one.take_back():
        out: list[Record] = []
        while not back.done:
            back.take(out, 2)
        assert (back.position, back.epoch) == (back.end, back.end_epoch)
        rest += [(record.partition, record.offset) for record in out]
    assert yielded + rest == all_offsets
    assert list(iterator) == []  # it ends, and yields no record that was taken back
