"""Classic groups after a reload: the next coordinator has the last stored state of every member."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.groups.classic_group import ClassicGroup
from moldau.wire.errors import ErrorCode
from tests.unit.groups.shard_driver import ShardDriver, subscription

SUBSCRIPTION = subscription("t")
FIRST_RANGE = (("range", SUBSCRIPTION), ("roundrobin", SUBSCRIPTION))
FIRST_ROUND_ROBIN = (("roundrobin", SUBSCRIPTION), ("range", SUBSCRIPTION))

Protocols = Sequence[tuple[str, bytes]]


def classic(driver: ShardDriver) -> ClassicGroup:
    group = driver.shard.groups["g"].classic
    assert group is not None
    return group


def settle(driver: ShardDriver, members: dict[str, Protocols]) -> None:
    """All members join, and the leader assigns."""
    tickets = [driver.join(member_id, protocols=protocols) for member_id, protocols in members.items()]
    driver.advance(0)
    answers = [driver.answer(ticket) for ticket in tickets]
    assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
    for answer in answers:
        assignments = {member.member_id: b"" for member in answer.members} or None
        driver.sync(answer.member_id, answer.generation_id, assignments)
    driver.advance(0)


def test_members_can_rejoin_after_a_reload_if_the_protocol_had_changed() -> None:
    driver = ShardDriver()
    first = driver.member_id()
    settle(driver, {first: FIRST_RANGE})
    assert classic(driver).protocol == "range"
    others = [driver.member_id() for _ in range(2)]
    settle(driver, {first: FIRST_RANGE} | dict.fromkeys(others, FIRST_ROUND_ROBIN))
    assert classic(driver).protocol == "roundrobin"
    driver.reload()
    assert {name for member in classic(driver).members.values() for name, _ in member.protocols} == {"roundrobin"}
    settle(driver, {first: FIRST_RANGE} | dict.fromkeys(others, FIRST_ROUND_ROBIN))
    assert len(classic(driver).members) == 3


def test_after_a_reload_a_member_has_its_last_subscription() -> None:
    driver = ShardDriver()
    member = driver.member_id()
    for topic in ("t", "u"):
        settle(driver, {member: [("range", subscription(topic))]})
    driver.reload()
    assert classic(driver).subscribed_topics() == {"u"}
