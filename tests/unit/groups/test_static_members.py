"""Static members: a restart with the same group.instance.id causes no rebalance and fences the old member id."""

from __future__ import annotations

from moldau.groups.classic_group import ClassicGroupState
from moldau.groups.events import DescribeGroup
from moldau.wire.errors import ErrorCode
from tests.unit.groups.shard_driver import REBALANCE_MS, SESSION_MS, ShardDriver, subscription

E = ErrorCode


def started(driver: ShardDriver, *instances: str) -> dict[str, str]:
    """Form a stable group of static members. Return their ids by instance."""
    tickets = {instance: driver.join(instance=instance) for instance in instances}
    driver.advance(0)
    responses = {instance: driver.answer(ticket) for instance, ticket in tickets.items()}
    leader = next(one for one in responses.values() if one.leader == one.member_id)
    given = {one.member_id: one.member_id.encode() for one in responses.values()}
    for instance, one in responses.items():
        if one is not leader:
            driver.sync(one.member_id, one.generation_id, instance=instance)
    driver.sync(leader.member_id, leader.generation_id, given)
    driver.answers.clear()
    return {instance: one.member_id for instance, one in responses.items()}


def state(driver: ShardDriver) -> ClassicGroupState:
    group = driver.shard.groups["g"].classic
    assert group is not None
    return group.state


def test_a_static_member_joins_without_a_member_id() -> None:
    driver = ShardDriver()
    assert started(driver, "a") == {"a": "a-id1"}


def test_a_restarted_member_keeps_its_assignment_without_a_rebalance() -> None:
    driver = ShardDriver()
    before = started(driver, "a", "b")
    response = driver.answer(driver.join(instance="b"))
    assert (response.error_code, response.generation_id) == (E.NONE, 1)
    assert response.member_id != before["b"]
    assert state(driver) is ClassicGroupState.STABLE
    synced = driver.answer(driver.sync(response.member_id, 1, instance="b"))
    assert synced.assignment == before["b"].encode()


def test_the_new_member_id_survives_a_restart_of_the_coordinator() -> None:
    driver = ShardDriver()
    started(driver, "a", "b")
    new_id = driver.answer(driver.join(instance="b")).member_id
    driver.reload()
    assert driver.heartbeat(new_id, 1, instance="b") == E.NONE


def test_the_old_member_id_is_fenced() -> None:
    driver = ShardDriver()
    before = started(driver, "a", "b")
    driver.join(instance="b")
    old = before["b"]
    assert driver.heartbeat(old, 1, instance="b") == E.FENCED_INSTANCE_ID
    assert driver.commit(1, old, 1, instance="b") == E.FENCED_INSTANCE_ID
    assert driver.answer(driver.sync(old, 1, instance="b")).error_code == E.FENCED_INSTANCE_ID
    assert driver.answer(driver.join(old, instance="b")).error_code == E.FENCED_INSTANCE_ID
    assert driver.leave((old, "b")) == [E.FENCED_INSTANCE_ID]


def test_a_waiting_request_of_the_old_member_id_is_fenced() -> None:
    driver = ShardDriver()
    before = started(driver, "a", "b")
    driver.join(before["a"], instance="a", protocols=[("range", subscription("t", "u"))])
    driver.join(before["b"], instance="b")
    waiting = driver.sync(before["b"], 2, instance="b")
    assert driver.answer(waiting) is None
    driver.join(instance="b")
    assert driver.answer(waiting).error_code == E.FENCED_INSTANCE_ID


def test_a_leader_that_restarts_does_not_assign_again() -> None:
    driver = ShardDriver()
    before = started(driver, "a", "b")
    leader = driver.ask(DescribeGroup, "g").members[0].group_instance_id
    skipping = driver.answer(driver.join(instance=leader, version=9))
    assert skipping.skip_assignment
    assert skipping.leader == skipping.member_id
    assert len(skipping.members) == 2
    driver = ShardDriver()
    before = started(driver, "a", "b")
    old = driver.answer(driver.join(instance=leader, version=8))
    assert old.leader == before[leader] != old.member_id
    assert old.members == []


def test_a_restart_with_another_subscription_triggers_a_rebalance() -> None:
    driver = ShardDriver()
    started(driver, "a", "b")
    driver.join(instance="b", protocols=[("range", subscription("t", "u"))])
    assert state(driver) is ClassicGroupState.PREPARING_REBALANCE


def test_a_restart_with_other_user_data_does_not_trigger_a_rebalance() -> None:
    driver = ShardDriver()
    started(driver, "a", "b")
    driver.join(instance="b", protocols=[("range", subscription("t", user_data=b"what I owned"))])
    assert state(driver) is ClassicGroupState.STABLE


def test_a_member_that_restarts_during_a_rebalance_takes_part_in_it() -> None:
    driver = ShardDriver()
    before = started(driver, "a", "b")
    waiting = driver.join(before["a"], instance="a", protocols=[("range", subscription("t", "u"))])
    assert driver.answer(waiting) is None
    new = driver.answer(driver.join(instance="b"))
    assert new.generation_id == 2
    assert driver.answer(waiting).generation_id == 2
    # All members have joined and none has synced. The generation has the old member id, so it cannot be completed.
    driver.join(instance="b")
    assert state(driver) is ClassicGroupState.PREPARING_REBALANCE


def test_a_silent_static_member_stays_during_a_rebalance_until_its_session_ends() -> None:
    driver = ShardDriver()
    tickets = [driver.join(instance=name, session_ms=100_000) for name in ("a", "b")]
    driver.advance(0)
    first, second = (driver.answer(ticket).member_id for ticket in tickets)
    driver.sync(first, 1, {})
    driver.sync(second, 1)
    driver.join(first, instance="a", session_ms=100_000)
    driver.advance(REBALANCE_MS)
    assert len(driver.ask(DescribeGroup, "g").members) == 2


def test_a_static_member_can_leave_by_its_instance_id_alone() -> None:
    driver = ShardDriver()
    started(driver, "a", "b")
    assert driver.leave(("", "b"), ("", "c")) == [E.NONE, E.UNKNOWN_MEMBER_ID]
    driver.advance(SESSION_MS * 2)
    assert state(driver) is ClassicGroupState.EMPTY
