"""Listening sockets of a broker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from socket import gethostname

from moldau.net.sockets import make_socket

__all__ = ["bind", "gethostname"]

SYSTEM_DEFAULT = -1


async def bind(
    factory: Callable[[], asyncio.BaseProtocol],
    host: str,
    port: int,
    *,
    backlog: int,
    send_buffer: int = SYSTEM_DEFAULT,
    receive_buffer: int = SYSTEM_DEFAULT,
) -> asyncio.Server:
    """A server for protocols of `factory`, bound to host:port but not yet accepting connections.

    An empty host means every address of the machine. Accepted connections inherit the buffer sizes, which therefore
    must be set before the socket listens.
    """
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
        return await loop.create_server(factory, sock=sock, backlog=backlog, start_serving=False)
    except OSError as error:
        if sock is not None:
            sock.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
