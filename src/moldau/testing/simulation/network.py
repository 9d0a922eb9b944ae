"""The simulated network: connections as pairs of byte pipes, and everything that can happen to packets.

Bytes of one direction of one connection arrive in their order, in pieces of any size, each after a delay of its own;
between connections nothing is ordered. A link (from one machine to another, each way by itself) can be slow or cut.
What is sent over a cut link waits, as TCP would send it again, and arrives when the link is whole. A connection can be
reset at any moment; a process that dies closes its connections, a machine that loses power says nothing.

A transport keeps what it is given to `write` by reference, as uvloop's does, and reads it when it is delivered. It also
remembers what was in it: bytes that changed on the way are reported, because a real network would have sent garbage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any

from moldau.testing.simulation.loop import LIFE, SimulatedLoop
from moldau.testing.simulation.machine import Life, Machine
from moldau.testing.simulation.sockets import Server, SimulatedSocket
from moldau.testing.simulation.transport import Connection, SimulatedTransport

LOOPBACK_S = 2e-5
EPHEMERAL_PORTS = 32_768


class Link:
    """The way from one machine to another."""

    def __init__(self, source: Machine, target: Machine, random: Random, loop: SimulatedLoop) -> None:
        self.source = source
        self.target = target
        self._random = random
        self._loop = loop
        self.base_s = LOOPBACK_S if source is target else 0.0001 + random.random() * 0.0009
        self.jitter_s = self.base_s / 2
        self.slow_s = 0.0
        """What a slow link adds, at most."""
        self._cuts = 0
        self._waiting: list[Callable[[], None]] = []
        self._context = Context()

    @property
    def cut(self) -> bool:
        return self._cuts > 0

    def delay_s(self) -> float:
        """Of the next packet."""
        delay = self.base_s + self.jitter_s * self._random.random()
        return delay + self.slow_s * self._random.random() if self.slow_s else delay

    def carry(self, action: Callable[[], None]) -> None:
        """One packet on its own: `action` happens when it is there."""
        self._loop.call_later(self.delay_s(), self.pass_or_wait, action, context=self._context)

    def pass_or_wait(self, action: Callable[[], None]) -> None:
        """A packet at the end of its way: it arrives, unless the link is cut; then it is sent again later."""
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


class Network:
    """All machines and the links between them."""

    def __init__(self, loop: SimulatedLoop, seed: int, report: Callable[[str], None]) -> None:
        self.loop = loop
        self.random = Random(seed)
        self.report = report
        """Told of what must not happen, in a sentence."""
        self._machines: dict[str, Machine] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._listening: dict[tuple[str, int], Server] = {}
        self._connections: dict[Connection, None] = {}
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

    def connections(self) -> list[Connection]:
        """Those that are open at one end at least."""
        return list(self._connections)

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    # -- the loop's side -------------------------------------------------------------------------------------------

    def address_of(self, host: str | bytes | None) -> str | None:
        if not host:
            return self._here().address
        name = host.decode() if isinstance(host, bytes) else host
        if name in self._machines:
            return name
        return next((one.address for one in self._machines.values() if one.name == name), None)

    def new_socket(self) -> SimulatedSocket:
        return SimulatedSocket(self._here().address)

    def listen(self, sock: SimulatedSocket, factory: Callable[[], asyncio.BaseProtocol]) -> Server:
        if sock.port == 0:
            sock.port = self.free_port()
        server = Server(sock, factory, _running_life(), self._listening)
        server.bind()
        return server

    def free_port(self) -> int:
        self._ports += 1
        return self._ports

    async def connect(self, sock: SimulatedSocket, address: tuple[str, int]) -> None:
        """The handshake: there and back, however long that takes."""
        life = _running_life()
        here, there = life.machine, self._machines[address[0]]
        answered: asyncio.Future[SimulatedTransport | None] = self.loop.create_future()

        def answer(transport: SimulatedTransport | None) -> None:
            if not answered.done():
                answered.set_result(transport)
            elif transport is not None:
                transport.abort()  # whoever asked has given up

        def knock() -> None:
            if not there.up:
                there.on_boot.append(lambda: self.link(here, there).carry(knock))
                return
            server = self._listening.get((there.address, address[1]))
            transport = None
            if server is not None and server.serving and not life.dead:
                transport = self._accept(life, server)
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

    def _accept(self, caller: Life, server: Server) -> SimulatedTransport:
        callee = server.life
        connection = Connection(
            self, caller, (caller.machine.address, self.free_port()), callee, (server.sock.address, server.sock.port)
        )
        self._connections[connection] = None
        callee.soon(server.take, connection.callee)
        return connection.caller

    # -- faults ----------------------------------------------------------------------------------------------------

    def process_died(self, life: Life) -> None:
        """The kernel closes what the process had open."""
        self._stop_listening(life)
        for connection in self.connections():
            for end in (connection.caller, connection.callee):
                if end.life is life:
                    end.owner_died(abruptly=self.random.random() < 0.5)

    def machine_down(self, machine: Machine) -> None:
        """Without a word to anybody."""
        if machine.life is not None:
            self._stop_listening(machine.life)
        for connection in self.connections():
            for end in (connection.caller, connection.callee):
                if end.life.machine is machine:
                    end.vanish()

    def _stop_listening(self, life: Life) -> None:
        for key, server in list(self._listening.items()):
            if server.life is life:
                del self._listening[key]

    def reset(self, connection: Connection) -> None:
        """Something on the way breaks the connection: each end hears of it in its own time."""
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
        return _running_life().machine


def _running_life() -> Life:
    life: Any = LIFE.get()
    if life is None:
        raise RuntimeError("only a process can use the network")
    assert isinstance(life, Life)
    return life
