"""Classic protocol: the rules of JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import pytest

from moldau.groups.classic_group import TRANSITIONS, ClassicGroup, ClassicGroupState, ClassicMember
from moldau.groups.classic_protocol import PENDING_MEMBER_WAIT_MS
from moldau.groups.config import GroupConfig
from moldau.groups.events import DescribeGroup
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.leave_group import LeaveGroupRequest
from tests.unit.groups.world import REBALANCE_MS, SESSION_MS, World, subscription

E = ErrorCode


def state(world: World) -> ClassicGroupState:
    group = world.shard.groups["g"].classic
    assert group is not None
    return group.state


def classic(world: World) -> ClassicGroup:
    group = world.shard.groups["g"].classic
    assert group is not None
    return group


# Joining --------------------------------------------------------------------------------------------------------------


def test_a_new_member_receives_an_id_and_must_join_again_with_it() -> None:
    world = World()
    response = world.answer(world.join())
    assert response.error_code == E.MEMBER_ID_REQUIRED
    assert response.member_id == "app-id1"
    again = world.join(response.member_id)
    world.advance(0)
    assert world.answer(again).error_code == E.NONE


def test_before_version_4_a_member_joins_with_its_first_request() -> None:
    world = World()
    ticket = world.join(version=3)
    world.advance(0)
    response = world.answer(ticket)
    assert (response.error_code, response.generation_id) == (E.NONE, 1)


def test_a_member_id_that_is_not_used_within_the_session_timeout_expires() -> None:
    world = World()
    world.stable_group()
    member = world.member_id()
    world.advance(SESSION_MS)
    assert world.answer(world.join(member)).error_code == E.UNKNOWN_MEMBER_ID


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
    world = World()
    assert world.answer(world.join(**keywords)).error_code == code  # type: ignore[arg-type]


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
    world = World()
    world.stable_group()
    assert world.answer(world.join(**keywords)).error_code == code  # type: ignore[arg-type]
    assert state(world) is ClassicGroupState.STABLE


def test_only_the_leader_receives_the_list_of_members() -> None:
    world = World()
    first, second = world.stable_group(2)
    assert classic(world).leader == first
    tickets = [world.join(member) for member in (first, second)]
    leader, follower = (world.answer(ticket) for ticket in tickets)
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
    world = World(GroupConfig(initial_rebalance_delay_ms=3_000))
    first = world.join(version=3)
    world.advance(2_999)
    assert world.answer(first) is None
    second = world.join(version=3)
    world.advance(1)
    assert world.answer(first) is None, "a member that came during the delay prolongs it"
    world.advance(3_000)
    assert world.answer(first).generation_id == world.answer(second).generation_id == 1


def test_the_initial_delay_ends_no_later_than_the_rebalance_timeout() -> None:
    world = World(GroupConfig(initial_rebalance_delay_ms=3_000))
    tickets = []
    for _ in range(12):
        tickets.append(world.join(version=3, rebalance_ms=10_000))
        world.advance(1_000)
    assert world.answer(tickets[0]).generation_id == 1


def test_the_first_generation_waits_for_members_that_have_just_received_an_id() -> None:
    world = World(GroupConfig(initial_rebalance_delay_ms=0))
    members = [world.member_id() for _ in range(3)]
    tickets = []
    for member in members:
        tickets.append(world.join(member))
        assert world.answer(tickets[0]) is None, "the last has not been processed yet, or a member is still pending"
        world.advance(0)
    leader, *followers = (world.answer(ticket) for ticket in tickets)
    assert [one.generation_id for one in (leader, *followers)] == [1, 1, 1]
    assert [one.member_id for one in leader.members] == members


def test_the_first_generation_does_not_wait_long_for_a_pending_member() -> None:
    world = World(GroupConfig(initial_rebalance_delay_ms=0))
    ticket, late = world.join(world.member_id()), world.member_id()
    world.advance(PENDING_MEMBER_WAIT_MS - 1)
    assert world.answer(ticket) is None
    world.advance(1)
    response = world.answer(ticket)
    assert (response.generation_id, len(response.members)) == (1, 1)
    tickets = [world.join(late), world.join(response.member_id)]
    assert [world.answer(one).generation_id for one in tickets] == [2, 2], "the pending member is in the next one"


def test_the_first_generation_does_not_wait_for_a_pending_member_that_leaves() -> None:
    world = World(GroupConfig(initial_rebalance_delay_ms=0))
    ticket, pending = world.join(world.member_id()), world.member_id()
    world.advance(0)
    assert world.answer(ticket) is None
    assert world.leave(pending) == [E.NONE]
    world.advance(0)
    assert world.answer(ticket).generation_id == 1


def test_a_pending_member_does_not_prolong_a_longer_initial_delay() -> None:
    world = World(GroupConfig(initial_rebalance_delay_ms=3_000))
    ticket = world.join(world.member_id())
    world.member_id()
    world.advance(2_999)
    assert world.answer(ticket) is None
    world.advance(1)
    assert world.answer(ticket).generation_id == 1


def test_a_full_group_refuses_new_members() -> None:
    world = World(GroupConfig(initial_rebalance_delay_ms=0, max_size=2))
    world.stable_group(2)
    assert world.answer(world.join()).error_code == E.GROUP_MAX_SIZE_REACHED


def test_a_leader_that_rejoins_triggers_a_rebalance_and_a_follower_does_not() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    assert world.answer(world.join(follower)).generation_id == classic(world).generation
    assert state(world) is ClassicGroupState.STABLE
    ticket = world.join(leader)
    assert state(world) is ClassicGroupState.PREPARING_REBALANCE
    assert world.answer(ticket) is None


def test_a_follower_with_another_subscription_triggers_a_rebalance() -> None:
    world = World()
    _, follower = world.stable_group(2)
    world.join(follower, protocols=[("range", subscription("t", "u"))])
    assert state(world) is ClassicGroupState.PREPARING_REBALANCE


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    world = World()
    leader, follower = world.stable_group(2, session_ms=1_000_000)
    ticket = world.join(leader, session_ms=1_000_000)
    world.advance(REBALANCE_MS - 1)
    assert world.answer(ticket) is None
    world.advance(1)
    assert [member.member_id for member in world.answer(ticket).members] == [leader]
    assert world.heartbeat(follower, 1) == E.UNKNOWN_MEMBER_ID


def test_a_repeated_join_replaces_the_first() -> None:
    world = World()
    first, second = world.stable_group(2)
    one = world.join(first)
    two = world.join(first)
    assert world.answer(one).error_code == E.REBALANCE_IN_PROGRESS
    world.join(second)
    assert world.answer(two).error_code == E.NONE


# Syncing --------------------------------------------------------------------------------------------------------------


def test_followers_wait_for_the_leader_and_each_gets_its_assignment() -> None:
    world = World()
    first, second = world.stable_group(2)
    world.join(first)
    world.join(second)
    generation = 2
    waiting = world.sync(second, generation)
    assert world.answer(waiting) is None
    mine = world.answer(world.sync(first, generation, {first: b"one", second: b"two"}))
    assert mine.assignment == b"one"
    assert world.answer(waiting).assignment == b"two"
    assert state(world) is ClassicGroupState.STABLE


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
    world = World()
    leader, _ = world.stable_group(2)
    assert classic(world).generation == 1
    assert world.answer(world.sync(leader, generation, **keywords)).error_code == code  # type: ignore[arg-type]


def test_a_sync_during_a_rebalance_is_refused() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    world.join(leader)
    assert world.answer(world.sync(follower, 1)).error_code == E.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout() -> None:
    world = World()
    first, second = world.stable_group(2, session_ms=1_000_000)
    world.join(first, session_ms=1_000_000)
    world.join(second, session_ms=1_000_000)
    assert state(world) is ClassicGroupState.COMPLETING_REBALANCE
    world.sync(second, 2)
    world.advance(REBALANCE_MS)
    assert world.heartbeat(first, 2) == E.UNKNOWN_MEMBER_ID
    assert world.heartbeat(second, 2) == E.REBALANCE_IN_PROGRESS


def test_a_leader_whose_assignment_cannot_be_stored_may_try_again() -> None:
    world = World()
    (member,) = world.stable_group()
    world.join(member)
    world.broken = True
    assert world.answer(world.sync(member, 2, {member: b"x"})) == E.COORDINATOR_NOT_AVAILABLE
    assert state(world) is ClassicGroupState.COMPLETING_REBALANCE
    world.broken = False
    assert world.answer(world.sync(member, 2, {member: b"x"})).assignment == b"x"
    assert state(world) is ClassicGroupState.STABLE


# Heartbeats and sessions ----------------------------------------------------------------------------------------------


def test_a_heartbeat_tells_a_member_to_rejoin() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    assert world.heartbeat(follower, 1) == E.NONE
    world.join(leader)
    assert world.heartbeat(follower, 1) == E.REBALANCE_IN_PROGRESS
    assert world.heartbeat(follower, 0) == E.ILLEGAL_GENERATION
    assert world.heartbeat("nobody", 1) == E.UNKNOWN_MEMBER_ID
    assert world.heartbeat(follower, 1, group="other") == E.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_after_its_session_and_not_before() -> None:
    world = World()
    talking, silent = world.stable_group(2)
    world.advance(SESSION_MS - 1)
    assert world.heartbeat(talking, 1) == E.NONE
    world.advance(1)
    assert list(classic(world).members) == [talking]
    assert silent not in classic(world).members
    assert world.heartbeat(talking, 1) == E.REBALANCE_IN_PROGRESS


def test_the_session_of_a_member_that_waits_for_a_response_does_not_end() -> None:
    world = World()
    first, second = world.stable_group(2, rebalance_ms=60_000)
    ticket = world.join(first, rebalance_ms=60_000)
    for _ in range(5):
        world.advance(SESSION_MS - 1)
        world.heartbeat(second, 1)
    world.join(second, rebalance_ms=60_000)
    assert world.answer(ticket).error_code == E.NONE


def test_a_new_member_whose_client_is_gone_is_removed() -> None:
    world = World()
    (old,) = world.stable_group(rebalance_ms=1_000_000, session_ms=1_000_000)
    new = world.member_id()
    ticket = world.join(new)
    world.advance(300_000)
    assert world.answer(ticket).error_code == E.UNKNOWN_MEMBER_ID
    assert list(classic(world).members) == [old]


# Leaving --------------------------------------------------------------------------------------------------------------


def test_when_the_last_member_leaves_the_group_is_empty_with_a_new_generation() -> None:
    world = World()
    (member,) = world.stable_group()
    assert world.leave(member) == [E.NONE]
    assert state(world) is ClassicGroupState.EMPTY
    assert classic(world).generation == 2
    world.reload()
    assert state(world) is ClassicGroupState.EMPTY
    assert classic(world).generation == 2


def test_several_members_leave_with_one_request_and_each_has_its_own_error_code() -> None:
    world = World()
    first, second = world.stable_group(2)
    assert world.leave(first, "nobody", second) == [E.NONE, E.UNKNOWN_MEMBER_ID, E.NONE]
    assert state(world) is ClassicGroupState.EMPTY


def test_before_version_3_the_leave_response_has_one_error_code() -> None:
    world = World()
    (member,) = world.stable_group()
    response = world.answer(world.call(LeaveGroupRequest(group_id="g", member_id="nobody"), 2))
    assert (response.error_code, response.members) == (E.UNKNOWN_MEMBER_ID, [])
    response = world.answer(world.call(LeaveGroupRequest(group_id="g", member_id=member), 2))
    assert response.error_code == E.NONE


def test_a_pending_member_can_leave() -> None:
    world = World()
    member = world.member_id()
    assert world.leave(member) == [E.NONE]
    assert world.leave(member) == [E.UNKNOWN_MEMBER_ID]


def test_a_member_cannot_leave_an_unknown_group() -> None:
    assert World().leave("x", group="none") == [E.UNKNOWN_MEMBER_ID]


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
    world = World()
    first, second = world.stable_group(2)
    world.reload()
    assert state(world) is ClassicGroupState.STABLE
    assert world.heartbeat(first, 1) == E.NONE
    assert world.answer(world.sync(second, 1)).assignment == second.encode()
    world.advance(SESSION_MS)
    assert state(world) is ClassicGroupState.EMPTY


def test_a_stable_group_is_described_with_its_assignments() -> None:
    world = World()
    (member,) = world.stable_group()
    described = world.ask(DescribeGroup, "g")
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert described.members[0].member_assignment == member.encode()
    assert described.members[0].client_host == "/127.0.0.1"
    assert world.ask(DescribeGroup, "none").group_state == "Dead"
