"""Classic groups after a reload: the next coordinator has the last stored state of every member."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.groups.classic_group import ClassicGroup
from moldau.wire.errors import ErrorCode
from tests.unit.groups.world import World, subscription

SUBSCRIPTION = subscription("t")
FIRST_RANGE = (("range", SUBSCRIPTION), ("roundrobin", SUBSCRIPTION))
FIRST_ROUND_ROBIN = (("roundrobin", SUBSCRIPTION), ("range", SUBSCRIPTION))

Protocols = Sequence[tuple[str, bytes]]


def classic(world: World) -> ClassicGroup:
    group = world.shard.groups["g"].classic
    assert group is not None
    return group


def settle(world: World, members: dict[str, Protocols]) -> None:
    """All members join, and the leader assigns."""
    tickets = [world.join(member_id, protocols=protocols) for member_id, protocols in members.items()]
    world.advance(0)
    answers = [world.answer(ticket) for ticket in tickets]
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    for answer in answers:
        assignments = {member.member_id: b"" for member in answer.members} or None
        world.sync(answer.member_id, answer.generation_id, assignments)
    world.advance(0)


def test_members_can_rejoin_after_a_reload_if_the_protocol_had_changed() -> None:
    world = World()
    first = world.member_id()
    settle(world, {first: FIRST_RANGE})
    assert classic(world).protocol == "range"
    others = [world.member_id() for _ in range(2)]
    settle(world, {first: FIRST_RANGE} | dict.fromkeys(others, FIRST_ROUND_ROBIN))
    assert classic(world).protocol == "roundrobin"
    world.reload()
    assert {name for member in classic(world).members.values() for name, _ in member.protocols} == {"roundrobin"}
    settle(world, {first: FIRST_RANGE} | dict.fromkeys(others, FIRST_ROUND_ROBIN))
    assert len(classic(world).members) == 3


def test_after_a_reload_a_member_has_its_last_subscription() -> None:
    world = World()
    member = world.member_id()
    for topic in ("t", "u"):
        settle(world, {member: [("range", subscription(topic))]})
    world.reload()
    assert classic(world).subscribed_topics() == {"u"}
