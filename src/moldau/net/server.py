"""Listening sockets of a broker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from socket import gethostname

from moldau.host.event_log import event_logger
from moldau.net.sockets import make_socket

__all__ = ["AcceptingServer", "PausableServer", "bind", "bound_socket", "gethostname"]

log = event_logger(__name__)

SYSTEM_DEFAULT = -1
MAX_ACCEPTED_AT_ONCE = 100
"""Connections accepted in one turn of the loop."""
ACCEPT_PAUSE_S = 1.0
"""How long nothing is accepted after the system ran out of files or memory."""


async def bind(
    factory: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    *,
    backlog: int,
    send_buffer: int = SYSTEM_DEFAULT,
    receive_buffer: int = SYSTEM_DEFAULT,
) -> PausableServer:
    """A server for protocols of `factory`, bound to host:port but not yet accepting connections.

    An empty host means every address of the machine. Accepted connections inherit the buffer sizes, which therefore
    must be set before the socket listens.
    """
    loop = asyncio.get_running_loop()
    sock = await bound_socket(host, port, send_buffer=send_buffer, receive_buffer=receive_buffer)
    try:
        create = partial(loop.create_server, factory, backlog=backlog, start_serving=False)
        return PausableServer(lambda one: create(sock=one), await create(sock=sock))
    except OSError as error:
        sock.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error


async def bound_socket(
    host: str, port: int, *, send_buffer: int = SYSTEM_DEFAULT, receive_buffer: int = SYSTEM_DEFAULT
) -> socket.socket:
    """A socket that is bound to host:port, and does not listen yet."""
    loop = asyncio.get_running_loop()
    sock: socket.socket | None = None
    try:
        addresses = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        sock = make_socket(loop, family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if send_buffer != SYSTEM_DEFAULT:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        if receive_buffer != SYSTEM_DEFAULT:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        sock.bind(address)
    except OSError as error:
        if sock is not None:
            sock.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    return sock


class PausableServer:
    """A server of asyncio that may stop to accept connections for a while. New connections then wait in its backlog,
    and the operating system refuses them when that is full."""

    __slots__ = ("_closed", "_create", "_paused", "_server")

    def __init__(self, create: Callable[[socket.socket], Awaitable[asyncio.Server]], server: asyncio.Server) -> None:
        self._create = create
        self._server = server
        self._paused: socket.socket | None = None
        self._closed = False

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return tuple(self._server.sockets) if self._paused is None else (self._paused,)

    async def start_serving(self) -> None:
        await self._server.start_serving()

    def pause(self) -> None:
        """Accept no connection until `resume`. A server of asyncio cannot do that: it is closed, and a duplicate of its
        socket keeps the address and the backlog."""
        if self._paused is None and not self._closed:
            own = self._server.sockets[0]
            self._paused = socket.fromfd(own.fileno(), own.family, own.type)
            self._server.close()

    async def resume(self) -> None:
        paused = self._paused
        if paused is None or paused.fileno() < 0:  # it was closed meanwhile
            return
        server = await self._create(paused)
        if self._closed:
            server.close()
            return
        self._server, self._paused = server, None
        await server.start_serving()

    def close(self) -> None:
        self._closed = True
        self._server.close()
        if self._paused is not None:
            self._paused.close()


class AcceptingServer:
    """A listening socket that hands each accepted connection over as a socket.

    For TLS: asyncio's server would start the handshake before the connection is counted, and with the certificates of
    its own start.
    """

    __slots__ = ("_accept", "_backlog", "_loop", "_paused", "_retry", "_socket")

    def __init__(self, sock: socket.socket, backlog: int, accept: Callable[[socket.socket], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = sock
        self._backlog = backlog
        self._accept = accept
        self._retry: asyncio.TimerHandle | None = None
        self._paused = False

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return (self._socket,)

    async def start_serving(self) -> None:
        self._socket.listen(self._backlog)
        self._loop.add_reader(self._socket.fileno(), self._accept_some)

    def _accept_some(self) -> None:
        for _ in range(MAX_ACCEPTED_AT_ONCE):
            if self._paused:
                return
            try:
                connection, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of files or memory: the socket would report at once that it can accept, again and again.
                log.error("connections not accepted for a while", extra={"reason": error.strerror})
                self._loop.remove_reader(self._socket.fileno())
                self._retry = self._loop.call_later(ACCEPT_PAUSE_S, self._accept_again)
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._accept(connection)

    def _accept_again(self) -> None:
        self._retry = None
        if not self._paused:
            self._loop.add_reader(self._socket.fileno(), self._accept_some)

    def pause(self) -> None:
        """Accept no connection until `resume`. New connections wait in the backlog."""
        if not self._paused and self._socket.fileno() >= 0:
            self._paused = True
            self._loop.remove_reader(self._socket.fileno())

    async def resume(self) -> None:
        if self._paused and self._socket.fileno() >= 0:
            self._paused = False
            if self._retry is None:
                self._loop.add_reader(self._socket.fileno(), self._accept_some)

    def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
