"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of the classic protocol, rule by rule."""

from __future__ import annotations

import pytest

from moldau.groups.classic import TRANSITIONS, ClassicGroup, Member, State
from moldau.groups.config import GroupConfig
from moldau.groups.events import DescribeGroup
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.leave_group import LeaveGroupRequest
from tests.unit.groups.world import REBALANCE_MS, SESSION_MS, World, subscription

E = ErrorCode


def state(world: World) -> State:
    group = world.shard.groups["g"].classic
    assert group is not None
    return group.state


def classic(world: World) -> ClassicGroup:
    group = world.shard.groups["g"].classic
    assert group is not None
    return group


# Joining --------------------------------------------------------------------------------------------------------------


def test_a_new_member_is_first_given_an_id_and_told_to_come_again_with_it() -> None:
    world = World()
    response = world.answer(world.join())
    assert response.error_code == E.MEMBER_ID_REQUIRED
    assert response.member_id == "app-id1"
    again = world.join(response.member_id)
    world.advance(0)
    assert world.answer(again).error_code == E.NONE


def test_before_version_4_a_member_is_in_at_once() -> None:
    world = World()
    ticket = world.join(version=3)
    world.advance(0)
    response = world.answer(ticket)
    assert (response.error_code, response.generation_id) == (E.NONE, 1)


def test_an_id_that_is_not_used_within_the_session_is_void() -> None:
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
def test_what_cannot_be_joined_is_refused(keywords: dict[str, object], code: ErrorCode) -> None:
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
def test_a_group_with_members_takes_only_those_who_fit(keywords: dict[str, object], code: ErrorCode) -> None:
    world = World()
    world.stable_group()
    assert world.answer(world.join(**keywords)).error_code == code  # type: ignore[arg-type]
    assert state(world) is State.STABLE


def test_only_the_leader_hears_of_the_other_members() -> None:
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
        group.add(Member(name, None, "", "", 1, 1, [(protocol, b"") for protocol in protocols]))
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


def test_the_initial_delay_ends_at_the_latest_with_the_rebalance_time_out() -> None:
    world = World(GroupConfig(initial_rebalance_delay_ms=3_000))
    tickets = []
    for _ in range(12):
        tickets.append(world.join(version=3, rebalance_ms=10_000))
        world.advance(1_000)
    assert world.answer(tickets[0]).generation_id == 1


def test_a_group_without_room_refuses() -> None:
    world = World(GroupConfig(initial_rebalance_delay_ms=0, max_size=2))
    world.stable_group(2)
    assert world.answer(world.join()).error_code == E.GROUP_MAX_SIZE_REACHED


def test_a_leader_that_rejoins_makes_the_group_rebalance_and_a_follower_does_not() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    assert world.answer(world.join(follower)).generation_id == classic(world).generation
    assert state(world) is State.STABLE
    ticket = world.join(leader)
    assert state(world) is State.PREPARING_REBALANCE
    assert world.answer(ticket) is None


def test_a_follower_with_another_subscription_makes_the_group_rebalance() -> None:
    world = World()
    _, follower = world.stable_group(2)
    world.join(follower, protocols=[("range", subscription("t", "u"))])
    assert state(world) is State.PREPARING_REBALANCE


def test_whoever_does_not_rejoin_in_time_is_out() -> None:
    world = World()
    leader, follower = world.stable_group(2, session_ms=1_000_000)
    ticket = world.join(leader, session_ms=1_000_000)
    world.advance(REBALANCE_MS - 1)
    assert world.answer(ticket) is None
    world.advance(1)
    assert [member.member_id for member in world.answer(ticket).members] == [leader]
    assert world.heartbeat(follower, 1) == E.UNKNOWN_MEMBER_ID


def test_a_join_that_is_sent_again_takes_the_place_of_the_first() -> None:
    world = World()
    first, second = world.stable_group(2)
    one = world.join(first)
    two = world.join(first)
    assert world.answer(one).error_code == E.REBALANCE_IN_PROGRESS
    world.join(second)
    assert world.answer(two).error_code == E.NONE


# Syncing --------------------------------------------------------------------------------------------------------------


def test_followers_wait_for_the_leader_and_each_gets_its_own() -> None:
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
    assert state(world) is State.STABLE


