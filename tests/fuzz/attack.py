"""Attack with malformed frames, sent as fast as the broker takes them, over several connections.

Each connection carries one burst of pipelined frames; then our side is closed. The broker closes its side when it
refuses a frame or has read everything. So the number of open connections is fixed and below the listen queue, and a
connection that never ends was leaked by the broker.
"""

from __future__ import annotations

import random
import selectors
import socket
import time

from tests.fuzz.frames import Frames

CONNECTIONS = 32
MAX_BURST = 12
FORGOTTEN_AFTER_S = 20.0
"""The longest time until the broker closes a connection after the end of its input."""

REPLY_BYTES = 1 << 16


class LeakedConnections(AssertionError):
    """The broker did not close connections that had ended."""


class Attack:
    def __init__(self, bootstrap: str, frames: Frames, seed: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._frames = frames
        self._rng = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._open: dict[socket.socket, float] = {}
        self.sent = 0
        """Frames sent. The broker does not read those after a frame that ended its connection."""
        self.connections = 0

    def send(self, count: int) -> None:
        """Send at least `count` frames and wait until the broker has handled all of them."""
        target = self.sent + count
        while self.sent < target:
            while len(self._open) < CONNECTIONS and self.sent < target:
                self._begin()
            self._reap()
        while self._open:
            self._reap()

    def _begin(self) -> None:
        connection = socket.socket()
        connection.connect(self._address)
        self.connections += 1
        burst = bytearray()
        for _ in range(self._rng.randrange(1, MAX_BURST)):
            frame = next(self._frames)
            burst += frame.data
            self.sent += 1
            if frame.last:
                break
        try:
            connection.sendall(burst)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            connection.close()  # the broker closed the connection before all frames were sent
            return
        self._open[connection] = time.monotonic()
        self._selector.register(connection, selectors.EVENT_READ)

    def _reap(self) -> None:
        ready = self._selector.select(FORGOTTEN_AFTER_S)
        for key, _ in ready:
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if _ended(connection):
                self._close(connection)
        oldest = min(self._open.values(), default=time.monotonic())
        if time.monotonic() - oldest > FORGOTTEN_AFTER_S:
            raise LeakedConnections(
                f"{len(self._open)} connections at their end were not closed in {FORGOTTEN_AFTER_S} s"
            )

    def _close(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._open[connection]
        connection.close()

    def close(self) -> None:
        for connection in list(self._open):
            self._close(connection)
        self._selector.close()


def _ended(connection: socket.socket) -> bool:
    try:
        return not connection.recv(REPLY_BYTES, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
