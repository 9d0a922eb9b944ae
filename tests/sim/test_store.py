"""Simulated metadata store: servers that lag, lost connections, expired sessions.

All sleeps are in virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from moldau.cluster.image import BrokerImage
from moldau.cluster.security_nodes import AclNode
from moldau.cluster.store import Create, Event, EventKind, SessionEvent, Set, StoreError
from moldau.cluster.tree import Tree
from moldau.security.acls import AclEntry, AclFilter, AclRule, PatternType, Permission, ResourcePattern
from moldau.security.resources import Operation, ResourceType
from moldau.testing.simulation.ensemble import SimulatedEnsemble
from moldau.testing.simulation.loop import SimulatedLoop
from moldau.testing.simulation.machine import Machine, SimulatedProcess
from moldau.testing.simulation.network import SimulatedNetwork
from moldau.testing.simulation.store import SimulatedStore
from tests.unit.cluster.support import started

TIMEOUT_S = 6.0


class Place:
    """An ensemble, and processes that have sessions with it."""

    def __init__(self, lag_s: float) -> None:
        self.loop = SimulatedLoop()
        self.network = SimulatedNetwork(self.loop, 3, pytest.fail)
        self.ensemble = SimulatedEnsemble(5, TIMEOUT_S, lag_s)
        self.store_machine = self.machine("store", 0)
        self.processes = [self.machine(f"broker-{index}", index).begin(f"broker-{index}") for index in (1, 2)]

    def machine(self, name: str, index: int) -> Machine:
        machine = Machine(name, f"10.0.0.{index}", self.loop, index)
        self.network.add(machine)
        return machine

    async def open(self, process: SimulatedProcess) -> SimulatedStore:
        there = self.network.link(process.machine, self.store_machine)
        back = self.network.link(self.store_machine, process.machine)
        return await process.run(self.ensemble.open(there, back, process.soon))

    def cut(self, process: SimulatedProcess) -> None:
        self.network.cut(process.machine, self.store_machine)
        self.network.cut(self.store_machine, process.machine)

    def mend(self, process: SimulatedProcess) -> None:
        self.network.mend(process.machine, self.store_machine)
        self.network.mend(self.store_machine, process.machine)


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place(lag_s=2.0)
    yield place
    place.loop.close()


def run(place: Place, scenario: Callable[[SimulatedStore, SimulatedStore], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        one, other = [await place.open(process) for process in place.processes]
        one.server, other.server = place.ensemble.servers[1], place.ensemble.servers[2]
        for session in (one, other):
            for server in place.ensemble.servers:
                server.sessions.pop(session, None)
            session.server.sessions[session] = None
        await scenario(one, other)

    place.loop.run_until_complete(whole())


def test_a_read_may_be_old_until_the_session_syncs(place: Place) -> None:
    async def scenario(one: SimulatedStore, other: SimulatedStore) -> None:
        await one.commit([Create("/a", b"1")])
        assert await one.get("/a") is not None, "the session that committed must see its own change"
        assert await other.get("/a") is None
        await other.sync()
        assert await other.get("/a") is not None

    run(place, scenario)


def test_events_come_late_in_order_and_before_a_read_that_shows_the_change(place: Place) -> None:
    async def scenario(one: SimulatedStore, other: SimulatedStore) -> None:
        heard: list[Event] = []
        other.watch("/", heard.append)
        await one.commit([Create("/a", b"")])
        for value in (b"1", b"2", b"3"):
            await one.commit([Set("/a", value)])
        assert heard == []
        await other.sync()
        assert [event.kind for event in heard] == [EventKind.CREATED] + 3 * [EventKind.CHANGED]

    run(place, scenario)


def test_a_session_that_is_cut_off_is_suspended_and_then_expires(place: Place) -> None:
    async def scenario(one: SimulatedStore, other: SimulatedStore) -> None:
        told: list[SessionEvent] = []
        one.on_session(told.append)
        await one.commit([Create("/mine", b"", ephemeral=True)])
        place.cut(place.processes[0])
        await asyncio.sleep(TIMEOUT_S * 0.9)
        assert told == [SessionEvent.SUSPENDED]
        await asyncio.sleep(TIMEOUT_S)
        await other.sync()
        assert await other.get("/mine") is None
        assert told == [SessionEvent.SUSPENDED], "a session that is cut off cannot hear that it has expired"
        place.mend(place.processes[0])
        await asyncio.sleep(TIMEOUT_S)
        assert told == [SessionEvent.SUSPENDED, SessionEvent.EXPIRED]
        with pytest.raises(StoreError):
            await one.get("/a")

    run(place, scenario)


def test_a_session_that_reconnects_in_time_continues_and_has_missed_events(place: Place) -> None:
    async def scenario(one: SimulatedStore, other: SimulatedStore) -> None:
        told: list[SessionEvent] = []
        heard: list[Event] = []
        one.on_session(told.append)
        one.watch("/", heard.append)
        await one.commit([Create("/mine", b"", ephemeral=True)])
        heard.clear()
        for server in place.ensemble.servers:
            server.lag_s = 0.0
        place.cut(place.processes[0])
        await asyncio.sleep(TIMEOUT_S * 0.75)
        await other.commit([Create("/missed", b"")])
        place.mend(place.processes[0])
        await asyncio.sleep(TIMEOUT_S / 2)
        assert told == [SessionEvent.SUSPENDED, SessionEvent.RESUMED]
        await one.sync()
        assert await one.get("/mine") is not None
        assert await one.get("/missed") is not None
        assert heard == []

    run(place, scenario)


def test_a_process_that_is_held_too_long_finds_its_session_gone(place: Place) -> None:
    async def scenario(one: SimulatedStore, other: SimulatedStore) -> None:
        told: list[SessionEvent] = []
        one.on_session(told.append)
        place.processes[0].hold()
        await asyncio.sleep(TIMEOUT_S * 2)
        assert told == []
        place.processes[0].release()
        await asyncio.sleep(1)
        assert told[-1] is SessionEvent.EXPIRED

    run(place, scenario)


def test_a_broker_recognises_its_registration_at_a_server_that_lags(place: Place) -> None:
    async def scenario(one: SimulatedStore, other: SimulatedStore) -> None:
        born = BrokerImage(1, (), directory_id="d")
        await Tree(one).prepare("cluster")
        await Tree(one).begin_incarnation(born, "of an earlier process")
        await other.sync()
        await Tree(one).begin_incarnation(born, "of this process")
        assert await Tree(other).is_ours(1, "of this process")
        assert not await Tree(other).is_ours(1, "of an earlier process")

    run(place, scenario)


def test_a_commit_whose_connection_was_lost_is_uncertain() -> None:
    stored = set()
    for seed in range(20):
        place = Place(lag_s=0.0)
        place.ensemble.random.seed(seed)

        async def scenario(one: SimulatedStore, other: SimulatedStore, place: Place = place) -> None:
            commit = place.processes[0].run(one.commit([Create("/a", b"")]))
            await asyncio.sleep(0.00005)
            one.break_connection()
            with pytest.raises(StoreError, match="not known"):
                await commit
            await asyncio.sleep(1)
            stored.add(await other.get("/a") is not None)

        run(place, scenario)
        place.loop.close()
    assert stored == {True, False}


def test_rules_are_decided_by_what_is_stored_and_not_by_an_image_that_lags(place: Place) -> None:
    """A client that removes a rule at one broker and adds it at another has it in the end."""
    pattern = ResourcePattern(ResourceType.TOPIC, "t")
    rule = AclRule(pattern, AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW))
    exactly = AclFilter(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:alice")

    async def scenario(one: SimulatedStore, other: SimulatedStore) -> None:
        here, there = await started(one, 1), await started(other, 2)
        try:
            for _ in range(5):
                assert await here.security.create_acls([rule]) == [None]
                assert await there.security.delete_acls([exactly]) == [(rule,)]
                assert await here.security.create_acls([rule]) == [None]
                assert await there.security.create_acls([rule]) == [None]
                assert len(place.ensemble.servers[0].read_children(AclNode.folder)) == 1
                assert await there.security.delete_acls([exactly]) == [(rule,)]
                assert await here.security.delete_acls([exactly]) == [()]
                assert place.ensemble.servers[0].read_children(AclNode.folder) == {}
        finally:
            await here.close()
            await there.close()

    run(place, scenario)
