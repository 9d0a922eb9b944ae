"""TLS handshakes of new connections: counted, limited in time, and logged when they fail.

A connection counts from the moment it is accepted (`Session.accept`), so that half-open handshakes cannot exceed the
limits. The session begins when the handshake is complete.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from moldau.net.tls_alerts import ACCEPTED
from moldau.net.tls_problems import CLOSED, handshake_problem

if TYPE_CHECKING:
    import socket

    from moldau.broker.connection.listener import Listener
    from moldau.broker.connection.session import Session, SessionHost

SHUTDOWN_TIMEOUT_S = 5.0
"""How long a closing connection waits for the peer's closing message."""


class TlsAcceptor:
    """The handshakes of one listener that are under way."""

    __slots__ = ("_host", "_listener", "_tasks")

    def __init__(self, host: SessionHost, listener: Listener) -> None:
        self._host = host
        self._listener = listener
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, sock: socket.socket) -> None:
        """Count a new connection, and begin its handshake."""
        session = self._listener.new_session(self._host)
        try:
            peer = sock.getpeername()
        except OSError:  # it is closed already
            sock.close()
            return
        if not session.accept(peer, sock.close):
            return
        task = self._host.loop.create_task(self._shake_hands(sock, session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def abort(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _shake_hands(self, sock: socket.socket, session: Session) -> None:
        context = self._listener.security.context
        assert context is not None
        complete = False
        ACCEPTED.set(sock)
        try:
            await self._host.loop.connect_accepted_socket(
                lambda: session,
                sock,
                ssl=context,
                ssl_handshake_timeout=self._host.login.timeout_s,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
            complete = True
        except (OSError, EOFError) as error:
            self._host.metrics.failed_authentications += 1
            problem = handshake_problem(error)
            # A health check of a load balancer, or a command that looks whether a broker listens, connects and closes.
            level = logging.INFO if problem == CLOSED else logging.WARNING
            self._host.connections.log_client_error("TLS handshake failed", session, problem, level)
        finally:
            if not complete:
                sock.close()  # for a task that was cancelled before it began; otherwise the transport closes it
                if session.transport is None:
                    self._host.connections.forget(session)
