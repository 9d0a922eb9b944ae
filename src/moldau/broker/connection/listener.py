"""Listener: a named address that accepts client connections, and the address advertised for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.connection.session import Session, SessionHost
from moldau.cluster.image import Endpoint
from moldau.net.server import bind, gethostname
from moldau.security import ANONYMOUS, Principal

if TYPE_CHECKING:
    import asyncio

    from moldau.settings import BrokerSettings
    from moldau.settings.listeners import ListenerAddress


class Listener:
    __slots__ = ("advertised", "bound", "default_principal", "server")

    def __init__(self, bound: ListenerAddress, advertised: ListenerAddress) -> None:
        self.bound = bound
        self.advertised = advertised
        self.default_principal: Principal = ANONYMOUS
        self.server: asyncio.Server | None = None

    @property
    def name(self) -> str:
        return self.bound.name

    async def bind(self, host: SessionHost, settings: BrokerSettings) -> None:
        """Bind the address, but do not accept connections yet. Raises OSError if it is not available."""
        self.server = await bind(
            lambda: Session(host, self),
            self.bound.host,
            self.bound.port,
            backlog=settings["socket.listen.backlog.size"],
            send_buffer=settings["socket.send.buffer.bytes"],
            receive_buffer=settings["socket.receive.buffer.bytes"],
        )

    async def serve(self) -> None:
        assert self.server is not None
        await self.server.start_serving()

    def endpoint(self) -> Endpoint:
        """The address for clients. Advertised port 0 means the port that was bound."""
        advertised = self.advertised
        host = advertised.host or gethostname()
        return Endpoint(self.name, host, advertised.port or self.port, advertised.protocol)

    @property
    def port(self) -> int:
        """The port in use. It differs from the configured port if that is 0."""
        assert self.server is not None
        return int(self.server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Accept no new connections. Open connections stay open."""
        if self.server is not None:
            self.server.close()
