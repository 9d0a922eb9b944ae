"""Simulated network: connections as pairs of byte pipes, with delays, partitions and resets.

Bytes of one direction of a connection arrive in order, in pieces of any size, each with its own delay. There is no
order between connections. A link (one direction from one machine to another) can be slow or cut. Bytes on a cut link
wait and arrive when the link is repaired, as TCP would retransmit them. A connection can be reset at any time. A
process that dies closes its connections; a machine that loses power sends nothing.

A transport keeps the buffers passed to `write` by reference, as uvloop's does, and reads them on delivery. It also
keeps a copy of the content: a buffer that changed in the meantime is reported, because a real network would have sent
garbage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any

from moldau.testing.simulation.loop import CURRENT_PROCESS, SimulatedLoop
from moldau.testing.simulation.machine import Machine, SimulatedProcess
from moldau.testing.simulation.sockets import SimulatedServer, SimulatedSocket
from moldau.testing.simulation.transport import SimulatedConnection, SimulatedTransport

LOOPBACK_S = 2e-5
EPHEMERAL_PORTS = 32_768


class Link:
    """One direction from one machine to another."""

    def __init__(self, source: Machine, target: Machine, random: Random, loop: SimulatedLoop) -> None:
        self.source = source
        self.target = target
        self._random = random
        self._loop = loop
        self.base_s = LOOPBACK_S if source is target else 0.0001 + random.random() * 0.0009
        self.jitter_s = self.base_s / 2
        self.slow_s = 0.0
        """Maximum additional delay of a slow link."""
        self._cuts = 0
        self._waiting: list[Callable[[], None]] = []
        self._context = Context()

    @property
    def cut(self) -> bool:
        return self._cuts > 0

    def delay_s(self) -> float:
        """The delay of the next packet."""
        delay = self.base_s + self.jitter_s * self._random.random()
        return delay + self.slow_s * self._random.random() if self.slow_s else delay

    def carry(self, action: Callable[[], None]) -> None:
        """Send a single packet: `action` runs when it arrives."""
        self._loop.call_later(self.delay_s(), self.pass_or_wait, action, context=self._context)

    def pass_or_wait(self, action: Callable[[], None]) -> None:
        """Deliver a packet, unless the link is cut; then it waits until the link is repaired."""
        if self._cuts:
            self._waiting.append(action)
        else:
            action()

    def break_off(self) -> None:
        self._cuts += 1

    def mend(self) -> None:
        self._cuts -= 1
        if not self._cuts:
            waiting, self._waiting = self._waiting, []
            for action in waiting:
                self.carry(action)


class SimulatedNetwork:
    """All machines and the links between them."""

    def __init__(self, loop: SimulatedLoop, seed: int, report: Callable[[str], None]) -> None:
        self.loop = loop
        self.random = Random(seed)
        self.report = report
        """Called with a message for each event that must not happen."""
        self._machines: dict[str, Machine] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._listening: dict[tuple[str, int], SimulatedServer] = {}
        self._connections: dict[SimulatedConnection, None] = {}
        self._ports = EPHEMERAL_PORTS
        loop.network = self

    def add(self, machine: Machine) -> None:
        self._machines[machine.address] = machine

    def link(self, source: Machine, target: Machine) -> Link:
        key = (source.address, target.address)
        found = self._links.get(key)
        if found is None:
            found = self._links[key] = Link(source, target, self.random, self.loop)
        return found

    def connections(self) -> list[SimulatedConnection]:
        """The connections that are open on at least one end."""
        return list(self._connections)

    def forget(self, connection: SimulatedConnection) -> None:
        self._connections.pop(connection, None)

    # -- called by the loop ----------------------------------------------------------------------------------------

    def address_of(self, host: str | bytes | None) -> str | None:
        if not host:
            return self._here().address
        name = host.decode() if isinstance(host, bytes) else host
        if name in self._machines:
            return name
        return next((one.address for one in self._machines.values() if one.name == name), None)

    def new_socket(self) -> SimulatedSocket:
        return SimulatedSocket(self._here().address)

    def listen(self, sock: SimulatedSocket, factory: Callable[[], asyncio.BaseProtocol]) -> SimulatedServer:
        if sock.port == 0:
            sock.port = self.free_port()
        server = SimulatedServer(sock, factory, _running_process(), self._listening)
        server.bind()
        return server

    def free_port(self) -> int:
        self._ports += 1
        return self._ports

    async def connect(self, sock: SimulatedSocket, address: tuple[str, int]) -> None:
        """Do the handshake: there and back, however long that takes."""
        process = _running_process()
        here, there = process.machine, self._machines[address[0]]
        answered: asyncio.Future[SimulatedTransport | None] = self.loop.create_future()

        def answer(transport: SimulatedTransport | None) -> None:
            if not answered.done():
                answered.set_result(transport)
            elif transport is not None:
                transport.abort()  # the caller has given up

        def knock() -> None:
            if not there.up:
                there.on_boot.append(lambda: self.link(here, there).carry(knock))
                return
            server = self._listening.get((there.address, address[1]))
            transport = None
            if server is not None and server.serving and not process.dead:
                transport = self._accept(process, server)
            self.link(there, here).carry(lambda: answer(transport))

        self.link(here, there).carry(knock)
        made = await answered
        if made is None:
            raise ConnectionRefusedError(111, "Connection refused", "{}:{}".format(*address))
        sock.transport = made

    async def established(self, sock: SimulatedSocket, protocol: asyncio.BaseProtocol) -> SimulatedTransport:
        transport = sock.transport
        assert transport is not None
        transport.open(protocol)
        return transport

    def _accept(self, caller: SimulatedProcess, server: SimulatedServer) -> SimulatedTransport:
        callee = server.process
        connection = SimulatedConnection(
            self, caller, (caller.machine.address, self.free_port()), callee, (server.sock.address, server.sock.port)
        )
        self._connections[connection] = None
        callee.soon(server.take, connection.callee)
        return connection.caller

    # -- faults ----------------------------------------------------------------------------------------------------

    def process_died(self, process: SimulatedProcess) -> None:
        """Close the connections of a dead process, as the kernel does."""
        self._stop_listening(process)
        for connection in self.connections():
            for end in (connection.caller, connection.callee):
                if end.process is process:
                    end.owner_died(abruptly=self.random.random() < 0.5)

    def machine_down(self, machine: Machine) -> None:
        """Drop the connections of a machine without notice to the peers."""
        if machine.process is not None:
            self._stop_listening(machine.process)
        for connection in self.connections():
            for end in (connection.caller, connection.callee):
                if end.process.machine is machine:
                    end.vanish()

    def _stop_listening(self, process: SimulatedProcess) -> None:
        for key, server in list(self._listening.items()):
            if server.process is process:
                del self._listening[key]

    def reset(self, connection: SimulatedConnection) -> None:
        """Break a connection in the network: each end notices it after its own delay."""
        for end in (connection.caller, connection.callee):
            delay = self.random.random() * 0.01
            self.loop.call_later(
                delay, end.lose, ConnectionResetError(104, "Connection reset by peer"), context=Context()
            )

    def cut(self, source: Machine, target: Machine) -> None:
        self.link(source, target).break_off()

    def mend(self, source: Machine, target: Machine) -> None:
        self.link(source, target).mend()

    def _here(self) -> Machine:
        return _running_process().machine


def _running_process() -> SimulatedProcess:
    process: Any = CURRENT_PROCESS.get()
    if process is None:
        raise RuntimeError("only a process can use the network")
    assert isinstance(process, SimulatedProcess)
    return process
