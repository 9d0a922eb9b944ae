"""Migration of live groups to the consumer protocol, member by member, and back."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.assignment.consumer_protocol import parse_assignment
from moldau.groups.classic_group import ClassicGroupState
from moldau.groups.config import GroupConfig
from moldau.groups.events import DescribeConsumerGroup, TopicsChanged
from moldau.wire.errors import ErrorCode
from tests.unit.groups.members import PARTITIONS, ClassicMember, ConsumerMember
from tests.unit.groups.shard_driver import REBALANCE_MS, SESSION_MS, ShardDriver, assignment, subscription, topics

E = ErrorCode


def classic_group(driver: ShardDriver, count: int = 2, **keywords: Any) -> list[str]:
    """A stable classic group that shares the ten partitions of `t`."""
    members = [driver.member_id(**keywords) for _ in range(count)]
    tickets = [driver.join(member, **keywords) for member in members]
    driver.advance(0)
    responses = [driver.answer(ticket) for ticket in tickets]
    given = {member: assignment(t=range(place, 10, count)) for place, member in enumerate(members)}
    for one in sorted(responses, key=lambda response: response.member_id == response.leader):
        driver.sync(one.member_id, 1, given if one.member_id == one.leader else None)
    driver.answers.clear()
    return members


def rejoin(driver: ShardDriver, member: str, owned: list[int]) -> tuple[int, list[int]]:
    """A classic member of a consumer group joins and syncs. Return its generation and its partitions."""
    metadata = subscription("t", owned=[("t", owned)])
    joined = driver.answer(driver.join(member, protocols=[("range", metadata)]))
    assert joined.error_code == E.NONE, joined
    synced = driver.answer(driver.sync(member, joined.generation_id))
    assert synced.error_code == E.NONE, synced
    return joined.generation_id, [index for _, some in parse_assignment(synced.assignment) for index in some]


def settle(driver: ShardDriver, classic: dict[str, list[int]], modern: dict[str, int]) -> dict[str, list[int]]:
    """Let all members act until nothing changes. Return the partitions of each."""
    reads = dict(classic)
    epochs = dict(modern)
    generations = {member: driver.shard.groups["g"].consumer.current(member).epoch for member in classic}  # type: ignore[union-attr]
    for member in modern:
        reads[member] = []
    for _ in range(10):
        driver.advance(1_000)
        for member in modern:
            response = driver.consumer_heartbeat(
                member, epochs[member], owned={"t": reads[member]} if epochs[member] else None
            )
            assert response.error_code == E.NONE
            epochs[member] = response.member_epoch
            told = driver.assigned(response)
            if told is not None:
                reads[member] = told.get("t", [])
        for member in classic:
            if driver.heartbeat(member, generations[member]) == E.REBALANCE_IN_PROGRESS:
                generations[member], reads[member] = rejoin(driver, member, reads[member])
        owned = [index for some in reads.values() for index in some]
        assert len(owned) == len(set(owned)), f"two readers: {reads}"
    return reads


def test_a_member_of_the_consumer_protocol_can_join_a_live_classic_group() -> None:
    driver = ShardDriver()
    first, second = classic_group(driver)
    joined = driver.consumer_heartbeat("new", 0)
    assert joined.error_code == E.NONE
    assert driver.assigned(joined) == {}, "the others have not revoked anything yet"
    reads = settle(driver, {first: [0, 2, 4, 6, 8], second: [1, 3, 5, 7, 9]}, {"new": joined.member_epoch})
    assert sorted(map(len, reads.values())) == [3, 3, 4]
    types = {one.member_id: one.member_type for one in driver.ask(DescribeConsumerGroup, "g").members}
    assert types == {first: 0, second: 0, "new": 1}


def test_the_upgrade_survives_a_restart_of_the_coordinator() -> None:
    driver = ShardDriver()
    first, second = classic_group(driver)
    joined = driver.consumer_heartbeat("new", 0)
    driver.reload()
    reads = settle(driver, {first: [0, 2, 4, 6, 8], second: [1, 3, 5, 7, 9]}, {"new": joined.member_epoch})
    assert sorted(index for some in reads.values() for index in some) == list(range(10))


def test_members_migrate_one_by_one() -> None:
    driver = ShardDriver()
    first, second = classic_group(driver)
    epoch = driver.consumer_heartbeat("new1", 0).member_epoch
    driver.leave(first)
    reads = settle(driver, {second: [1, 3, 5, 7, 9]}, {"new1": epoch})
    assert sorted(map(len, reads.values())) == [5, 5]
    driver.leave(second)
    response = driver.consumer_heartbeat("new1", driver.shard.groups["g"].consumer.current("new1").epoch)  # type: ignore[union-attr]
    assert driver.assigned(response) == {"t": list(range(10))}


def test_the_group_becomes_classic_and_rebalances_when_the_last_consumer_member_leaves() -> None:
    driver = ShardDriver()
    first, second = classic_group(driver)
    epoch = driver.consumer_heartbeat("new", 0).member_epoch
    settle(driver, {first: [0, 2, 4, 6, 8], second: [1, 3, 5, 7, 9]}, {"new": epoch})
    driver.consumer_heartbeat("new", -1)
    driver.advance(0)
    group = driver.shard.groups["g"]
    assert group.consumer is None
    assert group.classic is not None
    assert group.classic.state is ClassicGroupState.PREPARING_REBALANCE
    assert sorted(group.classic.members) == sorted([first, second])
    tickets = [driver.join(member) for member in (first, second)]
    assert {driver.answer(ticket).error_code for ticket in tickets} == {E.NONE}


def test_a_silent_member_is_removed_after_the_downgrade() -> None:
    driver = ShardDriver()
    classic_group(driver)
    driver.consumer_heartbeat("new", 0)
    driver.consumer_heartbeat("new", -1)
    driver.advance(SESSION_MS + REBALANCE_MS)
    group = driver.shard.groups["g"].classic
    assert group is not None
    assert group.state is ClassicGroupState.EMPTY


@pytest.mark.parametrize(
    ("policy", "may_upgrade", "may_downgrade"),
    [
        ("disabled", False, False),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("bidirectional", True, True),
    ],
)
def test_the_migration_policy_allows_upgrade_and_downgrade_separately(
    policy: str, may_upgrade: bool, may_downgrade: bool
) -> None:
    driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=0, consumer_migration=policy))
    classic_group(driver)
    response = driver.consumer_heartbeat("new", 0)
    assert response.error_code == (E.NONE if may_upgrade else E.GROUP_ID_NOT_FOUND)
    if not may_upgrade:
        classic = driver.shard.groups["g"].classic
        assert classic is not None
        assert classic.state is ClassicGroupState.STABLE
        return
    driver.consumer_heartbeat("new", -1)
    assert (driver.shard.groups["g"].consumer is None) == may_downgrade


@pytest.mark.parametrize("keywords", [{"protocol_type": "connect"}, {"protocols": [("range", b"")]}])
def test_a_group_of_other_clients_than_consumers_is_not_upgraded(keywords: dict[str, Any]) -> None:
    driver = ShardDriver()
    driver.stable_group(**keywords)
    assert driver.consumer_heartbeat("new", 0).error_code == E.GROUP_ID_NOT_FOUND


def test_waiting_members_of_the_classic_group_must_rejoin_after_the_upgrade() -> None:
    driver = ShardDriver()
    first, _ = classic_group(driver)
    waiting = driver.join(first)
    assert driver.answer(waiting) is None
    driver.consumer_heartbeat("new", 0)
    assert driver.answer(waiting).error_code == E.REBALANCE_IN_PROGRESS


def test_an_empty_group_changes_its_protocol_with_the_next_join() -> None:
    driver = ShardDriver()
    (member,) = driver.stable_group()
    driver.commit(7, member, 1)
    driver.leave(member)
    assert driver.consumer_heartbeat("new", 0).error_code == E.NONE
    assert driver.committed().offset == 7
    driver.consumer_heartbeat("new", -1)
    again = driver.member_id()
    ticket = driver.join(again)
    driver.advance(0)
    assert driver.answer(ticket).error_code == E.NONE
    assert driver.committed().offset == 7
    driver.reload()
    assert driver.committed().offset == 7


def test_a_classic_member_that_does_not_rejoin_in_time_is_removed() -> None:
    driver = ShardDriver()
    first, second = classic_group(driver, session_ms=1_000_000)
    driver.consumer_heartbeat("new", 0)
    assert driver.heartbeat(first, 1) == E.REBALANCE_IN_PROGRESS
    driver.advance(REBALANCE_MS)
    members = driver.shard.groups["g"].consumer.members  # type: ignore[union-attr]
    assert first not in members
    assert second in members, "the member does not know it yet"


@pytest.mark.parametrize(
    ("generation", "keywords", "code"),
    [
        (0, {}, E.ILLEGAL_GENERATION),
        (1, {"protocol": "other"}, E.INCONSISTENT_GROUP_PROTOCOL),
        (1, {}, E.REBALANCE_IN_PROGRESS),
        (1, {"group": "none"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_an_invalid_sync_of_a_classic_member_is_refused(
    generation: int, keywords: dict[str, Any], code: ErrorCode
) -> None:
    driver = ShardDriver()
    first, _ = classic_group(driver)
    driver.consumer_heartbeat("new", 0)
    assert driver.answer(driver.sync(first, generation, **keywords)).error_code == code


def test_a_new_classic_member_may_join_a_consumer_group() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("new", 0)
    member = driver.member_id()
    generation, reads = rejoin(driver, member, [])
    assert (generation, reads) == (2, [])
    settled = settle(driver, {member: []}, {"new": 0})
    assert sorted(map(len, settled.values())) == [5, 5]
    assert driver.commit(1, member, generation + 5) == E.ILLEGAL_GENERATION
    other = driver.join(protocols=[("x", b"")])
    assert driver.answer(other).error_code == E.INCONSISTENT_GROUP_PROTOCOL


def test_a_static_classic_member_that_comes_back_gets_its_partitions() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("new", 0)
    first = driver.answer(driver.join(instance="i")).member_id
    again = driver.answer(driver.join(instance="i"))
    assert again.error_code == E.NONE
    assert again.member_id != first
    assert driver.heartbeat(first, 2, instance="i") == E.FENCED_INSTANCE_ID
    assert driver.leave(("", "i"), ("", "none")) == [E.NONE, E.UNKNOWN_MEMBER_ID]


def test_a_change_of_other_topics_does_not_make_classic_members_rejoin() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("new", 0)
    member = driver.member_id()
    rejoin(driver, member, [])
    settled = settle(driver, {member: []}, {"new": 0})
    generation = driver.shard.groups["g"].consumer.current(member).epoch  # type: ignore[union-attr]
    driver.feed(TopicsChanged(driver.known | topics(other=1)))
    assert driver.heartbeat(member, generation) == E.NONE
    driver.known |= topics(t=12)
    driver.feed(TopicsChanged(driver.known))
    assert driver.heartbeat(member, generation) == E.REBALANCE_IN_PROGRESS
    assert len(settled[member]) == 5


def test_an_empty_consumer_group_stays_one_if_its_replacement_is_not_stored() -> None:
    driver = ShardDriver()
    gone = ConsumerMember(driver, "gone")
    gone.act()
    classic = ClassicMember(driver, "classic")
    classic.act()  # receives a member id
    gone.leave()
    driver.broken = True
    classic.act()  # the records that replace the consumer group are not stored
    driver.broken = False
    modern = ConsumerMember(driver, "modern")
    for _ in range(10):
        modern.act()
        classic.act()
        driver.advance(1_000)
    group = driver.shard.groups["g"]
    assert group.consumer is not None
    assert group.classic is None
    assert sorted(group.consumer.members) == sorted([classic.id, "modern"])
    assert sorted([*modern.reads, *classic.partitions]) == list(range(PARTITIONS))
