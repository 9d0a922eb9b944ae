"""Memory limits for unsent responses: per connection, and for all connections together.

A client that does not read keeps its responses in the broker's memory: in the transport's buffer, complete but waiting
for an earlier response, or being read from disk. The broker then takes no further request from it
(`FramedConnection.pause_writing`), but up to `moldau.max.inflight.requests.per.connection` requests have already begun.
Therefore a fetch asks for room before it reads records:

* If its own connection has `PER_CONNECTION_BYTES` of unsent responses, it waits until that connection has sent some.
* If all connections together have `moldau.queued.max.response.bytes`, a connection with unsent responses waits until
  they are sent, and a connection without any gets one batch. It never waits for another connection, because that client
  may never read.

So the memory in use is at most the limit, plus one response per connection that begins below the limit, plus one batch
per further connection. Responses of other APIs count, but do not wait: they are small, or there is one at a time.

A connection whose client reads has no costs here: the transport reports when its buffer is full and when it is not.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

PER_CONNECTION_BYTES: Final = 16 * 1024 * 1024
"""Two fetch responses of the largest size: one that is being sent, and the next."""


class RoomWaiter(Protocol):
    """A request that waits for room for its response."""

    def resume(self) -> None:
        """Ask for room again, and wait again if there is none."""


class ReplyMemory:
    """Bytes of unsent responses of all connections."""

    __slots__ = ("in_use", "limit", "waits")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.in_use = 0
        self.waits = 0
        """How many times a fetch waited for room."""

    @property
    def is_full(self) -> bool:
        return self.in_use >= self.limit


class UnsentReplies:
    """The unsent responses of one connection, and the requests that wait until they are sent."""

    __slots__ = ("_again", "_closed", "_memory", "_stuck", "_waiting", "_waking", "in_use")

    def __init__(self, memory: ReplyMemory) -> None:
        self._memory = memory
        self.in_use = 0
        self._stuck = 0  # the part of it that is in a full transport
        self._waiting: deque[RoomWaiter] = deque()
        self._waking = self._again = self._closed = False

    def has_room(self, *, first: bool) -> bool:
        """Whether a request may read its records. `first`: all earlier requests of its connection are answered.

        The first one ignores complete responses of later requests: they can only be sent after its own.
        """
        if not self.in_use or (first and not self._stuck):
            return True
        return self.in_use < PER_CONNECTION_BYTES and not self._memory.is_full

    def add(self, size: int) -> None:
        """Count `size` more unsent bytes, or fewer if it is negative."""
        if not self._closed:
            self.in_use += size
            self._memory.in_use += size

    def stuck(self, size: int) -> None:
        """Set the number of bytes in the full transport; 0 when it is no longer full."""
        self.add(size - self._stuck)
        self._stuck = size

    def wait(self, request: RoomWaiter) -> None:
        self._memory.waits += 1
        self._waiting.append(request)

    def wake(self) -> None:
        """Resume the waiting requests for which there is room now, after responses were sent or an earlier one was
        completed.

        A resumed request may send its response at once and so call this again. The outer call then does another round.
        Otherwise a hundred requests would be a hundred nested calls.
        """
        self._again = True
        if self._waking:
            return
        self._waking = True
        try:
            while self._waiting and self._again:
                self._again = False
                for _ in range(len(self._waiting)):
                    self._waiting.popleft().resume()
        finally:
            self._waking = False

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def close(self) -> None:
        """The connection is closed: forget its unsent responses and waiting requests."""
        self.add(-self.in_use)
        self._closed = True
        self._waiting.clear()
