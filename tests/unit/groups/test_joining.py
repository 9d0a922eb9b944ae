"""Classic protocol: the rules of JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import pytest

from moldau.groups.classic_group import TRANSITIONS, ClassicGroup, ClassicGroupState, ClassicMember
from moldau.groups.classic_protocol import PENDING_MEMBER_WAIT_MS
from moldau.groups.config import GroupConfig
from moldau.groups.events import DescribeGroup
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.leave_group import LeaveGroupRequest
from tests.unit.groups.shard_driver import REBALANCE_MS, SESSION_MS, ShardDriver, subscription

E = ErrorCode


def state(driver: ShardDriver) -> ClassicGroupState:
    group = driver.shard.groups["g"].classic
    assert group is not None
    return group.state


def classic(driver: ShardDriver) -> ClassicGroup:
    group = driver.shard.groups["g"].classic
    assert group is not None
    return group


# Joining --------------------------------------------------------------------------------------------------------------


def test_a_new_member_receives_an_id_and_must_join_again_with_it() -> None:
    driver = ShardDriver()
    response = driver.answer(driver.join())
    assert response.error_code == E.MEMBER_ID_REQUIRED
    assert response.member_id == "app-id1"
    again = driver.join(response.member_id)
    driver.advance(0)
    assert driver.answer(again).error_code == E.NONE


def test_before_version_4_a_member_joins_with_its_first_request() -> None:
    driver = ShardDriver()
    ticket = driver.join(version=3)
    driver.advance(0)
    response = driver.answer(ticket)
    assert (response.error_code, response.generation_id) == (E.NONE, 1)


def test_a_member_id_that_is_not_used_within_the_session_timeout_expires() -> None:
    driver = ShardDriver()
    driver.stable_group()
    member = driver.member_id()
    driver.advance(SESSION_MS)
    assert driver.answer(driver.join(member)).error_code == E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("keywords", "code"),
    [
        ({"group": ""}, E.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, E.UNKNOWN_MEMBER_ID),
        ({"protocols": []}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_an_invalid_join_is_refused(keywords: dict[str, object], code: ErrorCode) -> None:
    driver = ShardDriver()
    assert driver.answer(driver.join(**keywords)).error_code == code  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keywords", "code"),
    [
        ({"protocols": [("other", b"")]}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "nobody"}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody", "instance": "i"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_group_refuses_members_without_a_common_protocol_or_with_a_wrong_id(
    keywords: dict[str, object], code: ErrorCode
) -> None:
    driver = ShardDriver()
    driver.stable_group()
    assert driver.answer(driver.join(**keywords)).error_code == code  # type: ignore[arg-type]
    assert state(driver) is ClassicGroupState.STABLE


def test_only_the_leader_receives_the_list_of_members() -> None:
    driver = ShardDriver()
    first, second = driver.stable_group(2)
    assert classic(driver).leader == first
    tickets = [driver.join(member) for member in (first, second)]
    leader, follower = (driver.answer(ticket) for ticket in tickets)
    assert sorted(member.member_id for member in leader.members) == sorted([first, second])
    assert follower.members == []
    assert leader.leader == follower.leader == first


def test_the_protocol_that_most_members_prefer_is_chosen() -> None:
    group = ClassicGroup("g")
    preferences = {"a": ("x", "y"), "b": ("y", "x"), "c": ("z", "y", "x")}
    for name, protocols in preferences.items():
        group.add(ClassicMember(name, None, "", "", 1, 1, [(protocol, b"") for protocol in protocols]))
    assert group.select_protocol() == "y"


def test_a_new_group_waits_for_more_members() -> None:
    driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=3_000))
    first = driver.join(version=3)
    driver.advance(2_999)
    assert driver.answer(first) is None
    second = driver.join(version=3)
    driver.advance(1)
    assert driver.answer(first) is None, "a member that came during the delay prolongs it"
    driver.advance(3_000)
    assert driver.answer(first).generation_id == driver.answer(second).generation_id == 1


def test_the_initial_delay_ends_no_later_than_the_rebalance_timeout() -> None:
    driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=3_000))
    tickets = []
    for _ in range(12):
        tickets.append(driver.join(version=3, rebalance_ms=10_000))
        driver.advance(1_000)
    assert driver.answer(tickets[0]).generation_id == 1


def test_the_first_generation_waits_for_members_that_have_just_received_an_id() -> None:
    driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=0))
    members = [driver.member_id() for _ in range(3)]
    tickets = []
    for member in members:
        tickets.append(driver.join(member))
        assert driver.answer(tickets[0]) is None, "the last has not been processed yet, or a member is still pending"
        driver.advance(0)
    leader, *followers = (driver.answer(ticket) for ticket in tickets)
    assert [one.generation_id for one in (leader, *followers)] == [1, 1, 1]
    assert [one.member_id for one in leader.members] == members


def test_the_first_generation_does_not_wait_long_for_a_pending_member() -> None:
    driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=0))
    ticket, late = driver.join(driver.member_id()), driver.member_id()
    driver.advance(PENDING_MEMBER_WAIT_MS - 1)
    assert driver.answer(ticket) is None
    driver.advance(1)
    response = driver.answer(ticket)
    assert (response.generation_id, len(response.members)) == (1, 1)
    tickets = [driver.join(late), driver.join(response.member_id)]
    assert [driver.answer(one).generation_id for one in tickets] == [2, 2], "the pending member is in the next one"


def test_the_first_generation_does_not_wait_for_a_pending_member_that_leaves() -> None:
    driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=0))
    ticket, pending = driver.join(driver.member_id()), driver.member_id()
    driver.advance(0)
    assert driver.answer(ticket) is None
    assert driver.leave(pending) == [E.NONE]
    driver.advance(0)
    assert driver.answer(ticket).generation_id == 1


def test_a_pending_member_does_not_prolong_a_longer_initial_delay() -> None:
    driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=3_000))
    ticket = driver.join(driver.member_id())
    driver.member_id()
    driver.advance(2_999)
    assert driver.answer(ticket) is None
    driver.advance(1)
    assert driver.answer(ticket).generation_id == 1


def test_a_full_group_refuses_new_members() -> None:
    driver = ShardDriver(GroupConfig(initial_rebalance_delay_ms=0, max_size=2))
    driver.stable_group(2)
    assert driver.answer(driver.join()).error_code == E.GROUP_MAX_SIZE_REACHED


def test_a_leader_that_rejoins_triggers_a_rebalance_and_a_follower_does_not() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable_group(2)
    assert driver.answer(driver.join(follower)).generation_id == classic(driver).generation
    assert state(driver) is ClassicGroupState.STABLE
    ticket = driver.join(leader)
    assert state(driver) is ClassicGroupState.PREPARING_REBALANCE
    assert driver.answer(ticket) is None


def test_a_follower_with_another_subscription_triggers_a_rebalance() -> None:
    driver = ShardDriver()
    _, follower = driver.stable_group(2)
    driver.join(follower, protocols=[("range", subscription("t", "u"))])
    assert state(driver) is ClassicGroupState.PREPARING_REBALANCE


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable_group(2, session_ms=1_000_000)
    ticket = driver.join(leader, session_ms=1_000_000)
    driver.advance(REBALANCE_MS - 1)
    assert driver.answer(ticket) is None
    driver.advance(1)
    assert [member.member_id for member in driver.answer(ticket).members] == [leader]
    assert driver.heartbeat(follower, 1) == E.UNKNOWN_MEMBER_ID


def test_a_repeated_join_replaces_the_first() -> None:
    driver = ShardDriver()
    first, second = driver.stable_group(2)
    one = driver.join(first)
    two = driver.join(first)
    assert driver.answer(one).error_code == E.REBALANCE_IN_PROGRESS
    driver.join(second)
    assert driver.answer(two).error_code == E.NONE


# Syncing --------------------------------------------------------------------------------------------------------------


def test_followers_wait_for_the_leader_and_each_gets_its_assignment() -> None:
    driver = ShardDriver()
    first, second = driver.stable_group(2)
    driver.join(first)
    driver.join(second)
    generation = 2
    waiting = driver.sync(second, generation)
    assert driver.answer(waiting) is None
    mine = driver.answer(driver.sync(first, generation, {first: b"one", second: b"two"}))
    assert mine.assignment == b"one"
    assert driver.answer(waiting).assignment == b"two"
    assert state(driver) is ClassicGroupState.STABLE


@pytest.mark.parametrize(
    ("generation", "keywords", "code"),
    [
        (0, {}, E.ILLEGAL_GENERATION),
        (1, {"protocol": "roundrobin"}, E.INCONSISTENT_GROUP_PROTOCOL),
        (1, {"protocol": "range"}, E.NONE),
        (1, {"instance": "i"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_must_have_the_generation_and_protocol_of_the_group(
    generation: int, keywords: dict[str, str], code: ErrorCode
) -> None:
    driver = ShardDriver()
    leader, _ = driver.stable_group(2)
    assert classic(driver).generation == 1
    assert driver.answer(driver.sync(leader, generation, **keywords)).error_code == code  # type: ignore[arg-type]


def test_a_sync_during_a_rebalance_is_refused() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable_group(2)
    driver.join(leader)
    assert driver.answer(driver.sync(follower, 1)).error_code == E.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout() -> None:
    driver = ShardDriver()
    first, second = driver.stable_group(2, session_ms=1_000_000)
    driver.join(first, session_ms=1_000_000)
    driver.join(second, session_ms=1_000_000)
    assert state(driver) is ClassicGroupState.COMPLETING_REBALANCE
    driver.sync(second, 2)
    driver.advance(REBALANCE_MS)
    assert driver.heartbeat(first, 2) == E.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(second, 2) == E.REBALANCE_IN_PROGRESS


def test_a_leader_whose_assignment_cannot_be_stored_may_try_again() -> None:
    driver = ShardDriver()
    (member,) = driver.stable_group()
    driver.join(member)
    driver.broken = True
    assert driver.answer(driver.sync(member, 2, {member: b"x"})) == E.COORDINATOR_NOT_AVAILABLE
    assert state(driver) is ClassicGroupState.COMPLETING_REBALANCE
    driver.broken = False
    assert driver.answer(driver.sync(member, 2, {member: b"x"})).assignment == b"x"
    assert state(driver) is ClassicGroupState.STABLE


# Heartbeats and sessions ----------------------------------------------------------------------------------------------


def test_a_heartbeat_tells_a_member_to_rejoin() -> None:
    driver = ShardDriver()
    leader, follower = driver.stable_group(2)
    assert driver.heartbeat(follower, 1) == E.NONE
    driver.join(leader)
    assert driver.heartbeat(follower, 1) == E.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(follower, 0) == E.ILLEGAL_GENERATION
    assert driver.heartbeat("nobody", 1) == E.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(follower, 1, group="other") == E.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_after_its_session_and_not_before() -> None:
    driver = ShardDriver()
    talking, silent = driver.stable_group(2)
    driver.advance(SESSION_MS - 1)
    assert driver.heartbeat(talking, 1) == E.NONE
    driver.advance(1)
    assert list(classic(driver).members) == [talking]
    assert silent not in classic(driver).members
    assert driver.heartbeat(talking, 1) == E.REBALANCE_IN_PROGRESS


def test_the_session_of_a_member_that_waits_for_a_response_does_not_end() -> None:
    driver = ShardDriver()
    first, second = driver.stable_group(2, rebalance_ms=60_000)
    ticket = driver.join(first, rebalance_ms=60_000)
    for _ in range(5):
        driver.advance(SESSION_MS - 1)
        driver.heartbeat(second, 1)
    driver.join(second, rebalance_ms=60_000)
    assert driver.answer(ticket).error_code == E.NONE


def test_a_new_member_whose_client_is_gone_is_removed() -> None:
    driver = ShardDriver()
    (old,) = driver.stable_group(rebalance_ms=1_000_000, session_ms=1_000_000)
    new = driver.member_id()
    ticket = driver.join(new)
    driver.advance(300_000)
    assert driver.answer(ticket).error_code == E.UNKNOWN_MEMBER_ID
    assert list(classic(driver).members) == [old]


# Leaving --------------------------------------------------------------------------------------------------------------


def test_when_the_last_member_leaves_the_group_is_empty_with_a_new_generation() -> None:
    driver = ShardDriver()
    (member,) = driver.stable_group()
    assert driver.leave(member) == [E.NONE]
    assert state(driver) is ClassicGroupState.EMPTY
    assert classic(driver).generation == 2
    driver.reload()
    assert state(driver) is ClassicGroupState.EMPTY
    assert classic(driver).generation == 2


def test_several_members_leave_with_one_request_and_each_has_its_own_error_code() -> None:
    driver = ShardDriver()
    first, second = driver.stable_group(2)
    assert driver.leave(first, "nobody", second) == [E.NONE, E.UNKNOWN_MEMBER_ID, E.NONE]
    assert state(driver) is ClassicGroupState.EMPTY


def test_before_version_3_the_leave_response_has_one_error_code() -> None:
    driver = ShardDriver()
    (member,) = driver.stable_group()
    response = driver.answer(driver.call(LeaveGroupRequest(group_id="g", member_id="nobody"), 2))
    assert (response.error_code, response.members) == (E.UNKNOWN_MEMBER_ID, [])
    response = driver.answer(driver.call(LeaveGroupRequest(group_id="g", member_id=member), 2))
    assert response.error_code == E.NONE


def test_a_pending_member_can_leave() -> None:
    driver = ShardDriver()
    member = driver.member_id()
    assert driver.leave(member) == [E.NONE]
    assert driver.leave(member) == [E.UNKNOWN_MEMBER_ID]


def test_a_member_cannot_leave_an_unknown_group() -> None:
    assert ShardDriver().leave("x", group="none") == [E.UNKNOWN_MEMBER_ID]


# States ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", list(ClassicGroupState))
@pytest.mark.parametrize("after", list(ClassicGroupState))
def test_only_the_transitions_of_the_table_are_allowed(before: ClassicGroupState, after: ClassicGroupState) -> None:
    group = ClassicGroup("g")
    group._state = before
    if after in TRANSITIONS[before]:
        group.become(after, 0)
        assert group.state is after
    else:
        with pytest.raises(AssertionError):
            group.become(after, 0)


def test_after_a_restart_the_members_continue_in_their_generation() -> None:
    driver = ShardDriver()
    first, second = driver.stable_group(2)
    driver.reload()
    assert state(driver) is ClassicGroupState.STABLE
    assert driver.heartbeat(first, 1) == E.NONE
    assert driver.answer(driver.sync(second, 1)).assignment == second.encode()
    driver.advance(SESSION_MS)
    assert state(driver) is ClassicGroupState.EMPTY


def test_a_stable_group_is_described_with_its_assignments() -> None:
    driver = ShardDriver()
    (member,) = driver.stable_group()
    described = driver.ask(DescribeGroup, "g")
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert described.members[0].member_assignment == member.encode()
    assert described.members[0].client_host == "/127.0.0.1"
    assert driver.ask(DescribeGroup, "none").group_state == "Dead"
