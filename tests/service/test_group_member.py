"""Group membership of a process: sharing work, takeover, fencing, and what goes wrong."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.service.group_member import GroupAssignment, GroupMember, GroupView
from moldau.testing import Broker
from tests.service.members import SHARES, Journal, MemberProcess, assign, member
from tests.support.waiting import wait_until, wait_until_async


def together(*journals: Journal) -> bool:
    """Whether these members have all the work, and each share one owner."""
    return sorted(share for one in journals for share in one.work) == SHARES and all(one.work for one in journals)


async def started(bootstrap: str, group: str, names: str, **options: Any) -> list[tuple[GroupMember, Journal]]:
    found = []
    for name in names:
        journal = Journal()
        one = member(bootstrap, group, name, journal, **options)
        await one.start()
        found.append((one, journal))
    return found


def test_members_share_the_work_and_know_their_leader(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        members = await started(bootstrap, unused_name, "xyz")
        journals = [journal for _, journal in members]
        await wait_until_async(lambda: together(*journals), "all work has an owner")
        assert len({journal.leader for journal in journals}) == 1
        assert sum(one.assignment is not None and one.assignment.leads for one, _ in members) == 1
        assert all(one.valid and one.member_id for one, _ in members)
        for one, _ in members:
            await one.stop()

    asyncio.run(run())


def test_a_member_that_leaves_is_replaced_at_once(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        (first, journal), (second, other) = await started(
            bootstrap, unused_name, "xy", session_timeout_ms=30_000, heartbeat_interval_ms=50
        )
        await wait_until_async(lambda: together(journal, other), "both have work")
        await first.stop()
        assert journal.kinds[-1] == "revoked"
        assert not first.valid
        await wait_until_async(lambda: together(other), "the other has all work", 5.0)
        assert "lost" not in other.kinds
        await second.stop()

    asyncio.run(run())


def test_a_member_that_vanishes_is_replaced_after_the_session_timeout(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        (first, journal), (second, other) = await started(bootstrap, unused_name, "xy")
        await wait_until_async(lambda: together(journal, other), "both have work")
        await first.abandon()
        await wait_until_async(lambda: together(other), "the other has all work", 5.0)
        await second.stop()

    asyncio.run(run())


def test_a_member_without_contact_gives_its_work_up_by_itself(own_broker: Broker, unused_name: str) -> None:
    async def run() -> None:
        ((one, journal),) = await started(own_broker.bootstrap_servers, unused_name, "x")
        await wait_until_async(lambda: together(journal), "it has all work")
        await asyncio.to_thread(own_broker.stop)
        assert one.valid
        await wait_until_async(lambda: journal.kinds[-1] == "lost", "it has lost its work", 8.0)
        assert not one.valid
        assert one.assignment is None
        await asyncio.to_thread(own_broker.start)
        await wait_until_async(lambda: together(journal), "it has all work again")
        await one.stop()

    asyncio.run(run())


def test_a_short_absence_of_the_broker_costs_no_work(own_broker: Broker, unused_name: str) -> None:
    async def run() -> None:
        ((one, journal),) = await started(own_broker.bootstrap_servers, unused_name, "x", session_timeout_ms=30_000)
        await wait_until_async(lambda: together(journal), "it has all work")
        await asyncio.to_thread(own_broker.restart)
        one.rejoin("so that the test sees an answer of the new coordinator")
        await wait_until_async(lambda: journal.kinds.count("assigned") == 2, "assigned again")
        assert "lost" not in journal.kinds
        await one.stop()

    asyncio.run(run())


def test_a_rebalance_waits_for_revoked_and_for_a_slow_leader(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        released = asyncio.Event()

        class Slow(Journal):
            async def revoked(self, old: GroupAssignment) -> None:
                await super().revoked(old)
                await released.wait()

        async def slow_assign(view: GroupView) -> dict[str, bytes]:
            await asyncio.sleep(1.2)  # longer than the session time-out: heartbeats go on
            return assign(view)

        slow, other = Slow(), Journal()
        first = member(bootstrap, unused_name, "x", slow, assign=slow_assign)
        await first.start()
        await wait_until_async(lambda: together(slow), "the first has all work")
        second = member(bootstrap, unused_name, "y", other)
        await second.start()
        await wait_until_async(lambda: slow.kinds[-1] == "revoked", "the rebalance has begun")
        assert second.rebalancing
        assert other.work == []
        released.set()
        await wait_until_async(lambda: together(slow, other), "both have work")
        assert slow.kinds == ["assigned", "revoked", "assigned"]
        await first.stop()
        await second.stop()

    asyncio.run(run())


def test_a_leader_that_cannot_assign_tries_again(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        attempts = 0

        def at_last(view: GroupView) -> dict[str, bytes]:
            nonlocal attempts
            attempts += 1
            if attempts < 3:
                raise ValueError("not yet")
            return assign(view)

        ((one, journal),) = await started(bootstrap, unused_name, "x", assign=at_last)
        await wait_until_async(lambda: together(journal), "it has all work")
        assert attempts == 3
        await one.stop()

    asyncio.run(run())


def test_a_listener_that_raises_does_not_end_the_membership(bootstrap: str, unused_name: str) -> None:
    class Clumsy(Journal):
        async def revoked(self, old: GroupAssignment) -> None:
            raise ValueError("clumsy")

    async def run() -> None:
        journal = Clumsy()
        one = member(bootstrap, unused_name, "x", journal)
        await one.start()
        await wait_until_async(lambda: together(journal), "it has all work")
        one.rejoin("a test")
        await wait_until_async(lambda: journal.kinds.count("assigned") == 2, "assigned again")
        await one.stop()

    asyncio.run(run())


def test_another_protocol_type_in_the_same_group_is_refused(bootstrap: str, unused_name: str) -> None:
    async def run() -> None:
        ((one, journal),) = await started(bootstrap, unused_name, "x")
        await wait_until_async(lambda: together(journal), "it has all work")
        ((wrong, told),) = await started(bootstrap, unused_name, "y", protocol_type="other")
        await wait_until_async(lambda: told.failure, "the failure")
        assert told.work == []
        assert one.valid
        await wrong.stop()
        await one.stop()

    asyncio.run(run())


def test_leaving_does_not_wait_for_a_broker_that_is_gone(own_broker: Broker, unused_name: str) -> None:
    async def run() -> None:
        ((one, journal),) = await started(own_broker.bootstrap_servers, unused_name, "x", session_timeout_ms=30_000)
        await wait_until_async(lambda: together(journal), "it has all work")
        await asyncio.to_thread(own_broker.stop)
        async with asyncio.timeout(5):
            await one.stop(timeout_s=0.3)
        assert journal.kinds[-1] == "revoked"

    asyncio.run(run())


# -- processes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(bootstrap: str, unused_name: str) -> Iterator[list[MemberProcess]]:
    processes = [MemberProcess(bootstrap, unused_name, name) for name in "xyz"]
    yield processes
    for one in processes:
        one.end()


def test_killed_and_stopped_processes_lose_their_work_and_a_continued_one_is_fenced(three: list[MemberProcess]) -> None:
    first, second, third = three
    first.wait_for_work("a", "d")
    second.wait_for_work("b", "e")
    third.wait_for_work("c", "f")
    third.send(signal.SIGKILL)
    first.wait_for_work("a", "c", "e")
    second.wait_for_work("b", "d", "f")
    first.send(signal.SIGSTOP)
    second.wait_for_work(*SHARES)
    known = len(first.events)
    first.send(signal.SIGCONT)
    wait_until(lambda: len(first.events) > known, "the continued process has noticed")
    assert first.events[known][0] == "lost"
    first.wait_for_work("a", "c", "e")
    second.wait_for_work("b", "d", "f")
