"""A named address that clients connect to, with the protocol they speak there and the address we tell them to use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.session import Session
from moldau.cluster.image import Endpoint
from moldau.net.server import bind, gethostname
from moldau.security import ANONYMOUS, Principal

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.broker import Broker
    from moldau.settings.listeners import ListenerAddress


class Listener:
    __slots__ = ("advertised", "bound", "broker", "default_principal", "server")

    def __init__(self, broker: Broker, bound: ListenerAddress, advertised: ListenerAddress) -> None:
        self.broker = broker
        self.bound = bound
        self.advertised = advertised
        self.default_principal: Principal = ANONYMOUS
        self.server: asyncio.Server | None = None

    @property
    def name(self) -> str:
        return self.bound.name

    async def bind(self) -> None:
        """Take the address, without accepting yet. Raises OSError where it cannot be had."""
        settings = self.broker.settings
        self.server = await bind(
            lambda: Session(self.broker, self),
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
        """What clients are told. Port 0 stands for the one that was bound."""
        advertised = self.advertised
        host = advertised.host or gethostname()
        return Endpoint(self.name, host, advertised.port or self.port, advertised.protocol)

    @property
    def port(self) -> int:
        """The port in use; differs from the configured one where that is 0."""
        assert self.server is not None
        return int(self.server.sockets[0].getsockname()[1])

    def stop(self) -> None:
        """Take no new connection; those that are open stay."""
        if self.server is not None:
            self.server.close()
