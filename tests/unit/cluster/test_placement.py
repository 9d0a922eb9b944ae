"""Replica placement: even leaders, spread replicas, racks first, deterministic."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from moldau.cluster.controller import ControllerRules, Rebalance, decided
from moldau.cluster.image import BrokerImage, ClusterImage, Endpoint, PartitionState, PartitionStates, TopicImage
from moldau.cluster.placement import continued, host, place, ring
from tests.unit.cluster.support import broker

RACKS = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=12)
CURSORS = st.integers(0, 1_000_000)
# The number of racks, of hosts per rack and of brokers per host, and the replication factor.
REGULAR_CLUSTERS = st.tuples(st.integers(1, 4), st.integers(1, 4), st.sampled_from([1, 1, 2, 3])).flatmap(
    lambda sizes: st.tuples(st.just(sizes), st.integers(1, math.prod(sizes)))
)


def brokers_in(racks: Sequence[str | None]) -> list[BrokerImage]:
    return [broker(10 + index, rack) for index, rack in enumerate(racks)]


def on(host: str, broker_id: int, rack: str | None = None) -> BrokerImage:
    return BrokerImage(broker_id, (Endpoint("PLAINTEXT", host, 9092 + broker_id, "PLAINTEXT"),), rack)


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


@given(REGULAR_CLUSTERS, st.integers(0, 100), CURSORS)
@example(((4, 4, 1), 8), 69, 178)  # needs more exchanges than there are brokers
@example(((5, 2, 1), 4), 35, 49)  # no single exchange improves the balance
@example(((5, 3, 1), 6), 6, 14)  # needs a chain of three exchanges
@example(((4, 1, 2), 5), 3, 56)  # hosts with two brokers
def test_replicas_are_one_apart_at_most_where_racks_and_hosts_are_of_one_size(
    cluster: tuple[tuple[int, int, int], int], partitions: int, cursor: int
) -> None:
    (rack_count, hosts, on_host), factor = cluster
    in_rack = hosts * on_host
    brokers = ring(
        on(f"host-{number // on_host}", number, f"rack-{number // in_rack}") for number in range(rack_count * in_rack)
    )

    def replicas_of(partitions: int, cursor: int) -> Counter[int]:
        return Counter(replica for replicas in place(brokers, partitions, factor, cursor) for replica in replicas)

    assert spread(replicas_of(partitions, cursor), brokers) <= 1
    count = len(brokers)
    assert spread(replicas_of(partitions * count, cursor * count), brokers) == 0, "complete rounds are not even"


@pytest.mark.parametrize(
    ("sizes", "factor"), [((3, 3, 2), 2), ((1, 1, 2), 2), ((4, 4, 4, 3), 3), ((2, 3, 4, 5), 2), ((1, 2, 3), 1)]
)
def test_replica_counts_differ_by_at_most_one_if_no_rack_is_too_large(sizes: tuple[int, ...], factor: int) -> None:
    brokers = ring(brokers_in([f"rack-{rack}" for rack, size in enumerate(sizes) for _ in range(size)]))
    for partitions in (1, 2, 5, 10, 24, 100, 200):
        for cursor in range(2 * len(brokers)):
            placed = place(brokers, partitions, factor, cursor)
            assert spread(Counter(replica for replicas in placed for replica in replicas), brokers) <= 1


def test_of_two_racks_that_are_too_large_or_too_small_for_their_share_each_is_even_in_itself() -> None:
    brokers = ring(brokers_in(["large"] * 5 + ["small"] * 2))
    for cursor in range(2 * len(brokers)):
        counts = Counter(replica for replicas in place(brokers, 34, 2, cursor) for replica in replicas)
        for rack in ("large", "small"):
            assert spread(counts, [each for each in brokers if each.rack == rack]) <= 1


def test_many_small_topics_are_as_even_as_one_large_one() -> None:
    brokers = ring(brokers_in([None] * 6))
    one_by_one = [replicas for cursor in range(60) for replicas in place(brokers, 1, 2, cursor)]
    assert one_by_one == place(brokers, 60, 2, 0)


def test_many_topics_of_different_sizes_favour_no_broker() -> None:
    brokers = ring(brokers_in([f"rack-{index}" for index in range(4)] * 4))
    counts: Counter[int] = Counter()
    cursor = 0
    for partitions in [3, 5, 12, 5, 3, 3, 12, 5] * 50:
        counts.update(replica for replicas in place(brokers, partitions, 3, cursor) for replica in replicas)
        cursor += partitions
    assert max(counts.values()) <= 1.2 * min(counts.values())


def test_the_followers_of_a_broker_are_spread_over_all_others() -> None:
    brokers = ring(brokers_in([None] * 5))
    placed = place(brokers, 5 * 4, 2, 0)
    followers = Counter(replicas[1] for replicas in placed if replicas[0] == 10)
    assert followers == {11: 1, 12: 1, 13: 1, 14: 1}


def test_racks_of_different_sizes_still_share_the_load_within_reason() -> None:
    brokers = ring(brokers_in(["a"] * 3 + ["b"] * 3 + ["c"] * 2))
    counts = Counter(replica for replicas in place(brokers, 560, 2, 0) for replica in replicas)
    assert max(counts.values()) <= 1.25 * min(counts.values())


def test_racks_alternate_in_the_order_of_placement() -> None:
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


def test_placement_continues_at_the_cursor_if_the_last_leader_is_gone() -> None:
    brokers = ring(brokers_in([None] * 3))
    assert continued(brokers, 99, 41) == 41
    assert continued(brokers, 12, 41) % 3 == 0


@pytest.mark.parametrize(
    "brokers",
    [
        pytest.param([on(f"host-{number}", number) for number in range(6)], id="six hosts"),
        pytest.param([on(f"host-{number // 2}", number) for number in range(6)], id="two brokers a host"),
        pytest.param([on(f"host-{number}", number, f"rack-{number % 2}") for number in range(6)], id="two racks"),
        pytest.param(
            [on(f"host-{number // 2}", number, f"rack-{number // 2}") for number in range(6)],
            id="a rack a host",
        ),
    ],
)
def test_six_brokers_share_ten_partitions_of_three_replicas_evenly_on_different_hosts_and_racks(
    brokers: list[BrokerImage],
) -> None:
    by_id = {each.id: each for each in brokers}
    for cursor in range(60):
        placed = place(ring(brokers), 10, 3, cursor)
        assert Counter(replica for replicas in placed for replica in replicas) == dict.fromkeys(by_id, 5)
        for replicas in placed:
            assert len({host(by_id[replica]) for replica in replicas}) == 3
            racks = {each.rack for each in brokers}
            assert len({by_id[replica].rack for replica in replicas}) == min(3, len(racks))


def test_hosts_come_before_balance_and_racks_before_hosts() -> None:
    brokers = [on("big", 1), on("big", 2), on("big", 3), on("small", 4)]
    for replicas in place(ring(brokers), 12, 2, 0):
        assert 4 in replicas, "two replicas are on one host although another is free"
    racked = [on("big", 1, "a"), on("big", 2, "b"), on("other", 3, "a")]
    for replicas in place(ring(racked), 12, 2, 0):
        assert 2 in replicas, "two replicas are in one rack although another is free"


def test_a_hundred_thousand_partitions_on_a_hundred_brokers_and_the_loss_of_one_are_decided_within_five_seconds() -> (
    None
):
    brokers = [on(f"host-{number % 50}", number, f"rack-{number % 10}") for number in range(100)]
    begun = time.process_time()
    placed = place(ring(brokers), 100_000, 3, 17)
    states = PartitionStates()
    topics = [
        TopicImage(
            f"t{number}",
            number.to_bytes(16, "big"),
            tuple(
                states.one(PartitionState(replicas, replicas, replicas[0], 0, 0))
                for replicas in placed[number * 1_000 : number * 1_000 + 1_000]
            ),
        )
        for number in range(100)
    ]
    image = ClusterImage("c").with_brokers(brokers[1:]).with_topics(topics)
    rules = ControllerRules(lambda _topic: 2, lambda _topic: False, Rebalance)
    steps = decided(image, image.topics.values(), rules).steps()
    taken_s = time.process_time() - begun
    moved = [
        (before, after)
        for step in steps
        for before, after in zip(
            image.topics[step.change.topic.name].partitions, step.change.topic.partitions, strict=True
        )
        if before is not after
    ]
    assert len(moved) == 3_000
    assert sum(before.leader == 0 for before, _ in moved) == 1_000
    assert all(after.leader in image.brokers and 0 not in after.isr for _, after in moved)
    successors = Counter(after.leader for before, after in moved if before.leader == 0)
    assert max(successors.values()) <= 30, "one broker gets most of the load"
    assert taken_s < 5
