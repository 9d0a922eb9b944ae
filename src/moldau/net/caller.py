"""One connection to a server: requests out, answers in, matched in order. What clients and brokers have in common.

Answers come in the order of the requests, so what waits is a queue. A request that is not answered by its deadline
ends the connection: nothing behind it could be answered either, and the next attempt deserves a fresh one.

Whoever sends gives a function, `on_reply(view, error)`. It is called exactly once, in the loop, and never from inside
`send`: with the answer's body, or with the error. The view dies with the call; what must live longer is copied.

What an end is called (an error for a user to read, or one for a task to retry) is for subclasses to say.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, Generic, TypeVar

from moldau.net.framing import Buffer, FramedConnection, FrameError, FrameMemory
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import WireError
from moldau.wire.header import NEVER, decode_response_header

E = TypeVar("E", bound=Exception)

MAX_CORRELATION_ID = 2**31 - 1
SHOWN_BYTES = 16

_HEADER: Final = Struct(">ihhih")
_CORRELATION_ID: Final = Struct(">i")
_FLEXIBLE_FROM: Final = {key: NEVER if api.flexible_from is None else api.flexible_from for key, api in APIS.items()}
_TAGGED_FROM: Final = {**_FLEXIBLE_FROM, ApiKey.API_VERSIONS: NEVER}


class _Waiting(Generic[E]):
    """A request whose answer is still to come."""

    __slots__ = ("correlation_id", "deadline", "key", "on_reply", "tagged", "version")

    def __init__(
        self,
        correlation_id: int,
        key: ApiKey,
        version: int,
        tagged: bool,
        on_reply: Callable[[memoryview | None, E | None], None],
        deadline: float,
    ) -> None:
        self.correlation_id = correlation_id
        self.key = key
        self.version = version
        self.tagged = tagged
        self.on_reply = on_reply
        self.deadline = deadline


class PeerBytesError(FrameError):
    """A length field that cannot be one, with what came in its place."""

    def __init__(self, start: bytes) -> None:
        super().__init__(f"the peer's bytes {start!r} are no frame")
        self.start = start


class AnswerFrames(FramedConnection):
    """The socket's side: cuts frames, and tells the caller what happened."""

    __slots__ = ("owner",)

    def __init__(self, memory: FrameMemory, max_frame_bytes: int, owner: Caller[Any]) -> None:
        super().__init__(memory, max_frame_bytes)
        self.owner = owner

    def frame_received(self, frame: memoryview) -> None:
        self.owner._answered(frame)

    def closed(self, error: Exception | None) -> None:
        self.owner._lost(error)

    def rejected(self, error: FrameError) -> None:
        self.owner._foreign(error)

    # A server that does not read requests may be waiting for us to read its answers: reading goes on.
    def pause_writing(self) -> None:
        self.owner.writable = False

    def resume_writing(self) -> None:
        self.owner.writable = True

    def _size_at(self, data: memoryview | bytearray, pos: int) -> int:
        (size,) = _CORRELATION_ID.unpack_from(data, pos)
        if not 0 <= size <= self.max_frame_bytes:
            raise PeerBytesError(bytes(data[pos : pos + SHOWN_BYTES]))
        return int(size)


