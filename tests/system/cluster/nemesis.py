"""Faults of a cluster: each is a context manager, and leaving it repairs the fault.

Brokers, links and durations are chosen at random, from a seed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.system.chaos.group_members import GroupMembers
from tests.system.chaos.member import Options
from tests.system.cluster.harness import SESSION_TIMEOUT_S, ClusterBroker, ProcessCluster
from tests.system.cluster.network import CLIENTS, Bridge
from tests.system.cluster.zookeeper import pause, resume
from tests.system.test_full_disk import Ballast

Fault = Callable[[], AbstractContextManager[str]]

SHORT_S = (0.1, SESSION_TIMEOUT_S * 0.6)
"""Shorter than a session: no broker is declared dead."""

LONG_S = (SESSION_TIMEOUT_S * 1.2, SESSION_TIMEOUT_S * 2)
"""Longer than a session: a broker is declared dead, and others take over."""

DISK_FULL_S = (0.3, 1.5)


class Nemesis:
    """The faults of one cluster, by name."""

    def __init__(self, cluster: ProcessCluster, members: GroupMembers, member: Options, rng: random.Random) -> None:
        self.cluster = cluster
        self.members = members
        self.small_disks: dict[int, Path] = {}
        """For each broker: the root of the small file system with its data."""
        self.victims: set[int] = set()
        """Brokers that a fault affects now. The next fault chooses other brokers."""
        self._member = member
        self._members_made = 0
        self._rng = rng
        self._pause = threading.Event()

    def faults(self) -> dict[str, Fault]:
        """All faults that this machine allows."""
        found: dict[str, Fault] = {
            "kill a leader": self.broker_killed,
            "kill the controller": self.controller_killed,
            "stop a broker": self.broker_stopped,
            "pause a broker for long": lambda: self.broker_paused(LONG_S),
            "pause a broker for a moment": lambda: self.broker_paused(SHORT_S),
            "kill all brokers": self.all_brokers_killed,
            "kill zookeeper": self.zookeeper_killed,
            "pause zookeeper for long": lambda: self.zookeeper_paused(LONG_S),
            "kill a member": self.member_killed,
            "pause a member": self.member_paused,
        }
        if self.small_disks:
            found["fill a disk"] = self.disk_filled
        if isinstance(self.cluster.network, Bridge):
            found |= {
                "isolate a broker": self.broker_isolated,
                "cut a broker from zookeeper": lambda: self.zookeeper_out_of_reach(both_ways=True),
                "cut a broker from zookeeper one way": lambda: self.zookeeper_out_of_reach(both_ways=False),
                "cut two brokers apart": lambda: self.brokers_apart(both_ways=True),
                "cut two brokers apart one way": lambda: self.brokers_apart(both_ways=False),
                "cut clients from a broker": self.clients_cut_off,
            }
        return found

    def last(self, between_s: tuple[float, float]) -> None:
        """Let the fault last for a while."""
        self._pause.wait(self._rng.uniform(*between_s))

    # -- processes -------------------------------------------------------------------------------------------------

    @contextmanager
    def broker_killed(self) -> Iterator[str]:
        with self._victim() as broker:
            broker.kill()
            yield f"killed {broker.name}"
            self.last(self._rng.choice((SHORT_S, LONG_S)))
            broker.start()

    @contextmanager
    def controller_killed(self) -> Iterator[str]:
        with self._victim(self.cluster.controller_id) as broker:
            broker.kill()
            yield f"killed {broker.name}, the controller"
            self.last(LONG_S)
            broker.start()

    @contextmanager
    def broker_stopped(self) -> Iterator[str]:
        with self._victim() as broker:
            code = broker.stop()
            assert code == 0, f"{broker.name} ended with {code}:\n{broker.log}"
            yield f"stopped {broker.name}"
            broker.start()

    @contextmanager
    def broker_paused(self, between_s: tuple[float, float]) -> Iterator[str]:
        with self._victim() as broker:
            broker.pause()
            try:
                yield f"froze {broker.name}"
                self.last(between_s)
            finally:
                broker.resume()

    @contextmanager
    def all_brokers_killed(self) -> Iterator[str]:
        for broker in self.cluster.brokers.values():
            broker.kill()
        yield "killed all brokers"
        self.last(SHORT_S)
        self.cluster.start()

    @contextmanager
    def zookeeper_killed(self) -> Iterator[str]:
        server = self._rng.choice(self.cluster.zookeeper.servers)
        server.kill()
        yield "killed ZooKeeper"
        self.last(self._rng.choice((SHORT_S, LONG_S)))
        self.cluster.zookeeper.restart(server)

    @contextmanager
    def zookeeper_paused(self, between_s: tuple[float, float]) -> Iterator[str]:
        server = self._rng.choice(self.cluster.zookeeper.servers)
        pause(server)
        try:
            yield "froze ZooKeeper"
            self.last(between_s)
        finally:
            resume(server)

    # -- links -----------------------------------------------------------------------------------------------------

    @contextmanager
    def broker_isolated(self) -> Iterator[str]:
        with self._victim() as broker:
            others = [one.name for one in self.cluster.brokers.values() if one is not broker]
            links = [(broker.name, other) for other in [*others, *self.cluster.zookeeper.names, CLIENTS]]
            yield from self._cut(f"isolated {broker.name}", links, both_ways=True, between_s=LONG_S)

    @contextmanager
    def zookeeper_out_of_reach(self, *, both_ways: bool) -> Iterator[str]:
        with self._victim() as broker:
            links = [(broker.name, name) for name in self.cluster.zookeeper.names]
            how = "from" if both_ways else "on its way to"
            yield from self._cut(f"cut {broker.name} {how} ZooKeeper", links, both_ways=both_ways, between_s=LONG_S)

    @contextmanager
    def brokers_apart(self, *, both_ways: bool) -> Iterator[str]:
        with self._victim() as one:
            other = self._rng.choice([broker for broker in self.cluster.brokers.values() if broker is not one])
            how = "and" if both_ways else "on its way to"
            links = [(one.name, other.name)]
            yield from self._cut(f"cut {one.name} {how} {other.name}", links, both_ways=both_ways, between_s=LONG_S)

    @contextmanager
    def clients_cut_off(self) -> Iterator[str]:
        with self._victim() as broker:
            yield from self._cut(f"cut clients from {broker.name}", [(CLIENTS, broker.name)], True, SHORT_S)

    def _cut(
        self, what: str, links: list[tuple[str, str]], both_ways: bool, between_s: tuple[float, float]
    ) -> Iterator[str]:
        bridge = self.cluster.network
        assert isinstance(bridge, Bridge)
        try:
            for one, other in links:
                bridge.cut(one, other)
                if both_ways:
                    bridge.cut(other, one)
            yield what
            self.last(between_s)
        finally:
            bridge.heal()

    # -- disks and members -----------------------------------------------------------------------------------------

    @contextmanager
    def disk_filled(self) -> Iterator[str]:
        number, disk = self._rng.choice(sorted(self.small_disks.items()))
        ballast = Ballast(disk)
        ballast.fill()
        try:
            yield f"filled the disk of broker {number}"
            self.last(DISK_FULL_S)
        finally:
            ballast.remove()

    @contextmanager
    def member_killed(self) -> Iterator[str]:
        name = self._rng.choice(sorted(self.members.running))
        self.members.remove(name).kill()
        yield f"killed {name}"
        self.new_member()

    @contextmanager
    def member_paused(self) -> Iterator[str]:
        found = self.members.running[self._rng.choice(sorted(self.members.running))]
        found.pause()
        try:
            yield f"froze {found.name}"
            self.last(SHORT_S)
        finally:
            found.resume()

    def new_member(self) -> None:
        """Start a member, with the two libraries in turn."""
        self._members_made += 1
        client = ("confluent-kafka", "moldau")[self._members_made % 2]
        options = Options(**{**vars(self._member), "client": client, "name": f"{client}-{self._members_made}"})
        self.members.start(options).wait_ready()

    # -- helpers ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _victim(self, number: int | None = None) -> Iterator[ClusterBroker]:
        free = [one for one in sorted(self.cluster.brokers) if one not in self.victims]
        chosen = number if number in free else self._rng.choice(free)
        assert chosen is not None
        self.victims.add(chosen)
        try:
            yield self.cluster.brokers[chosen]
        finally:
            self.victims.discard(chosen)