@pytest.mark.parametrize(
    ("generation", "keywords", "code"),
    [
        (0, {}, E.ILLEGAL_GENERATION),
        (1, {"protocol": "roundrobin"}, E.INCONSISTENT_GROUP_PROTOCOL),
        (1, {"protocol": "range"}, E.NONE),
        (1, {"instance": "i"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_must_fit_the_generation(generation: int, keywords: dict[str, str], code: ErrorCode) -> None:
    world = World()
    leader, _ = world.stable_group(2)
    assert classic(world).generation == 1
    assert world.answer(world.sync(leader, generation, **keywords)).error_code == code  # type: ignore[arg-type]


def test_a_sync_during_a_rebalance_is_told_so() -> None:
    world = World()
    leader, follower = world.stable_group(2)
    world.join(leader)
    assert world.answer(world.sync(follower, 1)).error_code == E.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_out_after_the_rebalance_time_out() -> None:
    world = World()
    first, second = world.stable_group(2, session_ms=1_000_000)
    world.join(first, session_ms=1_000_000)
    world.join(second, session_ms=1_000_000)
    assert state(world) is State.COMPLETING_REBALANCE
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
    assert state(world) is State.COMPLETING_REBALANCE
    world.broken = False
    assert world.answer(world.sync(member, 2, {member: b"x"})).assignment == b"x"
    assert state(world) is State.STABLE


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


def test_a_silent_member_is_out_after_its_session_and_not_before() -> None:
    world = World()
    talking, silent = world.stable_group(2)
    world.advance(SESSION_MS - 1)
    assert world.heartbeat(talking, 1) == E.NONE
    world.advance(1)
    assert list(classic(world).members) == [talking]
    assert silent not in classic(world).members
    assert world.heartbeat(talking, 1) == E.REBALANCE_IN_PROGRESS


def test_a_member_that_waits_for_an_answer_is_not_silent() -> None:
    world = World()
    first, second = world.stable_group(2, rebalance_ms=60_000)
    ticket = world.join(first, rebalance_ms=60_000)
    for _ in range(5):
        world.advance(SESSION_MS - 1)
        world.heartbeat(second, 1)
    world.join(second, rebalance_ms=60_000)
    assert world.answer(ticket).error_code == E.NONE


def test_a_new_member_whose_client_is_gone_does_not_wait_for_ever() -> None:
    world = World()
    (old,) = world.stable_group(rebalance_ms=1_000_000, session_ms=1_000_000)
    new = world.member_id()
    ticket = world.join(new)
    world.advance(300_000)
    assert world.answer(ticket).error_code == E.UNKNOWN_MEMBER_ID
    assert list(classic(world).members) == [old]


# Leaving --------------------------------------------------------------------------------------------------------------


def test_the_last_member_leaves_an_empty_group_with_a_new_generation() -> None:
    world = World()
    (member,) = world.stable_group()
    assert world.leave(member) == [E.NONE]
    assert state(world) is State.EMPTY
    assert classic(world).generation == 2
    world.reload()
    assert state(world) is State.EMPTY
    assert classic(world).generation == 2


def test_several_members_leave_at_once_each_with_its_own_answer() -> None:
    world = World()
    first, second = world.stable_group(2)
    assert world.leave(first, "nobody", second) == [E.NONE, E.UNKNOWN_MEMBER_ID, E.NONE]
    assert state(world) is State.EMPTY


def test_before_version_3_the_answer_is_one_code() -> None:
    world = World()
    (member,) = world.stable_group()
    response = world.answer(world.call(LeaveGroupRequest(group_id="g", member_id="nobody"), 2))
    assert (response.error_code, response.members) == (E.UNKNOWN_MEMBER_ID, [])
    response = world.answer(world.call(LeaveGroupRequest(group_id="g", member_id=member), 2))
    assert response.error_code == E.NONE


def test_an_id_that_was_given_out_can_be_given_back() -> None:
    world = World()
    member = world.member_id()
    assert world.leave(member) == [E.NONE]
    assert world.leave(member) == [E.UNKNOWN_MEMBER_ID]


def test_nobody_can_leave_a_group_that_is_not_there() -> None:
    assert World().leave("x", group="none") == [E.UNKNOWN_MEMBER_ID]


# States ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", list(State))
@pytest.mark.parametrize("after", list(State))
def test_a_group_goes_only_where_the_table_says(before: State, after: State) -> None:
    group = ClassicGroup("g")
    group._state = before
    if after in TRANSITIONS[before]:
        group.become(after, 0)
        assert group.state is after
    else:
        with pytest.raises(AssertionError):
            group.become(after, 0)


def test_after_a_restart_the_members_go_on_where_they_were() -> None:
    world = World()
    first, second = world.stable_group(2)
    world.reload()
    assert state(world) is State.STABLE
    assert world.heartbeat(first, 1) == E.NONE
    assert world.answer(world.sync(second, 1)).assignment == second.encode()
    world.advance(SESSION_MS)
    assert state(world) is State.EMPTY


def test_a_described_group_shows_its_members_when_it_is_stable() -> None:
    world = World()
    (member,) = world.stable_group()
    described = world.ask(DescribeGroup, "g")
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert described.members[0].member_assignment == member.encode()
    assert described.members[0].client_host == "/127.0.0.1"
    assert world.ask(DescribeGroup, "none").group_state == "Dead"
