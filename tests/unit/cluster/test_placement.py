"""Placement: leaders even, replicas spread, racks first, the same every time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given

from moldau.cluster.image import BrokerImage
from moldau.cluster.placement import continued, place, ring
from tests.unit.cluster.support import broker

RACKS = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12)
CURSORS = st.integers(0, 1_000_000)


def brokers_in(racks: Sequence[str | None]) -> list[BrokerImage]:
    return [broker(10 + index, rack) for index, rack in enumerate(racks)]


def spread(counts: Counter[int], brokers: Sequence[BrokerImage]) -> int:
    numbers = [counts[each.id] for each in brokers]
    return max(numbers) - min(numbers)


@given(RACKS, st.integers(0, 100), CURSORS, st.data())
def test_replicas_are_distinct_live_brokers_and_leaders_are_one_apart_at_most(
    racks: list[str | None], partitions: int, cursor: int, data: st.DataObject
) -> None:
    brokers = ring(brokers_in(racks))
    factor = data.draw(st.integers(1, len(brokers)))
    placed = place(brokers, partitions, factor, cursor)
    ids = {each.id for each in brokers}
    assert len(placed) == partitions
    for replicas in placed:
        assert len(replicas) == len(set(replicas)) == factor
        assert set(replicas) <= ids
    assert spread(Counter(replicas[0] for replicas in placed), brokers) <= 1
    assert placed == place(brokers, partitions, factor, cursor), "the same arguments gave another placement"


@given(RACKS, st.integers(1, 40), CURSORS, st.data())
def test_no_rack_holds_two_replicas_more_than_another_that_has_room(
    racks: list[str | None], partitions: int, cursor: int, data: st.DataObject
) -> None:
    brokers = ring(brokers_in(racks))
    rack_of = {each.id: each.rack for each in brokers}
    sizes = Counter(racks)
    for replicas in place(brokers, partitions, data.draw(st.integers(1, len(brokers))), cursor):
        held = Counter(rack_of[replica] for replica in replicas)
        for rack, size in sizes.items():
            assert held[rack] == size or held[rack] >= max(held.values()) - 1


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 100), CURSORS, st.data())
def test_replicas_are_even_where_racks_are_of_one_size(
    rack_count: int, rack_size: int, partitions: int, cursor: int, data: st.DataObject
) -> None:
    brokers = ring(brokers_in([f"rack-{index}" for index in range(rack_count)] * rack_size))
    factor = data.draw(st.integers(1, len(brokers)))

    def replicas_of(partitions: int, cursor: int) -> Counter[int]:
        return Counter(replica for replicas in place(brokers, partitions, factor, cursor) for replica in replicas)

    # A turn that is begun or left halfway can give a broker one more of each follower's place.
    assert spread(replicas_of(partitions, cursor), brokers) <= 1 + 2 * (factor - 1)
    count = len(brokers)
    assert spread(replicas_of(partitions * count, cursor * count), brokers) == 0, "whole turns are not even"


def test_many_small_topics_are_as_even_as_one_large_one() -> None:
    brokers = ring(brokers_in([None] * 6))
    one_by_one = [replicas for cursor in range(60) for replicas in place(brokers, 1, 2, cursor)]
    assert one_by_one == place(brokers, 60, 2, 0)


def test_the_followers_of_a_broker_are_spread_over_all_others() -> None:
    brokers = ring(brokers_in([None] * 5))
    placed = place(brokers, 5 * 4, 2, 0)
    followers = Counter(replicas[1] for replicas in placed if replicas[0] == 10)
    assert followers == {11: 1, 12: 1, 13: 1, 14: 1}


def test_racks_of_different_sizes_still_share_the_load_within_reason() -> None:
    brokers = ring(brokers_in(["a"] * 3 + ["b"] * 3 + ["c"] * 2))
    counts = Counter(replica for replicas in place(brokers, 560, 2, 0) for replica in replicas)
    assert max(counts.values()) <= 1.25 * min(counts.values())


def test_the_ring_mixes_racks() -> None:
    order = [each.rack for each in ring(brokers_in(["a", "a", "a", "b", "b", "b"]))]
    assert order == ["a", "b"] * 3
    assert [each.id for each in ring(reversed(brokers_in([None] * 4)))] == [10, 11, 12, 13]


@pytest.mark.parametrize("factor", [0, 4])
def test_more_replicas_than_brokers_cannot_be_placed(factor: int) -> None:
    with pytest.raises(ValueError, match="cannot be placed"):
        place(ring(brokers_in([None] * 3)), 1, factor, 0)


@given(RACKS, st.integers(1, 30), st.integers(1, 30), CURSORS, CURSORS)
def test_a_topic_that_grows_keeps_its_leaders_even(
    racks: list[str | None], before: int, more: int, cursor: int, later_cursor: int
) -> None:
    brokers = ring(brokers_in(racks))
    placed = place(brokers, before, 1, cursor)
    placed += place(brokers, more, 1, continued(brokers, placed[-1][0], later_cursor))
    assert spread(Counter(replicas[0] for replicas in placed), brokers) <= 1


def test_a_topic_whose_last_leader_is_gone_goes_on_at_the_cursor() -> None:
    brokers = ring(brokers_in([None] * 3))
    assert continued(brokers, 99, 41) == 41
    assert continued(brokers, 12, 41) % 3 == 0
