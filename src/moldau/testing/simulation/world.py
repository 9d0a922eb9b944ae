"""World of a simulation: machines, network, metadata store, brokers, clients and their history.

A world does nothing by itself. `scenario` runs the clients, `nemesis` injects the faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from moldau.cluster.image import EMPTY, PartitionState, PartitionStates
from moldau.cluster.nodes import TopicNode
from moldau.cluster.store import Store
from moldau.testing.simulation.brokers import SimulatedBroker
from moldau.testing.simulation.checkers import Anomaly
from moldau.testing.simulation.clients import COMMON, SimulatedClient
from moldau.testing.simulation.ensemble import SimulatedEnsemble
from moldau.testing.simulation.history import History, Place
from moldau.testing.simulation.loop import SimulatedLoop
from moldau.testing.simulation.machine import Machine, SimulatedProcess
from moldau.testing.simulation.network import SimulatedNetwork
from moldau.testing.simulation.security import SimulatedSecurity
from moldau.testing.simulation.store import SimulatedStore
from moldau.testing.simulation.trace import Trace

LOOK_S = 0.05
"""The interval at which the simulation checks an awaited condition."""

SESSION_TIMEOUT_S = 4.0


class World:
    """All parts of one simulation."""

    def __init__(
        self, loop: SimulatedLoop, seed: int, brokers: int = 3, settings: Mapping[str, str] | None = None
    ) -> None:
        self.loop = loop
        self.seed = seed
        self.random = Random(seed)
        self.trace = Trace(loop)
        self.history = History(self.trace.now_s)
        self.anomalies: list[Anomaly] = []
        """Anomalies found during the run; checkers find more at the end."""
        self.network = SimulatedNetwork(loop, self.random.getrandbits(64), self._changed_buffer)
        self.processes: list[SimulatedProcess] = []
        self.clients: list[SimulatedClient] = []
        self.broker_settings = dict(settings or {})
        self.data: tuple[str, ...] = ("/data",)
        """The data directories of every broker."""
        self.pace_s = 0.4
        """Approximate delay between two actions of a client."""
        self.ensemble = SimulatedEnsemble(self.random.getrandbits(64), SESSION_TIMEOUT_S, lag_s=0.02)
        self.store_machine = self._machine("store", "10.0.2.1")
        self.brokers = [
            SimulatedBroker(self, index, self._machine(f"broker-{index}", f"10.0.0.{index}"))
            for index in range(1, brokers + 1)
        ]
        self.sessions: dict[SimulatedStore, SimulatedProcess] = {}
        self.security: SimulatedSecurity | None = None
        self._client_machines = 0

    def _machine(self, name: str, address: str) -> Machine:
        machine = Machine(name, address, self.loop, self.random.getrandbits(64))
        self.network.add(machine)
        return machine

    def _changed_buffer(self, what: str) -> None:
        self.anomaly("buffer changed on its way", what)

    def anomaly(self, kind: str, what: str) -> None:
        self.anomalies.append(Anomaly(kind, what, self.trace.now_s()))
        self.trace.add("checker", f"ANOMALY: {kind}: {what}")

    def secure(self, seed: int) -> None:
        """From now on brokers and clients log in, and brokers deny what no rule allows."""
        self.security = SimulatedSecurity(seed, self.history)
        self.ensemble.on_commit = self.security.committed

    # -- processes -------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def client_settings(self, user: str) -> dict[str, Any]:
        """How a client connects, as this user if the cluster is secured."""
        login = {} if self.security is None else self.security.client_settings(user)
        return {**COMMON, "bootstrap.servers": self.bootstrap_servers, **login}

    def client_process(self, name: str) -> SimulatedProcess:
        """Start a process on its own machine."""
        self._client_machines += 1
        process = self._machine(name, f"10.0.1.{self._client_machines}").begin(name)
        self.processes.append(process)
        return process

    def begin(self, client: SimulatedClient) -> asyncio.Task[None]:
        self.clients.append(client)
        return self.client_process(client.name).run(client.run())

    async def open_store(self, process: SimulatedProcess) -> Store:
        """Open a store session for a broker's process, over the network."""
        there = self.network.link(process.machine, self.store_machine)
        back = self.network.link(self.store_machine, process.machine)
        session = await self.ensemble.open(there, back, process.soon)
        self.sessions[session] = process
        return session

    def session_of(self, broker: SimulatedBroker) -> SimulatedStore | None:
        """The session of the broker's current process."""
        mine = [
            session for session, process in self.sessions.items() if process is broker.process and not session.ended
        ]
        return mine[-1] if mine else None

    # -- stored state ----------------------------------------------------------------------------------------------

    def partitions(self) -> dict[Place, PartitionState]:
        """The committed state of every partition."""
        states = PartitionStates()
        found: dict[Place, PartitionState] = {}
        for name, node in self.ensemble.servers[0].read_children(TopicNode.folder).items():
            topic = TopicNode.decode(name, node.value, EMPTY, states)
            for index, state in enumerate(topic.partitions):
                found[name, index] = state
        return found

    def may_lose_power(self, broker: SimulatedBroker) -> bool:
        """Whether the durability model still holds if this broker loses power.

        A record is safe while at least one of the replicas that acknowledged it has its bytes. So until a broker that
        lost power is in sync again everywhere, all others must keep their bytes.
        """
        states = self.partitions()
        for other in self.brokers:
            # A broker that does not serve yet may still be in the ISR because of its former records.
            if (
                other.serving
                and not other.machine.broken
                and all(other.node_id in state.isr for state in states.values() if other.node_id in state.replicas)
            ):
                other.may_lack_records = False
        return len(self.brokers) > 1 and not any(
            other.may_lack_records for other in self.brokers if other is not broker
        )

    # -- waiting ---------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition; returns whether it became true in time."""
        deadline = self.loop.time() + timeout_s
        while not condition():
            if self.loop.time() >= deadline:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    def bury(self) -> None:
        """End all processes and close their suspended tasks."""
        for process in self.processes:
            process.end()
        for process in self.processes:
            process.bury()
