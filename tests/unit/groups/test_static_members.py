"""Static members: a restart with the same group.instance.id causes no rebalance and fences the old member id."""

from __future__ import annotations

from moldau.groups.classic_group import ClassicGroupState
from moldau.groups.events import DescribeGroup
from moldau.wire.errors import ErrorCode
from tests.unit.groups.world import REBALANCE_MS, SESSION_MS, World, subscription

E = ErrorCode


def started(world: World, *instances: str) -> dict[str, str]:
    """Form a stable group of static members. Return their ids by instance."""
    tickets = {instance: world.join(instance=instance) for instance in instances}
    world.advance(0)
    responses = {instance: world.answer(ticket) for instance, ticket in tickets.items()}
    leader = next(one for one in responses.values() if one.leader == one.member_id)
    given = {one.member_id: one.member_id.encode() for one in responses.values()}
    for instance, one in responses.items():
        if one is not leader:
            world.sync(one.member_id, one.generation_id, instance=instance)
    world.sync(leader.member_id, leader.generation_id, given)
    world.answers.clear()
    return {instance: one.member_id for instance, one in responses.items()}


def state(world: World) -> ClassicGroupState:
    group = world.shard.groups["g"].classic
    assert group is not None
    return group.state


def test_a_static_member_joins_without_a_member_id() -> None:
    world = World()
    assert started(world, "a") == {"a": "a-id1"}


def test_a_restarted_member_keeps_its_assignment_without_a_rebalance() -> None:
    world = World()
    before = started(world, "a", "b")
    response = world.answer(world.join(instance="b"))
    assert (response.error_code, response.generation_id) == (E.NONE, 1)
    assert response.member_id != before["b"]
    assert state(world) is ClassicGroupState.STABLE
    synced = world.answer(world.sync(response.member_id, 1, instance="b"))
    assert synced.assignment == before["b"].encode()


def test_the_new_member_id_survives_a_restart_of_the_coordinator() -> None:
    world = World()
    started(world, "a", "b")
    new_id = world.answer(world.join(instance="b")).member_id
    world.reload()
    assert world.heartbeat(new_id, 1, instance="b") == E.NONE


def test_the_old_member_id_is_fenced() -> None:
    world = World()
    before = started(world, "a", "b")
    world.join(instance="b")
    old = before["b"]
    assert world.heartbeat(old, 1, instance="b") == E.FENCED_INSTANCE_ID
    assert world.commit(1, old, 1, instance="b") == E.FENCED_INSTANCE_ID
    assert world.answer(world.sync(old, 1, instance="b")).error_code == E.FENCED_INSTANCE_ID
    assert world.answer(world.join(old, instance="b")).error_code == E.FENCED_INSTANCE_ID
    assert world.leave((old, "b")) == [E.FENCED_INSTANCE_ID]


def test_a_waiting_request_of_the_old_member_id_is_fenced() -> None:
    world = World()
    before = started(world, "a", "b")
    world.join(before["a"], instance="a", protocols=[("range", subscription("t", "u"))])
    world.join(before["b"], instance="b")
    waiting = world.sync(before["b"], 2, instance="b")
    assert world.answer(waiting) is None
    world.join(instance="b")
    assert world.answer(waiting).error_code == E.FENCED_INSTANCE_ID


def test_a_leader_that_restarts_does_not_assign_again() -> None:
    world = World()
    before = started(world, "a", "b")
    leader = world.ask(DescribeGroup, "g").members[0].group_instance_id
    skipping = world.answer(world.join(instance=leader, version=9))
    assert skipping.skip_assignment
    assert skipping.leader == skipping.member_id
    assert len(skipping.members) == 2
    world = World()
    before = started(world, "a", "b")
    old = world.answer(world.join(instance=leader, version=8))
    assert old.leader == before[leader] != old.member_id
    assert old.members == []


def test_a_restart_with_another_subscription_triggers_a_rebalance() -> None:
    world = World()
    started(world, "a", "b")
    world.join(instance="b", protocols=[("range", subscription("t", "u"))])
    assert state(world) is ClassicGroupState.PREPARING_REBALANCE


def test_a_restart_with_other_user_data_does_not_trigger_a_rebalance() -> None:
    world = World()
    started(world, "a", "b")
    world.join(instance="b", protocols=[("range", subscription("t", user_data=b"what I owned"))])
    assert state(world) is ClassicGroupState.STABLE


def test_a_member_that_restarts_during_a_rebalance_takes_part_in_it() -> None:
    world = World()
    before = started(world, "a", "b")
    waiting = world.join(before["a"], instance="a", protocols=[("range", subscription("t", "u"))])
    assert world.answer(waiting) is None
    new = world.answer(world.join(instance="b"))
    assert new.generation_id == 2
    assert world.answer(waiting).generation_id == 2
    # All members have joined and none has synced. The generation has the old member id, so it cannot be completed.
    world.join(instance="b")
    assert state(world) is ClassicGroupState.PREPARING_REBALANCE


def test_a_silent_static_member_stays_during_a_rebalance_until_its_session_ends() -> None:
    world = World()
    tickets = [world.join(instance=name, session_ms=100_000) for name in ("a", "b")]
    world.advance(0)
    first, second = (world.answer(ticket).member_id for ticket in tickets)
    world.sync(first, 1, {})
    world.sync(second, 1)
    world.join(first, instance="a", session_ms=100_000)
    world.advance(REBALANCE_MS)
    assert len(world.ask(DescribeGroup, "g").members) == 2


def test_a_static_member_can_leave_by_its_instance_id_alone() -> None:
    world = World()
    started(world, "a", "b")
    assert world.leave(("", "b"), ("", "c")) == [E.NONE, E.UNKNOWN_MEMBER_ID]
    world.advance(SESSION_MS * 2)
    assert state(world) is ClassicGroupState.EMPTY
