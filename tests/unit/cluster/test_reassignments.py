"""Reassignments: started, cancelled and completed, never with fewer in-sync replicas than required."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given

from moldau.cluster.errors import Refusal
from moldau.cluster.image import NO_LEADER, ClusterImage, PartitionState, TopicImage
from moldau.cluster.reassignments import Reassignment, completed, is_under_way, origin, reassigned, target
from moldau.wire.errors import ErrorCode
from tests.unit.cluster.partitions import BROKERS, a_step, state, states
from tests.unit.cluster.support import broker

ALIVE = frozenset(BROKERS)


def image_of(one: PartitionState) -> ClusterImage:
    brokers = [broker(number) for number in BROKERS]
    return ClusterImage("c").with_brokers(brokers).with_topics([TopicImage("t", b"t" * 16, (one,))])


def begun(before: PartitionState, wanted: tuple[int, ...] | None, min_isr: int = 1) -> PartitionState:
    result = reassigned(image_of(before), Reassignment("t", 0, wanted), min_isr)
    assert isinstance(result, PartitionState), result
    a_step(before, result)
    return result


def test_a_partition_moves_to_other_brokers() -> None:
    moving = begun(state((1, 2, 3)), (4, 5, 3))
    assert moving.replicas == (4, 5, 3, 1, 2)
    assert (moving.adding, moving.removing) == ((4, 5), (1, 2))
    assert (moving.leader, moving.isr) == (1, (3, 1, 2))
    half = state((4, 5, 3, 1, 2), (5, 3, 1, 2), 1, adding=(4, 5), removing=(1, 2))
    assert completed(half, ALIVE, 2) is half, "one of the added replicas is not in sync yet"
    ready = state((4, 5, 3, 1, 2), leader=1, adding=(4, 5), removing=(1, 2))
    done = completed(ready, ALIVE, 2)
    a_step(ready, done)
    assert (done.replicas, done.isr, done.leader) == ((4, 5, 3), (4, 5, 3), 4)
    assert not is_under_way(done)


@pytest.mark.parametrize(
    ("before", "wanted", "expected"),
    [
        pytest.param(state((1, 2, 3)), (3, 1, 2), ((3, 1, 2), (), ()), id="another order needs no copying"),
        pytest.param(state((1, 2, 3)), (1, 2), ((1, 2), (), ()), id="fewer replicas need no copying"),
        pytest.param(state((1, 2, 3)), (2, 3), ((2, 3), (), ()), id="the leader goes: another one leads"),
        pytest.param(state((1, 2)), (1, 2, 3), ((1, 2, 3), (3,), ()), id="one more replica"),
        pytest.param(state((1, 2, 3), (1,)), (2, 3), ((2, 3, 1), (), (1,)), id="nobody that stays is in sync yet"),
        pytest.param(
            state((4, 1, 2), (1, 2), adding=(4,)), (5, 1, 2), ((5, 1, 2), (5,), ()), id="another one comes instead"
        ),
        pytest.param(
            state((4, 1, 2), (1, 2), adding=(4,)), (1, 2), ((1, 2), (), ()), id="the one that was coming does not"
        ),
    ],
)
def test_a_reassignment_gives_the_expected_state(
    before: PartitionState,
    wanted: tuple[int, ...],
    expected: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
) -> None:
    result = begun(before, wanted)
    assert (result.replicas, result.adding, result.removing) == expected


def test_a_reassignment_that_is_taken_back_leaves_the_replicas_that_were_there() -> None:
    moving = begun(state((1, 2, 3)), (3, 4, 5))
    back = begun(moving, None)
    assert sorted(back.replicas) == [1, 2, 3]
    assert not is_under_way(back)


def test_a_leader_is_not_removed_before_another_replica_can_lead() -> None:
    moving = state((4, 1, 2), (4,), 4, adding=(4,), removing=(1, 2))
    back = begun(moving, None)
    assert (back.leader, back.replicas, back.removing) == (4, (1, 2, 4), (4,))
    in_sync = state((1, 2, 4), leader=4, removing=(4,))
    done = completed(in_sync, ALIVE, 1)
    assert (done.leader, done.replicas) == (1, (1, 2))


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (Reassignment("t", 0, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Reassignment("t", 0, (1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Reassignment("t", 0, (1, -1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Reassignment("t", 0, (1, 99)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (Reassignment("t", 1, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Reassignment("t", 0, None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_a_reassignment_that_is_refused(wanted: Reassignment, code: ErrorCode) -> None:
    result = reassigned(image_of(state((1, 2))), wanted, 1)
    assert isinstance(result, Refusal)
    assert result.code == code


def test_a_dead_replica_may_stay_but_a_dead_broker_gets_none() -> None:
    image = image_of(state((1, 2, 3), (2, 3)))
    image = image.with_brokers(one for one in image.brokers.values() if one.id not in (1, 6))
    assert isinstance(reassigned(image, Reassignment("t", 0, (1, 2)), 1), PartitionState)
    assert isinstance(reassigned(image, Reassignment("t", 0, (2, 6)), 1), Refusal)


TARGETS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True).map(tuple)


@given(states(), st.one_of(st.none(), TARGETS), st.integers(1, 3))
def test_any_reassignment_ends_in_its_target_without_losing_in_sync_replicas(
    before: PartitionState, wanted: tuple[int, ...] | None, min_isr: int
) -> None:
    assume(wanted is not None or is_under_way(before))
    moving = begun(before, wanted, min_isr)
    goal = target(moving)
    assert set(goal) == set(origin(before) if wanted is None else wanted)
    assert wanted is None or goal == wanted
    assert moving.leader != NO_LEADER or before.leader == NO_LEADER
    if is_under_way(moving):
        assert {*before.isr, *before.elr, *before.last_known_elr} <= set(moving.replicas)
    everyone = state(moving.replicas, leader=moving.replicas[-1], adding=moving.adding, removing=moving.removing)
    done = completed(everyone, ALIVE, min_isr)
    a_step(everyone, done)
    assert done.replicas == goal
    assert not is_under_way(done)
    assert done.leader in goal


@given(states(), st.integers(1, 3))
def test_a_reassignment_is_complete_only_with_all_new_replicas_and_enough_in_sync(
    before: PartitionState, min_isr: int
) -> None:
    done = completed(before, ALIVE, min_isr)
    a_step(before, done)
    if done is not before:
        assert set(before.adding) <= set(before.isr)
        assert len(done.isr) >= min(min_isr, len(done.replicas))
        assert done.leader != NO_LEADER