class Caller(ABC, Generic[E]):
    """A connection whose errors are of type `E`. `net.connect` opens its `protocol`."""

    __slots__ = (
        "_client_id",
        "_correlation_id",
        "_frames",
        "_gone",
        "_loop",
        "_timer",
        "_timer_at",
        "_waiting",
        "failure",
        "last_used",
        "name",
        "writable",
    )

    def __init__(self, name: str, client_id: str) -> None:
        self.name = name
        """What messages call the server."""
        self.failure: E | None = None
        """Why nothing can be sent any more; None while it can."""
        self.writable = True
        """False while the server does not take in what was sent."""
        self._loop = asyncio.get_running_loop()
        self.last_used = self._loop.time()
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._waiting: deque[_Waiting[E]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._gone: asyncio.Future[None] | None = None
        self._frames: AnswerFrames

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, in_flight={self.in_flight}, failure={self.failure})"

    # -- what subclasses say ---------------------------------------------------------------------------------------

    @abstractmethod
    def _error_closed(self) -> E:
        """We have closed it ourselves."""

    @abstractmethod
    def _error_lost(self, error: Exception | None) -> E:
        """The other side, or the network, has closed it."""

    @abstractmethod
    def _error_late(self, key: ApiKey) -> E:
        """A request was not answered in time."""

    @abstractmethod
    def _error_foreign(self, start: bytes) -> E:
        """Bytes came that are no answer; `start` is the first of them."""

    @abstractmethod
    def _error_again(self, error: E) -> E:
        """The same error, for one more who waits."""

    def _ended(self) -> None:
        """Nothing can be sent any more; called once."""

    # -- for those who ask -----------------------------------------------------------------------------------------

    @property
    def protocol(self) -> FramedConnection:
        """What asyncio connects."""
        return self._frames

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet."""
        return len(self._waiting)

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.failure is not None

    def send(
        self,
        key: ApiKey,
        version: int,
        body: Sequence[Buffer],
        on_reply: Callable[[memoryview | None, E | None], None],
        deadline: float,
        no_reply: bool = False,
    ) -> None:
        """Send a request. The buffers must not change afterwards: they are kept by reference until they have left.

        `deadline` is when the connection is given up for want of this answer, on the loop's clock. With `no_reply` the
        server sends none (Produce with acks=0), and `on_reply(None, None)` only says that the request was handed over.
        """
        if self.failure is not None:
            self._loop.call_soon(on_reply, None, self._error_again(self.failure))
            return
        self._correlation_id = correlation_id = (self._correlation_id + 1) & MAX_CORRELATION_ID
        client_id = self._client_id
        tags = b"\0" if version >= _FLEXIBLE_FROM[key] else b""
        size = _HEADER.size + len(client_id) + len(tags) + sum(map(len, body))
        header = _HEADER.pack(size - 4, key, version, correlation_id, len(client_id)) + client_id + tags
        self._frames.send((header, *body), size)
        self.last_used = self._loop.time()
        if no_reply:
            self._loop.call_soon(on_reply, None, None)
            return
        self._waiting.append(_Waiting(correlation_id, key, version, version >= _TAGGED_FROM[key], on_reply, deadline))
        if self._timer is None or deadline < self._timer_at:
            self._set_timer(deadline)

    def close(self, error: E | None = None) -> None:
        """End the connection; whoever waits for an answer hears the error."""
        if self.failure is None:
            self._end(error or self._error_closed())
        transport = self._frames.transport
        if transport is not None:
            transport.abort()

    async def finish(self, error: E, within_s: float) -> None:
        """End the connection when all that was sent has left, as what nobody acknowledges (acks=0) must; at the latest
        after `within_s`, should the server not read. Whoever waits for an answer hears the error at once."""
        if self.failure is None:
            self._end(error)
        transport = self._frames.transport
        if transport is None:
            return
        self._gone = self._loop.create_future()
        transport.close()
        try:
            await asyncio.wait([self._gone], timeout=within_s)
        finally:
            self.close()

    # -- what happens on the wire ----------------------------------------------------------------------------------

    def _answered(self, frame: memoryview) -> None:
        waiting = self._waiting
        if not waiting or len(frame) < 4 or _CORRELATION_ID.unpack_from(frame)[0] != waiting[0].correlation_id:
            self._foreign(PeerBytesError(bytes(frame[:SHOWN_BYTES])))
            return
        head = waiting.popleft()
        start = 4
        if head.tagged:
            try:
                start = 5 if frame[4] == 0 else decode_response_header(frame, head.key, head.version)[1]
            except (IndexError, WireError):
                waiting.appendleft(head)
                self._foreign(PeerBytesError(bytes(frame[:SHOWN_BYTES])))
                return
        self.last_used = self._loop.time()
        head.on_reply(frame[start:], None)

    def _lost(self, error: Exception | None) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        if self.failure is None:
            self._end(self._error_lost(error))

    def _foreign(self, error: FrameError) -> None:
        self.close(self._error_foreign(error.start if isinstance(error, PeerBytesError) else b""))

    def _end(self, error: E) -> None:
        self.failure = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, deque()
        # Each in a callback of its own: what one of them does or raises is no business of the others.
        for one in waiting:
            self._loop.call_soon(one.on_reply, None, self._error_again(error))
        self._ended()

    # -- time-outs -------------------------------------------------------------------------------------------------

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        """One timer a connection, set for the earliest deadline when it was set: answers do not touch it."""
        self._timer = None
        if not self._waiting:
            return
        now = self._loop.time()
        first = min(one.deadline for one in self._waiting)
        if first > now:
            self._set_timer(first)
            return
        late = next(one for one in self._waiting if one.deadline == first)
        self.close(self._error_late(late.key))
