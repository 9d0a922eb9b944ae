"""Client side of a connection: sends requests and matches responses in order. Used by clients and brokers.

Responses come in the order of the requests, so the waiting requests are a queue. A request without a response at its
deadline ends the connection: no later request could be answered either, and the next attempt needs a new connection.

The caller of `send` passes a function `on_reply(view, error)`. It is called exactly once, on the event loop, and never
from inside `send`: with the body of the response, or with the error. The view is valid only during the call; the
function must copy what it keeps.

Subclasses define the errors: those that a user reads, or those that make a task retry.
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
    """A request that waits for its response."""

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


LOGIN_APIS: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)

_Held = tuple[ApiKey, int, Sequence[Buffer], Callable[[memoryview | None, E | None], None], float, bool]
"""The arguments of `send`."""


class PeerBytesError(FrameError):
    """Bytes that cannot be the length of a frame."""

    def __init__(self, start: bytes) -> None:
        super().__init__(f"the peer sent {start!r}, which is not a frame")
        self.start = start


class AnswerFrames(FramedConnection):
    """The protocol of the connection: splits the bytes into frames and reports events to the caller."""

    __slots__ = ("owner",)

    def __init__(self, memory: FrameMemory, max_frame_bytes: int, owner: RequestPipeline[Any]) -> None:
        super().__init__(memory, max_frame_bytes)
        self.owner = owner

    def frame_received(self, frame: memoryview) -> None:
        self.owner._answered(frame)

    def closed(self, error: Exception | None) -> None:
        self.owner._lost(error)

    def rejected(self, error: FrameError) -> None:
        self.owner._foreign(error)

    # Keep reading: a server that does not read requests may be waiting until its responses are read.
    def pause_writing(self) -> None:
        self.owner.writable = False

    def resume_writing(self) -> None:
        self.owner.writable = True

    def _size_at(self, data: memoryview | bytearray, pos: int) -> int:
        (size,) = _CORRELATION_ID.unpack_from(data, pos)
        if not 0 <= size <= self.max_frame_bytes:
            raise PeerBytesError(bytes(data[pos : pos + SHOWN_BYTES]))
        return int(size)


class RequestPipeline(ABC, Generic[E]):
    """A connection whose errors are of type `E`. `net.connect` connects its `protocol`."""

    __slots__ = (
        "_client_id",
        "_correlation_id",
        "_frames",
        "_gone",
        "_held",
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
        """The name of the server in messages."""
        self.failure: E | None = None
        """The reason why nothing can be sent any more; None while the connection is open."""
        self.writable = True
        """False while the server does not read what was sent."""
        self._loop = asyncio.get_running_loop()
        self.last_used = self._loop.time()
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._waiting: deque[_Waiting[E]] = deque()
        self._held: deque[_Held[E]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._gone: asyncio.Future[None] | None = None
        self._frames: AnswerFrames

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, in_flight={self.in_flight}, failure={self.failure})"

    # -- errors, defined by subclasses ------------------------------------------------------------------------------

    @abstractmethod
    def _error_closed(self) -> E:
        """The error if this side closed the connection."""

    @abstractmethod
    def _error_lost(self, error: Exception | None) -> E:
        """The error if the peer or the network closed the connection."""

    @abstractmethod
    def _error_late(self, key: ApiKey) -> E:
        """The error if a request was not answered in time."""

    @abstractmethod
    def _error_foreign(self, start: bytes) -> E:
        """The error if the peer sent bytes that are not a response; `start` holds the first ones."""

    @abstractmethod
    def _error_again(self, error: E) -> E:
        """A copy of the error for another waiting request."""

    def _ended(self) -> None:
        """Called once, when nothing can be sent any more."""

    # -- sending and closing ---------------------------------------------------------------------------------------

    @property
    def protocol(self) -> FramedConnection:
        """The asyncio protocol to connect."""
        return self._frames

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._waiting) + (len(self._held) if self._held is not None else 0)

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
        """Send a request. The buffers must not change afterwards: they are kept by reference until they are sent.

        At `deadline`, on the event loop's clock, the connection is closed if this response is missing. With `no_reply`
        the server sends no response (Produce with acks=0); `on_reply(None, None)` only tells that the request was
        passed on.
        """
        if self.failure is not None:
            self._loop.call_soon(on_reply, None, self._error_again(self.failure))
            return
        if self._held is not None and key not in LOGIN_APIS:
            self._held.append((key, version, body, on_reply, deadline, no_reply))
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

    def hold_requests(self) -> None:
        """Keep all requests until `release_requests`, except those of a login: none may come between its steps."""
        if self._held is None:
            self._held = deque()

    def release_requests(self) -> None:
        """Send the kept requests, in their order."""
        held, self._held = self._held, None
        for one in held or ():
            self.send(*one)

    @property
    def last_deadline(self) -> float:
        """The latest deadline of the requests in flight; the current time if there are none."""
        return max((one.deadline for one in self._waiting), default=self._loop.time())

    def close(self, error: E | None = None) -> None:
        """Close the connection; all waiting requests get the error."""
        if self.failure is None:
            self._end(error or self._error_closed())
        transport = self._frames.transport
        if transport is not None:
            transport.abort()

    async def finish(self, error: E, within_s: float) -> None:
        """Close the connection after all sent bytes have left, which requests without a response (acks=0) need.

        Closes after `within_s` even if the server does not read. All waiting requests get the error at once.
        """
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

    # -- events of the connection ----------------------------------------------------------------------------------

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
        # Each in its own callback, so that an exception in one of them does not affect the others.
        for one in waiting:
            self._loop.call_soon(one.on_reply, None, self._error_again(error))
        self.release_requests()  # each of them fails with the same error
        self._ended()

    # -- timeouts --------------------------------------------------------------------------------------------------

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._check_deadlines)

    def _check_deadlines(self) -> None:
        """Check the deadlines. One timer per connection is set for the earliest deadline; responses do not reset it."""
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
