"""Listener: a named address that accepts client connections, and the address advertised for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.broker.connection.listener_security import ListenerSecurity
from moldau.broker.connection.login_session import LoginSession
from moldau.broker.connection.session import Session, SessionHost
from moldau.broker.connection.tls_acceptor import TlsAcceptor
from moldau.cluster.image import Endpoint
from moldau.net.server import AcceptingServer, PausableServer, bind, bound_socket, gethostname
from moldau.security import ANONYMOUS, Principal
from moldau.settings.listeners import TLS_PROTOCOLS

if TYPE_CHECKING:
    from moldau.settings import BrokerSettings
    from moldau.settings.listeners import ListenerAddress


class Listener:
    __slots__ = (
        "_acceptor",
        "_resumption",
        "_resumption_at",
        "advertised",
        "bound",
        "default_principal",
        "security",
        "server",
    )

    def __init__(self, bound: ListenerAddress, advertised: ListenerAddress) -> None:
        self.bound = bound
        self.advertised = advertised
        self.default_principal: Principal = ANONYMOUS
        self.security = ListenerSecurity(bound.name, bound.protocol)
        self._acceptor: TlsAcceptor | None = None
        self.server: PausableServer | AcceptingServer | None = None
        self._resumption: asyncio.Task[None] | None = None
        self._resumption_at = 0.0

    @property
    def name(self) -> str:
        return self.bound.name

    async def bind(self, host: SessionHost, settings: BrokerSettings) -> None:
        """Bind the address, but do not accept connections yet. Raises OSError if it is not available."""
        bound, backlog = self.bound, settings["socket.listen.backlog.size"]
        send_buffer: int = settings["socket.send.buffer.bytes"]
        receive_buffer: int = settings["socket.receive.buffer.bytes"]
        if bound.protocol in TLS_PROTOCOLS:
            sock = await bound_socket(bound.host, bound.port, send_buffer=send_buffer, receive_buffer=receive_buffer)
            self._acceptor = TlsAcceptor(host, self)
            self.server = AcceptingServer(sock, backlog, self._acceptor.accept)
            return
        self.server = await bind(
            lambda: self.new_session(host),
            bound.host,
            bound.port,
            backlog=backlog,
            send_buffer=send_buffer,
            receive_buffer=receive_buffer,
        )

    def new_session(self, host: SessionHost) -> Session:
        """A session for a new connection, with the logins that are configured now."""
        login = self.security.login
        return Session(host, self) if login is None else LoginSession(host, self, login)

    async def serve(self) -> None:
        assert self.server is not None
        await self.server.start_serving()

    def pause(self, seconds: float) -> None:
        """Accept no new connection for this time. A longer pause replaces a shorter one."""
        assert self.server is not None
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if until <= self._resumption_at:
            return
        self._resumption_at = until
        self.server.pause()
        if self._resumption is not None:
            self._resumption.cancel()
        self._resumption = loop.create_task(_resume(self.server, seconds))

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
        """Accept no new connections, and abort handshakes. Open connections stay open."""
        if self._resumption is not None:
            self._resumption.cancel()
        if self.server is not None:
            self.server.close()
        if self._acceptor is not None:
            self._acceptor.abort()


async def _resume(server: PausableServer | AcceptingServer, after_s: float) -> None:
    await asyncio.sleep(after_s)
    await server.resume()
