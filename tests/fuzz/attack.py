"""Attack with malformed frames, sent as fast as the broker takes them, over several connections.

Each connection carries one burst of pipelined frames; then our side is closed. The broker closes its side when it
refuses a frame or has read everything. So the number of open connections is fixed and below the listen queue, and a
connection that never ends is one that the broker has forgotten.
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
"""A connection that sent its all and is not closed by then."""

REPLY_BYTES = 1 << 16


class Forgotten(AssertionError):
    """The broker left connections open that were at their end."""


class Attack:
    def __init__(self, bootstrap: str, frames: Frames, seed: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = host, int(port)
        self._frames = frames
        self._rng = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._open: dict[socket.socket, float] = {}
        self.sent = 0
        """Frames put on the wire; those behind one that ended its connection were never looked at."""
        self.connections = 0

    def send(self, count: int) -> None:
        """Sends at least `count` frames and waits until the broker is done with all of them."""
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
            connection.close()  # it had enough before we were through
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
            raise Forgotten(f"{len(self._open)} connections at their end were not closed in {FORGOTTEN_AFTER_S} s")

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
