"""Simulated sockets and servers, as `moldau.net` uses them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.testing.simulation.machine import SimulatedProcess
    from moldau.testing.simulation.transport import SimulatedTransport


class SimulatedSocket:
    """An address, and later the transport of its connection. Socket options are accepted and ignored."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.port = 0
        self.transport: SimulatedTransport | None = None

    def setsockopt(self, *_: object) -> None: ...

    def setblocking(self, flag: bool) -> None: ...

    def bind(self, address: tuple[str, int]) -> None:
        self.address, self.port = address[0], address[1]

    def getsockname(self) -> tuple[str, int]:
        return self.address, self.port

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class SimulatedServer:
    """A listening socket. Replaces asyncio's Server."""

    def __init__(
        self,
        sock: SimulatedSocket,
        factory: Callable[[], asyncio.BaseProtocol],
        process: SimulatedProcess,
        listening: dict[tuple[str, int], SimulatedServer],
    ) -> None:
        self.sock = sock
        self.process = process
        self.serving = False
        self._factory = factory
        self._listening = listening

    @property
    def sockets(self) -> tuple[SimulatedSocket, ...]:
        return (self.sock,)

    def bind(self) -> None:
        key = self.sock.getsockname()
        if key in self._listening:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._listening[key] = self

    async def start_serving(self) -> None:
        self.serving = True

    def is_serving(self) -> bool:
        return self.serving

    def close(self) -> None:
        self.serving = False
        if self._listening.get(self.sock.getsockname()) is self:
            del self._listening[self.sock.getsockname()]

    async def wait_closed(self) -> None: ...

    def take(self, transport: SimulatedTransport) -> None:
        """Accept a connection. Runs in the server's process."""
        if self.serving:
            transport.open(self._factory())
        else:
            transport.abort()
