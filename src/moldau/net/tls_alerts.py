"""TLS alerts of failed handshakes: tell a client why its certificate is refused.

OpenSSL writes an alert when a handshake fails. The event loops of asyncio and uvloop close the connection and do not
send it. The client then sees a closed connection, takes it for a broker that restarts, and tries again. The context of
this module sends the alert itself, directly to the socket. It does not wait: if the buffer of the socket is full, or
the connection is reset, the alert is lost.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from contextvars import ContextVar
from typing import Any

ACCEPTED: ContextVar[socket.socket | None] = ContextVar("accepted", default=None)
"""The socket whose handshake begins in this task. The loop copies it to the callbacks of the connection."""


class AlertingObject(ssl.SSLObject):
    """One end of a TLS connection that sends the alert of its failed handshake."""

    outgoing: ssl.MemoryBIO
    accepted: socket.socket | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            self._send_alert()
            raise
        self.accepted = None  # the transport owns the socket now

    def _send_alert(self) -> None:
        alert = self.outgoing.read()
        if alert and self.accepted is not None:
            with contextlib.suppress(OSError):
                self.accepted.send(alert)


class AlertingContext(ssl.SSLContext):
    """Context of a listener."""

    sslobject_class = AlertingObject

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **options: Any) -> Any:
        made = super().wrap_bio(incoming, outgoing, *arguments, **options)
        assert isinstance(made, AlertingObject)
        made.outgoing, made.accepted = outgoing, ACCEPTED.get()
        return made
