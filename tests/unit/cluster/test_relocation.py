"""Relocation of the replicas of a drained broker: few moves, spread over the other brokers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cluster.image import BrokerImage
from moldau.cluster.placement import place, ring
from moldau.cluster.relocation import NoRoomError, emptied, resized, spread
from moldau.wire.topic_partition import TopicPartition


def brokers(count: int, racks: int = 0) -> list[BrokerImage]:
    return [BrokerImage(node, (), f"rack-{node % racks}" if racks else None) for node in range(count)]


def assignment(on: list[BrokerImage], partitions: int, factor: int) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("orders", index): one for index, one in enumerate(place(ring(on), partitions, factor, 0))}


@given(st.integers(4, 12), st.integers(0, 4), st.integers(1, 40), st.integers(1, 3), st.data())
def test_only_replicas_of_the_broker_move_and_no_broker_gets_two(
    count: int, racks: int, partitions: int, factor: int, data: st.DataObject
) -> None:
    on = brokers(count, racks)
    before = assignment(on, partitions, factor)
    gone = data.draw(st.integers(0, count - 1))
    moved = emptied(before, gone, on)
    assert moved.keys() == {partition for partition, replicas in before.items() if gone in replicas}
    for partition, replicas in moved.items():
        assert gone not in replicas
        assert len(set(replicas)) == factor
        assert set(replicas) >= set(before[partition]) - {gone}


def test_moved_replicas_are_spread_over_the_other_brokers() -> None:
    on = brokers(6)
    before = assignment(on, 60, 3)
    after = {**before, **emptied(before, 0, on)}
    held = Counter(node for replicas in after.values() for node in replicas)
    led = Counter(replicas[0] for replicas in after.values())
    assert held.keys() == led.keys() == set(range(1, 6))
    assert all(abs(number - 36) <= 1 for number in held.values())
    assert all(abs(number - 12) <= 1 for number in led.values())


def test_racks_stay_apart_where_they_can() -> None:
    on = brokers(6, racks=3)
    before = assignment(on, 30, 3)
    after = {**before, **emptied(before, 0, on)}
    assert all(len({node % 3 for node in replicas}) == 3 for replicas in after.values())


def test_the_same_arguments_give_the_same_result() -> None:
    before = assignment(brokers(5), 20, 3)
    assert emptied(before, 2, brokers(5)) == emptied(dict(reversed(before.items())), 2, reversed(brokers(5)))


def test_a_dead_broker_can_be_drained_and_leads_nothing() -> None:
    moved = emptied({("orders", 0): (1, 9), ("orders", 1): (9, 1)}, 9, brokers(4))
    assert all(9 not in replicas for replicas in moved.values())
    moved = emptied({("orders", 0): (0, 9)}, 0, brokers(4))
    assert moved["orders", 0][0] != 9


def test_without_room_nothing_is_decided() -> None:
    with pytest.raises(NoRoomError, match="orders-0 has 3 replicas, but without broker 1 there are 2 brokers"):
        emptied({("orders", 0): (0, 1, 2)}, 1, brokers(3))
    with pytest.raises(NoRoomError, match="there are 2 brokers"):
        spread({"orders": (1, 3)}, brokers(2))


def test_spread_topics_are_balanced() -> None:
    placed = spread({"orders": (10, 3), "bills": (8, 2)}, brokers(6, racks=3))
    assert len(placed) == 18
    held = Counter(node for replicas in placed.values() for node in replicas)
    assert max(held.values()) - min(held.values()) <= 1


def test_added_replicas_go_to_free_brokers_and_removed_ones_are_the_last() -> None:
    on = brokers(4, racks=2)
    alone = {("orders", index): (0,) for index in range(8)}
    wide = resized(alone, 2, on)
    assert all(one[0] == 0 and one[1] % 2 == 1 for one in wide.values()), (
        "existing replicas must stay, and new ones be in other racks"
    )
    assert Counter(one[1] for one in wide.values()) == {1: 4, 3: 4}
    assert resized(wide, 1, on) == alone
    with pytest.raises(NoRoomError, match="there are 4 brokers"):
        resized(alone, 5, on)
