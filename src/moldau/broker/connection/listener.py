"""Listener: a named address that accepts client connections, and the address advertised for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.broker.connection.listener_security import ListenerSecurity
from moldau.broker.connection.sasl_session import SaslSession
from moldau.broker.connection.session import Session, SessionHost
from moldau.broker.connection.tls_acceptor import TlsAcceptor
from moldau.cluster.image import Endpoint
from moldau.net.server import AcceptingServer, bind, bound_socket, gethostname
from moldau.security import ANONYMOUS, Principal
from moldau.settings.listeners import TLS_PROTOCOLS

if TYPE_CHECKING:
    import asyncio

    from moldau.settings import BrokerSettings
    from moldau.settings.listeners import ListenerAddress


class Listener:
    __slots__ = ("_acceptor", "advertised", "bound", "default_principal", "security", "server")

    def __init__(self, bound: ListenerAddress, advertised: ListenerAddress) -> None:
        self.bound = bound
        self.advertised = advertised
        self.default_principal: Principal = ANONYMOUS
        self.security = ListenerSecurity(bound.name, bound.protocol)
        self._acceptor: TlsAcceptor | None = None
        self.server: asyncio.Server | AcceptingServer | None = None

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
        return Session(host, self) if login is None else SaslSession(host, self, login)

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
        """Accept no new connections, and abort handshakes. Open connections stay open."""
        if self.server is not None:
            self.server.close()
        if self._acceptor is not None:
            self._acceptor.abort()
