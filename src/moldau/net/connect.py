"""Outgoing connections: races the addresses of a host name, each with its own timeout."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from moldau.net.happy_eyeballs import AllFailed, race
from moldau.net.sockets import make_socket

P = TypeVar("P", bound=asyncio.BaseProtocol)

SYSTEM_DEFAULT = -1

TLS_RECORDS = (0x15, 0x16)
"""First byte of a TLS alert or handshake record: a TLS server sends one of these first."""


PROBE_ID = 0x6D6F6C64
"""The correlation id of a probe: a peer that returns it speaks Kafka's protocol."""


class NoSuchHostError(OSError):
    """The host name has no address."""


class TlsHandshakeCut(ConnectionError):
    """The peer accepted the connection, but closed it, or did not answer, during the TLS handshake."""


async def connect(
    factory: Callable[[], P],
    host: str,
    port: int,
    *,
    timeout_s: float,
    send_buffer: int = SYSTEM_DEFAULT,
    receive_buffer: int = SYSTEM_DEFAULT,
    tls: ssl.SSLContext | None = None,
) -> P:
    """A connected protocol created by `factory`. Raises OSError (or its subclass TimeoutError) if no address accepts.

    Each address has `timeout_s`, but the next one starts before that is over: an address that drops packets must not
    use up the time of the others. With `tls` the handshake has `timeout_s` too, and raises ssl.SSLError, or
    TlsHandshakeCut if the peer closes the connection.
    """
    loop = asyncio.get_running_loop()

    async def reach(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
        sock = make_socket(loop, family, kind, protocol)
        try:
            # Set buffers before connecting, because the receive buffer determines the TCP window of the connection.
            _prepare(sock, send_buffer, receive_buffer)
            async with asyncio.timeout(timeout_s):
                await loop.sock_connect(sock, address)
        except BaseException:
            sock.close()
            raise
        return sock

    attempts = [
        partial(reach, family, kind, protocol, address)
        for family, kind, protocol, _, address in await _addresses(host, port, timeout_s)
    ]
    try:
        sock = await race(attempts, losing=OSError, discard=lambda lost: lost.close())
    except AllFailed as lost:
        raise _worst(lost.errors) from None
    try:
        # From here on the transport owns the socket and closes it.
        if tls is None:
            _, connected = await loop.create_connection(factory, sock=sock)
        else:
            # A certificate has no dot at the end of a name.
            _, connected = await loop.create_connection(
                factory, sock=sock, ssl=tls, server_hostname=host.rstrip("."), ssl_handshake_timeout=timeout_s
            )
    except ssl.SSLError:
        sock.close()
        raise
    except ConnectionError as error:
        sock.close()
        if tls is None:
            raise
        raise TlsHandshakeCut(str(error)) from error
    except BaseException:
        sock.close()
        raise
    return connected


async def canonical_names(host: str) -> tuple[str, ...]:
    """The names of the addresses of `host` by reverse lookup; an address without a name stays an address."""
    loop = asyncio.get_running_loop()
    found = []
    for *_, address in await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM):
        name, _ = await loop.getnameinfo((str(address[0]), 0))
        found.append(name)
    return tuple(dict.fromkeys(found))


async def _addresses(host: str, port: int, timeout_s: float) -> Sequence[tuple[int, int, int, str, tuple[object, ...]]]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise NoSuchHostError(error.errno, error.strerror) from error
    except UnicodeError as error:  # an empty or too long label
        raise NoSuchHostError(0, str(error)) from error
    return found


def _prepare(sock: socket.socket, send_buffer: int, receive_buffer: int) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if send_buffer != SYSTEM_DEFAULT:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    if receive_buffer != SYSTEM_DEFAULT:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)


def _worst(errors: list[OSError]) -> OSError:
    """The error to report: any other error says more than a timeout."""
    for error in errors:
        if not isinstance(error, TimeoutError):
            return error
    return errors[0] if errors else NoSuchHostError(0, "the name has no address")


async def speaks_tls(host: str, port: int, timeout_s: float) -> bool:
    """Whether a TLS server listens there: sends a client hello and checks the first bytes of the answer."""
    outgoing = ssl.MemoryBIO()
    greeting = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=host)
    with contextlib.suppress(ssl.SSLWantReadError):
        greeting.do_handshake()
    writer = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(outgoing.read())
            answer = await reader.readexactly(2)
    except (OSError, EOFError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
    return answer[0] in TLS_RECORDS and answer[1] == 0x03


async def speaks_plain_text(host: str, port: int, timeout_s: float) -> bool:
    """Whether a Kafka broker answers there without TLS: sends ApiVersions in version 0, which all brokers know."""
    question = struct.pack(">ihhih", 10, 18, 0, PROBE_ID, -1)
    writer = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(question)
            answer = await reader.readexactly(8)
    except (OSError, EOFError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
    return bool(struct.unpack_from(">i", answer, 4)[0] == PROBE_ID)
