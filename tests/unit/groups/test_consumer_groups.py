"""Consumer group protocol (KIP-848): heartbeats, epochs, reconciliation, static members and patterns."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.groups.config import GroupConfig, MemberTimes
from moldau.groups.consumer_group import ConsumerGroup, MemberState
from moldau.groups.events import DescribeConsumerGroup, DescribeGroup, MaySee, TopicsChanged
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.unit.groups.shard_driver import REBALANCE_MS, ShardDriver, topics

E = ErrorCode
SESSION_MS = 45_000


def group(driver: ShardDriver) -> ConsumerGroup:
    found = driver.shard.groups["g"].consumer
    assert found is not None
    return found


def described(driver: ShardDriver) -> Any:
    return driver.ask(DescribeConsumerGroup, "g")


# Joining --------------------------------------------------------------------------------------------------------------


def test_the_first_member_gets_all_partitions() -> None:
    driver = ShardDriver()
    response = driver.consumer_heartbeat("m1", 0)
    assert (response.error_code, response.member_id, response.member_epoch) == (E.NONE, "m1", 1)
    assert response.heartbeat_interval_ms == 5_000
    assert driver.assigned(response) == {"t": list(range(10))}
    assert described(driver).group_state == "Stable"


def test_in_version_0_the_broker_chooses_the_member_id() -> None:
    assert ShardDriver().consumer_heartbeat("", 0, version=0).member_id == "id1"


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
    driver = ShardDriver()
    response = driver.answer(driver.call(ConsumerGroupHeartbeatRequest(**(fields | keywords)), 1))
    assert response.error_code == code
    assert response.error_message
    assert driver.shard.groups == {}
    assert driver.log == []


def test_a_full_group_refuses_new_members() -> None:
    driver = ShardDriver(GroupConfig(consumer_max_size=1))
    driver.consumer_heartbeat("m1", 0)
    assert driver.consumer_heartbeat("m2", 0).error_code == E.GROUP_MAX_SIZE_REACHED
    assert driver.consumer_heartbeat("m1", 1).error_code == E.NONE


# Reconciliation -------------------------------------------------------------------------------------------------------


def test_a_second_member_gets_its_partitions_after_the_first_has_given_them_up() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    waiting = driver.consumer_heartbeat("m2", 0)
    assert driver.assigned(waiting) == {}
    assert waiting.member_epoch == 2, "a member without partitions to revoke must be in the new epoch at once"

    told = driver.consumer_heartbeat("m1", 1, owned={"t": range(10)})
    assert told.member_epoch == 1, "the member must stay in its epoch until it has revoked its partitions"
    kept = driver.assigned(told)
    assert kept is not None
    assert len(kept["t"]) == 5
    assert driver.consumer_heartbeat("m2", 2).assignment is None, (
        "a partition must not be assigned before the other member has revoked it"
    )

    assert driver.consumer_heartbeat("m1", 1, owned={"t": range(10)}).assignment is None
    done = driver.consumer_heartbeat("m1", 1, owned=kept)
    assert done.member_epoch == 2
    taken = driver.assigned(driver.consumer_heartbeat("m2", 2))
    assert taken is not None
    assert sorted(kept["t"] + taken["t"]) == list(range(10))
    assert described(driver).group_state == "Stable"


def test_a_member_that_does_not_give_up_partitions_in_time_is_removed() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0, rebalance_ms=20_000)
    driver.consumer_heartbeat("m2", 0)
    driver.consumer_heartbeat("m1", 1, owned={"t": range(10)})
    driver.advance(19_999)
    assert driver.consumer_heartbeat("m1", 1, owned={"t": range(10)}).error_code == E.NONE
    driver.advance(1)
    assert driver.consumer_heartbeat("m1", 1, owned={"t": range(10)}).error_code == E.UNKNOWN_MEMBER_ID
    assert driver.assigned(driver.consumer_heartbeat("m2", 2, owned={})) == {"t": list(range(10))}


def test_a_member_that_gives_up_partitions_in_time_stays() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0, rebalance_ms=20_000)
    driver.consumer_heartbeat("m2", 0)
    kept = driver.assigned(driver.consumer_heartbeat("m1", 1, owned={"t": range(10)}))
    driver.consumer_heartbeat("m1", 1, owned=kept)
    driver.advance(30_000)
    assert driver.consumer_heartbeat("m1", 2).error_code == E.NONE


def test_a_reconciliation_continues_after_a_restart_of_the_coordinator() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    driver.consumer_heartbeat("m2", 0)
    kept = driver.assigned(driver.consumer_heartbeat("m1", 1, owned={"t": range(10)}))
    driver.reload()
    assert group(driver).current("m1").state is MemberState.UNREVOKED_PARTITIONS
    assert driver.consumer_heartbeat("m2", 2).assignment is None
    driver.consumer_heartbeat("m1", 1, owned=kept)
    assert driver.assigned(driver.consumer_heartbeat("m2", 2)) is not None


def test_a_member_that_never_gives_up_partitions_is_removed_even_after_a_restart() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    driver.consumer_heartbeat("m2", 0)
    driver.consumer_heartbeat("m1", 1, owned={"t": range(10)})
    driver.reload()
    for _ in range(REBALANCE_MS // 10_000):
        assert driver.consumer_heartbeat("m1", 1, owned={"t": range(10)}).error_code == E.NONE
        driver.advance(10_000)
    assert "m1" not in group(driver).members


# Epochs ---------------------------------------------------------------------------------------------------------------


def test_a_heartbeat_with_a_wrong_epoch_is_fenced() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    assert driver.consumer_heartbeat("m1", 2).error_code == E.FENCED_MEMBER_EPOCH
    assert driver.consumer_heartbeat("m1", 1).error_code == E.NONE
    assert driver.consumer_heartbeat("m3", 1).error_code == E.UNKNOWN_MEMBER_ID


def test_a_member_that_missed_a_response_may_send_the_previous_epoch() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    driver.consumer_heartbeat("m1", 1, names=["t", "u"])
    assert group(driver).current("m1").epoch == 2
    assert driver.consumer_heartbeat("m1", 1).error_code == E.FENCED_MEMBER_EPOCH, (
        "the heartbeat must contain its partitions"
    )
    again = driver.consumer_heartbeat("m1", 1, owned={"t": [0]})
    assert (again.error_code, again.member_epoch) == (E.NONE, 2)


def test_a_heartbeat_without_changes_returns_no_assignment() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    stored = len(driver.log)
    assert driver.consumer_heartbeat("m1", 1).assignment is None
    assert len(driver.log) == stored
    full = driver.consumer_heartbeat("m1", 1, names=["t"], owned={"t": range(10)}, rebalance_ms=REBALANCE_MS)
    assert full.assignment is not None, "a full heartbeat must get the full assignment"


def test_a_member_that_rejoins_without_partitions_has_given_up_all_of_them() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    driver.consumer_heartbeat("m2", 0)
    driver.consumer_heartbeat("m1", 0)
    assert len(group(driver).current("m1").assigned[driver.known["t"].id]) == 5
    assert len((driver.assigned(driver.consumer_heartbeat("m2", 2)) or {})["t"]) == 5


# Sessions, leaving ----------------------------------------------------------------------------------------------------


def test_a_silent_member_is_removed_after_its_session_and_its_partitions_are_free() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    driver.consumer_heartbeat("m2", 0)
    driver.advance(SESSION_MS - 1)
    driver.consumer_heartbeat("m2", 2)
    driver.advance(1)
    assert list(group(driver).members) == ["m2"]
    assert driver.assigned(driver.consumer_heartbeat("m2", 2)) == {"t": list(range(10))}


def test_a_member_that_leaves_frees_its_partitions_at_once() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    driver.consumer_heartbeat("m2", 0)
    left = driver.consumer_heartbeat("m1", -1)
    assert (left.error_code, left.member_epoch) == (E.NONE, -1)
    assert driver.assigned(driver.consumer_heartbeat("m2", 2)) == {"t": list(range(10))}
    driver.consumer_heartbeat("m2", -1)
    assert described(driver).group_state == "Empty"
    driver.reload()
    assert described(driver).members == []


# Static members -------------------------------------------------------------------------------------------------------


def test_a_static_member_that_comes_back_gets_its_partitions() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0, instance="i")
    driver.consumer_heartbeat("m2", 0)
    kept = driver.assigned(driver.consumer_heartbeat("m1", 1, instance="i", owned={"t": range(10)}))
    driver.consumer_heartbeat("m1", 1, instance="i", owned=kept)
    driver.consumer_heartbeat("m2", 2)
    assert driver.consumer_heartbeat("m1", -2, instance="i").member_epoch == -2
    epoch = group(driver).epoch
    back = driver.consumer_heartbeat("m3", 0, instance="i")
    assert (back.error_code, driver.assigned(back)) == (E.NONE, kept)
    assert group(driver).epoch == epoch, "the other member has rebalanced"
    assert driver.consumer_heartbeat("m1", 2, instance="i").error_code == E.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_removed_after_its_session() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0, instance="i")
    driver.consumer_heartbeat("m1", -2, instance="i")
    driver.advance(SESSION_MS)
    assert group(driver).members == {}


def test_an_instance_id_in_use_cannot_be_taken_by_another_member() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0, instance="i")
    assert driver.consumer_heartbeat("m2", 0, instance="i").error_code == E.UNRELEASED_INSTANCE_ID
    assert driver.consumer_heartbeat("m2", 1, instance="i").error_code == E.FENCED_INSTANCE_ID
    assert driver.consumer_heartbeat("m2", -1, instance="i").error_code == E.FENCED_INSTANCE_ID


# Topics ---------------------------------------------------------------------------------------------------------------


def test_new_partitions_are_assigned_at_the_next_heartbeat() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    driver.known = topics(t=12)
    driver.feed(TopicsChanged(driver.known))
    response = driver.consumer_heartbeat("m1", 1, owned={"t": range(10)})
    assert driver.assigned(response) == {"t": list(range(12))}
    assert response.member_epoch == 2


def test_a_topic_may_be_created_after_its_subscribers_join() -> None:
    driver = ShardDriver(known={})
    assert driver.assigned(driver.consumer_heartbeat("m1", 0, names=["later"])) == {}
    driver.known = topics(later=2)
    driver.feed(TopicsChanged(driver.known))
    assert driver.assigned(driver.consumer_heartbeat("m1", 1)) == {"later": [0, 1]}


def test_a_change_of_other_topics_does_not_change_the_group() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    driver.feed(TopicsChanged(driver.known | topics(other=1)))
    assert driver.consumer_heartbeat("m1", 1).member_epoch == 1


def visible(*names: str) -> MaySee:
    return frozenset(names).__contains__


def test_a_pattern_matches_only_topics_that_the_member_may_see() -> None:
    driver = ShardDriver(known=topics(orders_a=1, orders_b=1))
    driver.may_see = visible("orders_a")
    assert driver.assigned(driver.consumer_heartbeat("m1", 0, regex="orders.*")) == {"orders_a": [0]}
    driver.may_see = visible("orders_a", "orders_b")
    assert driver.assigned(driver.consumer_heartbeat("m1", 1)) == {"orders_a": [0], "orders_b": [0]}


def test_each_member_gets_topics_that_it_may_see() -> None:
    driver = ShardDriver(known=topics(orders_a=2, orders_b=2))
    driver.may_see = visible("orders_a")
    driver.consumer_heartbeat("m1", 0, regex="orders.*")
    driver.may_see = visible("orders_b")
    assert driver.assigned(driver.consumer_heartbeat("m2", 0, regex="orders.*")) == {"orders_b": [0, 1]}
    assert set(group(driver).topics) == {"orders_a", "orders_b"}


def test_rules_that_change_are_applied_at_the_next_heartbeat() -> None:
    driver = ShardDriver(known=topics(orders_a=1, orders_b=1))
    shown = {"orders_a"}
    driver.may_see = shown.__contains__  # the same view, which follows the rules
    driver.consumer_heartbeat("m1", 0, regex="orders.*")
    shown.add("orders_b")
    assert driver.assigned(driver.consumer_heartbeat("m1", 1)) is None
    driver.feed(TopicsChanged(driver.known, []))
    assert driver.assigned(driver.consumer_heartbeat("m1", 1)) == {"orders_a": [0], "orders_b": [0]}


def test_a_new_coordinator_shows_a_member_nothing_new_before_it_knows_what_it_may_see() -> None:
    driver = ShardDriver(known=topics(orders_a=1, orders_b=1, t=1))
    driver.may_see = visible("orders_a")
    driver.consumer_heartbeat("m1", 0, regex="orders.*")
    driver.reload()
    driver.may_see = visible("t")
    driver.consumer_heartbeat("m2", 0, names=["t"])
    assert set(group(driver).topics) == {"orders_a", "t"}


def test_a_member_that_left_leaves_no_view_behind() -> None:
    driver = ShardDriver(known=topics(orders_a=1))
    driver.may_see = visible("orders_a")
    driver.consumer_heartbeat("m1", 0, regex="orders.*")
    assert driver.shard.consumer.views
    driver.consumer_heartbeat("m1", -1)
    assert not driver.shard.consumer.views


def test_a_pattern_subscribes_to_topics_whose_whole_name_matches() -> None:
    driver = ShardDriver(known=topics(orders_a=1, orders_b=1, old_orders=1, __consumer_offsets=1))
    assert driver.assigned(driver.consumer_heartbeat("m1", 0, regex="orders.*")) == {"orders_a": [0], "orders_b": [0]}
    driver.known |= topics(orders_c=1)
    driver.feed(TopicsChanged(driver.known))
    assert set(driver.assigned(driver.consumer_heartbeat("m1", 1)) or {}) == {"orders_a", "orders_b", "orders_c"}
    driver.reload()
    assert driver.consumer_heartbeat("m1", 2).error_code == E.NONE
    assert driver.assigned(driver.consumer_heartbeat("m1", 2, regex="")) == {}, (
        "an empty pattern must end the subscription"
    )
    assert driver.assigned(driver.consumer_heartbeat("m2", 0, regex=".*", names=["x"])) is not None
    assert "__consumer_offsets" in group(driver).topics, "internal topics must match as well"


def test_a_subscription_that_changes_during_a_revocation_takes_effect() -> None:
    driver = ShardDriver(known=topics(a=1, b=1, c=1))
    assert driver.assigned(driver.consumer_heartbeat("m1", 0, names=["a"])) == {"a": [0]}
    revoking = driver.consumer_heartbeat("m1", 1, names=["b"])
    assert (revoking.member_epoch, driver.assigned(revoking)) == (1, {})
    assert driver.assigned(driver.consumer_heartbeat("m1", 1, names=["c"])) is None, (
        "the member has not revoked topic a yet"
    )
    done = driver.consumer_heartbeat("m1", 1, owned={})
    assert (done.member_epoch, driver.assigned(done)) == (3, {"c": [0]})


def test_a_pattern_cannot_take_exponential_time() -> None:
    driver = ShardDriver(known={"a" * 200: topics(t=1)["t"]})
    assert driver.consumer_heartbeat("m1", 0, regex="(a+)+(a+)+(a+)+b").error_code == E.NONE


def test_the_assignor_that_most_members_request_is_used() -> None:
    driver = ShardDriver(known=topics(t=4, u=4))
    driver.consumer_heartbeat("m1", 0, names=["t", "u"], assignor="range")
    driver.consumer_heartbeat("m2", 0, names=["t", "u"], assignor="range")
    driver.consumer_heartbeat("m3", 0, names=["t", "u"], assignor="uniform")
    assert described(driver).assignor_name == "range"
    assert all(
        target.keys() == {driver.known["t"].id, driver.known["u"].id} for target in group(driver).targets.values()
    )


# Offsets and descriptions ---------------------------------------------------------------------------------------------


def test_a_commit_needs_the_current_member_epoch() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    assert driver.commit(5, "m1", 1) == E.NONE
    assert driver.commit(6, "m1", 0) == E.STALE_MEMBER_EPOCH
    assert driver.commit(6, "m2", 1) == E.UNKNOWN_MEMBER_ID
    assert driver.commit(6) == E.UNKNOWN_MEMBER_ID
    assert driver.committed().offset == 5


def test_classic_and_consumer_groups_are_described_by_different_requests() -> None:
    driver = ShardDriver()
    driver.consumer_heartbeat("m1", 0)
    found = described(driver)
    assert (found.group_epoch, found.assignment_epoch, found.assignor_name) == (1, 1, "uniform")
    (member,) = found.members
    assert (member.member_id, member.member_epoch, member.member_type) == ("m1", 1, 1)
    assert member.assignment.topic_partitions[0].topic_name == "t"
    assert member.target_assignment == member.assignment
    assert driver.ask(DescribeGroup, "g").error_code == E.GROUP_ID_NOT_FOUND
    assert driver.ask(DescribeConsumerGroup, "none").error_code == E.GROUP_ID_NOT_FOUND


def test_a_silent_member_is_removed_even_if_its_first_join_was_not_stored() -> None:
    driver = ShardDriver()
    driver.broken = True
    assert driver.consumer_heartbeat("a", 0) == E.COORDINATOR_NOT_AVAILABLE
    driver.broken = False
    driver.advance(driver.config.consumer_session_ms)
    assert driver.consumer_heartbeat("a", 0).error_code == E.NONE
    driver.advance(driver.config.consumer_session_ms)
    assert not driver.shard.groups["g"].consumer.members


def test_changed_timeouts_of_a_group_apply_from_the_next_heartbeat() -> None:
    driver = ShardDriver()
    assert driver.consumer_heartbeat("a", 0).heartbeat_interval_ms == driver.config.consumer_heartbeat_ms
    driver.times["g"] = MemberTimes(session_ms=10_000, heartbeat_ms=700)
    assert driver.consumer_heartbeat("a", 1).heartbeat_interval_ms == 700
    driver.advance(9_999)
    assert driver.shard.groups["g"].consumer.members
    driver.advance(1)
    assert not driver.shard.groups["g"].consumer.members, "the timer of the longer session must not apply"
    driver.times["g"] = MemberTimes(session_ms=100_000, heartbeat_ms=700)
    assert driver.consumer_heartbeat("b", 0).error_code == E.NONE
    driver.advance(99_999)
    assert driver.shard.groups["g"].consumer.members
    driver.advance(1)
    assert not driver.shard.groups["g"].consumer.members
