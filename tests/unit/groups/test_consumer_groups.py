"""Consumer group protocol (KIP-848): heartbeats, epochs, reconciliation, static members and patterns."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.groups.config import GroupConfig, MemberTimes
from moldau.groups.consumer_group import ConsumerGroup, MemberState
from moldau.groups.events import DescribeConsumerGroup, DescribeGroup, MaySee, TopicsChanged
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.unit.groups.world import REBALANCE_MS, World, topics

E = ErrorCode
SESSION_MS = 45_000


def group(world: World) -> ConsumerGroup:
    found = world.shard.groups["g"].consumer
    assert found is not None
    return found


def described(world: World) -> Any:
    return world.ask(DescribeConsumerGroup, "g")


# Joining --------------------------------------------------------------------------------------------------------------


def test_the_first_member_gets_all_partitions() -> None:
    world = World()
    response = world.beat("m1", 0)
    assert (response.error_code, response.member_id, response.member_epoch) == (E.NONE, "m1", 1)
    assert response.heartbeat_interval_ms == 5_000
    assert world.assigned(response) == {"t": list(range(10))}
    assert described(world).group_state == "Stable"


def test_in_version_0_the_broker_chooses_the_member_id() -> None:
    assert World().beat("", 0, version=0).member_id == "id1"


@pytest.mark.parametrize(
    ("keywords", "code"),
    [
        ({"group_id": ""}, E.INVALID_REQUEST),
        ({"member_id": ""}, E.INVALID_REQUEST),
        ({"member_epoch": -3}, E.INVALID_REQUEST),
        ({"member_epoch": -2}, E.INVALID_REQUEST),
        ({"instance_id": ""}, E.INVALID_REQUEST),
        ({"rack_id": ""}, E.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, E.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, E.INVALID_REQUEST),
        ({"server_assignor": "nearest"}, E.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, E.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 1}, E.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, E.GROUP_ID_NOT_FOUND),
    ],
)
def test_an_invalid_request_is_refused_with_a_message(keywords: dict[str, Any], code: ErrorCode) -> None:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    world = World()
    response = world.answer(world.call(ConsumerGroupHeartbeatRequest(**(fields | keywords)), 1))
    assert response.error_code == code
    assert response.error_message
    assert world.shard.groups == {}
    assert world.log == []


def test_a_full_group_refuses_new_members() -> None:
    world = World(GroupConfig(consumer_max_size=1))
    world.beat("m1", 0)
    assert world.beat("m2", 0).error_code == E.GROUP_MAX_SIZE_REACHED
    assert world.beat("m1", 1).error_code == E.NONE


# Reconciliation -------------------------------------------------------------------------------------------------------


def test_a_second_member_gets_its_partitions_after_the_first_has_given_them_up() -> None:
    world = World()
    world.beat("m1", 0)
    waiting = world.beat("m2", 0)
    assert world.assigned(waiting) == {}
    assert waiting.member_epoch == 2, "a member without partitions to revoke must be in the new epoch at once"

    told = world.beat("m1", 1, owned={"t": range(10)})
    assert told.member_epoch == 1, "the member must stay in its epoch until it has revoked its partitions"
    kept = world.assigned(told)
    assert kept is not None
    assert len(kept["t"]) == 5
    assert world.beat("m2", 2).assignment is None, (
        "a partition must not be assigned before the other member has revoked it"
    )

    assert world.beat("m1", 1, owned={"t": range(10)}).assignment is None
    done = world.beat("m1", 1, owned=kept)
    assert done.member_epoch == 2
    taken = world.assigned(world.beat("m2", 2))
    assert taken is not None
    assert sorted(kept["t"] + taken["t"]) == list(range(10))
    assert described(world).group_state == "Stable"


def test_a_member_that_does_not_give_up_partitions_in_time_is_removed() -> None:
    world = World()
    world.beat("m1", 0, rebalance_ms=20_000)
    world.beat("m2", 0)
    world.beat("m1", 1, owned={"t": range(10)})
    world.advance(19_999)
    assert world.beat("m1", 1, owned={"t": range(10)}).error_code == E.NONE
    world.advance(1)
    assert world.beat("m1", 1, owned={"t": range(10)}).error_code == E.UNKNOWN_MEMBER_ID
    assert world.assigned(world.beat("m2", 2, owned={})) == {"t": list(range(10))}


def test_a_member_that_gives_up_partitions_in_time_stays() -> None:
    world = World()
    world.beat("m1", 0, rebalance_ms=20_000)
    world.beat("m2", 0)
    kept = world.assigned(world.beat("m1", 1, owned={"t": range(10)}))
    world.beat("m1", 1, owned=kept)
    world.advance(30_000)
    assert world.beat("m1", 2).error_code == E.NONE


def test_a_reconciliation_continues_after_a_restart_of_the_coordinator() -> None:
    world = World()
    world.beat("m1", 0)
    world.beat("m2", 0)
    kept = world.assigned(world.beat("m1", 1, owned={"t": range(10)}))
    world.reload()
    assert group(world).current("m1").state is MemberState.UNREVOKED_PARTITIONS
    assert world.beat("m2", 2).assignment is None
    world.beat("m1", 1, owned=kept)
    assert world.assigned(world.beat("m2", 2)) is not None


def test_a_member_that_never_gives_up_partitions_is_removed_even_after_a_restart() -> None:
    world = World()
    world.beat("m1", 0)
    world.beat("m2", 0)
    world.beat("m1", 1, owned={"t": range(10)})
    world.reload()
    for _ in range(REBALANCE_MS // 10_000):
        assert world.beat("m1", 1, owned={"t": range(10)}).error_code == E.NONE
        world.advance(10_000)
    assert "m1" not in group(world).members


# Epochs ---------------------------------------------------------------------------------------------------------------


def test_a_heartbeat_with_a_wrong_epoch_is_fenced() -> None:
    world = World()
    world.beat("m1", 0)
    assert world.beat("m1", 2).error_code == E.FENCED_MEMBER_EPOCH
    assert world.beat("m1", 1).error_code == E.NONE
    assert world.beat("m3", 1).error_code == E.UNKNOWN_MEMBER_ID


def test_a_member_that_missed_a_response_may_send_the_previous_epoch() -> None:
    world = World()
    world.beat("m1", 0)
    world.beat("m1", 1, names=["t", "u"])
    assert group(world).current("m1").epoch == 2
    assert world.beat("m1", 1).error_code == E.FENCED_MEMBER_EPOCH, "the heartbeat must contain its partitions"
    again = world.beat("m1", 1, owned={"t": [0]})
    assert (again.error_code, again.member_epoch) == (E.NONE, 2)


def test_a_heartbeat_without_changes_returns_no_assignment() -> None:
    world = World()
    world.beat("m1", 0)
    stored = len(world.log)
    assert world.beat("m1", 1).assignment is None
    assert len(world.log) == stored
    full = world.beat("m1", 1, names=["t"], owned={"t": range(10)}, rebalance_ms=REBALANCE_MS)
    assert full.assignment is not None, "a full heartbeat must get the full assignment"


def test_a_member_that_rejoins_without_partitions_has_given_up_all_of_them() -> None:
    world = World()
    world.beat("m1", 0)
    world.beat("m2", 0)
    world.beat("m1", 0)
    assert len(group(world).current("m1").assigned[world.known["t"].id]) == 5
    assert len((world.assigned(world.beat("m2", 2)) or {})["t"]) == 5


# Sessions, leaving ----------------------------------------------------------------------------------------------------


def test_a_silent_member_is_removed_after_its_session_and_its_partitions_are_free() -> None:
    world = World()
    world.beat("m1", 0)
    world.beat("m2", 0)
    world.advance(SESSION_MS - 1)
    world.beat("m2", 2)
    world.advance(1)
    assert list(group(world).members) == ["m2"]
    assert world.assigned(world.beat("m2", 2)) == {"t": list(range(10))}


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    world = World()
    world.beat("m1", 0)
    world.beat("m2", 0)
    left = world.beat("m1", -1)
    assert (left.error_code, left.member_epoch) == (E.NONE, -1)
    assert world.assigned(world.beat("m2", 2)) == {"t": list(range(10))}
    world.beat("m2", -1)
    assert described(world).group_state == "Empty"
    world.reload()
    assert described(world).members == []


# Static members -------------------------------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_gets_its_partitions() -> None:
    world = World()
    world.beat("m1", 0, instance="i")
    world.beat("m2", 0)
    kept = world.assigned(world.beat("m1", 1, instance="i", owned={"t": range(10)}))
    world.beat("m1", 1, instance="i", owned=kept)
    world.beat("m2", 2)
    assert world.beat("m1", -2, instance="i").member_epoch == -2
    epoch = group(world).epoch
    back = world.beat("m3", 0, instance="i")
    assert (back.error_code, world.assigned(back)) == (E.NONE, kept)
    assert group(world).epoch == epoch, "the other member has rebalanced"
    assert world.beat("m1", 2, instance="i").error_code == E.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_removed_after_its_session() -> None:
    world = World()
    world.beat("m1", 0, instance="i")
    world.beat("m1", -2, instance="i")
    world.advance(SESSION_MS)
    assert group(world).members == {}


def test_an_instance_id_in_use_cannot_be_taken_by_another_member() -> None:
    world = World()
    world.beat("m1", 0, instance="i")
    assert world.beat("m2", 0, instance="i").error_code == E.UNRELEASED_INSTANCE_ID
    assert world.beat("m2", 1, instance="i").error_code == E.FENCED_INSTANCE_ID
    assert world.beat("m2", -1, instance="i").error_code == E.FENCED_INSTANCE_ID


# Topics ---------------------------------------------------------------------------------------------------------------


def test_new_partitions_are_assigned_at_the_next_heartbeat() -> None:
    world = World()
    world.beat("m1", 0)
    world.known = topics(t=12)
    world.feed(TopicsChanged(world.known))
    response = world.beat("m1", 1, owned={"t": range(10)})
    assert world.assigned(response) == {"t": list(range(12))}
    assert response.member_epoch == 2


def test_a_topic_may_be_created_after_its_subscribers_join() -> None:
    world = World(known={})
    assert world.assigned(world.beat("m1", 0, names=["later"])) == {}
    world.known = topics(later=2)
    world.feed(TopicsChanged(world.known))
    assert world.assigned(world.beat("m1", 1)) == {"later": [0, 1]}


def test_a_change_of_other_topics_does_not_change_the_group() -> None:
    world = World()
    world.beat("m1", 0)
    world.feed(TopicsChanged(world.known | topics(other=1)))
    assert world.beat("m1", 1).member_epoch == 1


def visible(*names: str) -> MaySee:
    return frozenset(names).__contains__


def test_a_pattern_matches_only_topics_that_the_member_may_see() -> None:
    world = World(known=topics(orders_a=1, orders_b=1))
    world.may_see = visible("orders_a")
    assert world.assigned(world.beat("m1", 0, regex="orders.*")) == {"orders_a": [0]}
    world.may_see = visible("orders_a", "orders_b")
    assert world.assigned(world.beat("m1", 1)) == {"orders_a": [0], "orders_b": [0]}


def test_each_member_gets_topics_that_it_may_see() -> None:
    world = World(known=topics(orders_a=2, orders_b=2))
    world.may_see = visible("orders_a")
    world.beat("m1", 0, regex="orders.*")
    world.may_see = visible("orders_b")
    assert world.assigned(world.beat("m2", 0, regex="orders.*")) == {"orders_b": [0, 1]}
    assert set(group(world).topics) == {"orders_a", "orders_b"}


def test_rules_that_change_are_applied_at_the_next_heartbeat() -> None:
    world = World(known=topics(orders_a=1, orders_b=1))
    shown = {"orders_a"}
    world.may_see = shown.__contains__  # the same view, which follows the rules
    world.beat("m1", 0, regex="orders.*")
    shown.add("orders_b")
    assert world.assigned(world.beat("m1", 1)) is None
    world.feed(TopicsChanged(world.known, []))
    assert world.assigned(world.beat("m1", 1)) == {"orders_a": [0], "orders_b": [0]}


def test_a_new_coordinator_shows_a_member_nothing_new_before_it_knows_what_it_may_see() -> None:
    world = World(known=topics(orders_a=1, orders_b=1, t=1))
    world.may_see = visible("orders_a")
    world.beat("m1", 0, regex="orders.*")
    world.reload()
    world.may_see = visible("t")
    world.beat("m2", 0, names=["t"])
    assert set(group(world).topics) == {"orders_a", "t"}


def test_a_member_that_left_leaves_no_view_behind() -> None:
    world = World(known=topics(orders_a=1))
    world.may_see = visible("orders_a")
    world.beat("m1", 0, regex="orders.*")
    assert world.shard.consumer.views
    world.beat("m1", -1)
    assert not world.shard.consumer.views


def test_a_pattern_subscribes_to_topics_whose_whole_name_matches() -> None:
    world = World(known=topics(orders_a=1, orders_b=1, old_orders=1, __consumer_offsets=1))
    assert world.assigned(world.beat("m1", 0, regex="orders.*")) == {"orders_a": [0], "orders_b": [0]}
    world.known |= topics(orders_c=1)
    world.feed(TopicsChanged(world.known))
    assert set(world.assigned(world.beat("m1", 1)) or {}) == {"orders_a", "orders_b", "orders_c"}
    world.reload()
    assert world.beat("m1", 2).error_code == E.NONE
    assert world.assigned(world.beat("m1", 2, regex="")) == {}, "an empty pattern must end the subscription"
    assert world.assigned(world.beat("m2", 0, regex=".*", names=["x"])) is not None
    assert "__consumer_offsets" in group(world).topics, "internal topics must match as well"


def test_a_subscription_that_changes_during_a_revocation_takes_effect() -> None:
    world = World(known=topics(a=1, b=1, c=1))
    assert world.assigned(world.beat("m1", 0, names=["a"])) == {"a": [0]}
    revoking = world.beat("m1", 1, names=["b"])
    assert (revoking.member_epoch, world.assigned(revoking)) == (1, {})
    assert world.assigned(world.beat("m1", 1, names=["c"])) is None, "the member has not revoked topic a yet"
    done = world.beat("m1", 1, owned={})
    assert (done.member_epoch, world.assigned(done)) == (3, {"c": [0]})


def test_a_pattern_cannot_take_exponential_time() -> None:
    world = World(known={"a" * 200: topics(t=1)["t"]})
    assert world.beat("m1", 0, regex="(a+)+(a+)+(a+)+b").error_code == E.NONE


def test_the_assignor_that_most_members_request_is_used() -> None:
    world = World(known=topics(t=4, u=4))
    world.beat("m1", 0, names=["t", "u"], assignor="range")
    world.beat("m2", 0, names=["t", "u"], assignor="range")
    world.beat("m3", 0, names=["t", "u"], assignor="uniform")
    assert described(world).assignor_name == "range"
    assert all(target.keys() == {world.known["t"].id, world.known["u"].id} for target in group(world).targets.values())


# Offsets and descriptions ---------------------------------------------------------------------------------------------


def test_a_commit_needs_the_current_member_epoch() -> None:
    world = World()
    world.beat("m1", 0)
    assert world.commit(5, "m1", 1) == E.NONE
    assert world.commit(6, "m1", 0) == E.STALE_MEMBER_EPOCH
    assert world.commit(6, "m2", 1) == E.UNKNOWN_MEMBER_ID
    assert world.commit(6) == E.UNKNOWN_MEMBER_ID
    assert world.committed().offset == 5


def test_classic_and_consumer_groups_are_described_by_different_requests() -> None:
    world = World()
    world.beat("m1", 0)
    found = described(world)
    assert (found.group_epoch, found.assignment_epoch, found.assignor_name) == (1, 1, "uniform")
    (member,) = found.members
    assert (member.member_id, member.member_epoch, member.member_type) == ("m1", 1, 1)
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert member.target_assignment == member.assignment
    assert world.ask(DescribeGroup, "g").error_code == E.GROUP_ID_NOT_FOUND
    assert world.ask(DescribeConsumerGroup, "none").error_code == E.GROUP_ID_NOT_FOUND


def test_a_silent_member_is_removed_even_if_its_first_join_was_not_stored() -> None:
    world = World()
    world.broken = True
    assert world.beat("a", 0) == E.COORDINATOR_NOT_AVAILABLE
    world.broken = False
    world.advance(world.config.consumer_session_ms)
    assert world.beat("a", 0).error_code == E.NONE
    world.advance(world.config.consumer_session_ms)
    assert not world.shard.groups["g"].consumer.members


def test_changed_timeouts_of_a_group_apply_from_the_next_heartbeat() -> None:
    world = World()
    assert world.beat("a", 0).heartbeat_interval_ms == world.config.consumer_heartbeat_ms
    world.times["g"] = MemberTimes(session_ms=10_000, heartbeat_ms=700)
    assert world.beat("a", 1).heartbeat_interval_ms == 700
    world.advance(9_999)
    assert world.shard.groups["g"].consumer.members
    world.advance(1)
    assert not world.shard.groups["g"].consumer.members, "the timer of the longer session must not apply"
    world.times["g"] = MemberTimes(session_ms=100_000, heartbeat_ms=700)
    assert world.beat("b", 0).error_code == E.NONE
    world.advance(99_999)
    assert world.shard.groups["g"].consumer.members
    world.advance(1)
    assert not world.shard.groups["g"].consumer.members
