"""EventFollower: the bounded queue between a feed and one connection.

A follower of a shared feed that is too far behind is ended, and can continue at the id of its last event. A follower
with a feed of its own makes the feed wait instead.
"""

from __future__ import annotations

import asyncio
from collections import deque

from moldau.rest.errors import ProxyError
from moldau.rest.follow.events import EventChunk


class FollowEnded(Exception):
    """No more events come. The error says why; None if the proxy stops."""

    def __init__(self, error: ProxyError | None) -> None:
        super().__init__("" if error is None else error.message)
        self.error = error


class EventFollower:
    """One follower. Owned by the event loop."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._chunks: deque[EventChunk] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._ended: FollowEnded | None = None

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def push(self, chunk: EventChunk) -> None:
        """Add events. A follower that has not taken those before is ended; one chunk is always taken."""
        if self._ended is not None or not chunk.events:
            return
        if self._chunks and self._bytes + chunk.size > self._max:
            self._chunks.clear()
            message = f"more than {self._max} bytes wait; the limit is moldau.rest.follower.buffer.bytes"
            self.end(ProxyError(429, 429, f"too slow: {message}. Continue at the id of the last event."))
            return
        self._chunks.append(chunk)
        self._bytes += chunk.size
        self._wake.set()

    async def room(self) -> None:
        """Wait until the follower has taken enough."""
        while self._bytes > self._max // 2 and self._ended is None:
            self._room.clear()
            await self._room.wait()

    async def next(self, timeout_s: float) -> EventChunk | None:
        """The next events; None if there are none in this time. Raises FollowEnded after the last ones."""
        if not self._chunks and self._ended is None:
            self._wake.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wake.wait()
            except TimeoutError:
                return None
        if self._chunks:
            chunk = self._chunks.popleft()
            self._bytes -= chunk.size
            self._room.set()
            return chunk
        assert self._ended is not None
        raise self._ended

    def end(self, error: ProxyError | None) -> None:
        if self._ended is None:
            self._ended = FollowEnded(error)
        self._wake.set()
        self._room.set()
