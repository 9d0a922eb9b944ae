"""One connection to one broker: requests out, answers in, matched in order.

Answers come in the order of the requests, so what waits is a queue. A request that is not answered by its deadline
ends the connection: nothing behind it could be answered either, and the next attempt deserves a fresh one.

Whoever sends gives a function, `on_reply(view, error)`. It is called exactly once, in the loop, and never from inside
`send`: with the answer's body, or with the error. The view dies with the call; what must live longer is copied.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Final

from moldau.client.own_errors import (
    BrokerUnavailable,
    ClosedError,
    MoldauError,
    NotKafka,
    TimedOut,
    UnsupportedByBroker,
    another,
)
from moldau.net.connect import TLS_RECORDS
from moldau.net.framing import Buffer, FramedConnection, FrameError, FrameMemory
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import WireError
from moldau.wire.header import NEVER, decode_response_header

OnReply = Callable[[memoryview | None, MoldauError | None], None]

MAX_FIRST_ANSWER_BYTES = 1024 * 1024
"""The first answer of a broker, its list of versions, is a few hundred bytes. What claims to be more is not Kafka."""

MAX_ANSWER_BYTES = 2**31 - 1
"""After that an answer may be as large as the protocol allows: the client has asked for it."""

ANSWERS_MEMORY_BYTES = 2**32
"""What all incomplete answers of one client may take together; what they can be at most follows from what it asks."""

MAX_CORRELATION_ID = 2**31 - 1
SHOWN_BYTES = 16

_HEADER: Final = Struct(">ihhih")
_CORRELATION_ID: Final = Struct(">i")
_FLEXIBLE_FROM: Final = {key: NEVER if api.flexible_from is None else api.flexible_from for key, api in APIS.items()}
_TAGGED_FROM: Final = {**_FLEXIBLE_FROM, ApiKey.API_VERSIONS: NEVER}


class _Waiting:
    """A request whose answer is still to come."""

    __slots__ = ("correlation_id", "deadline", "key", "on_reply", "tagged", "version")

    def __init__(
        self, correlation_id: int, key: ApiKey, version: int, tagged: bool, on_reply: OnReply, deadline: float
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


class _Frames(FramedConnection):
    """The socket's side: cuts frames, and tells the connection what happened."""

    __slots__ = ("owner",)

    def __init__(self, memory: FrameMemory, owner: Connection) -> None:
        super().__init__(memory, MAX_FIRST_ANSWER_BYTES)
        self.owner = owner

    def frame_received(self, frame: memoryview) -> None:
        self.owner._answered(frame)

    def closed(self, error: Exception | None) -> None:
        self.owner._lost(error)

    def rejected(self, error: FrameError) -> None:
        self.owner._not_kafka(error)

    # A broker that does not read requests may be waiting for us to read its answers: reading goes on.
    def pause_writing(self) -> None:
        self.owner.writable = False

    def resume_writing(self) -> None:
        self.owner.writable = True

    def _size_at(self, data: memoryview | bytearray, pos: int) -> int:
        (size,) = _CORRELATION_ID.unpack_from(data, pos)
        if not 0 <= size <= self.max_frame_bytes:
            raise PeerBytesError(bytes(data[pos : pos + SHOWN_BYTES]))
        return int(size)


class Connection:
    """A connection to a broker. `net.connect` opens it, `handshake.py` fills in what the broker can do."""

    __slots__ = (
        "_client_id",
        "_correlation_id",
        "_frames",
        "_gone",
        "_loop",
        "_on_lost",
        "_timer",
        "_timer_at",
        "_waiting",
        "failure",
        "finalized_features",
        "last_used",
        "name",
        "node_id",
        "supported_features",
        "versions",
        "writable",
    )

    def __init__(
        self,
        node_id: int,
        name: str,
        client_id: str,
        memory: FrameMemory,
        on_lost: Callable[[Connection], None],
    ) -> None:
        self.node_id = node_id
        self.name = name
        """What messages call the broker: its address, and its id once that is known."""
        self.versions: Mapping[ApiKey, tuple[int, int]] = {}
        self.supported_features: Mapping[str, tuple[int, int]] = {}
        self.finalized_features: Mapping[str, int] = {}
        self.failure: MoldauError | None = None
        """Why nothing can be sent any more; None while it can."""
        self.writable = True
        """False while the broker does not take in what was sent."""
        self._loop = asyncio.get_running_loop()
        self.last_used = self._loop.time()
        self._client_id = client_id.encode()
        self._correlation_id = 0
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._on_lost = on_lost
        self._frames = _Frames(memory, self)
        self._gone: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"Connection({self.name}, in_flight={self.in_flight}, failure={self.failure})"

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

    def established(self, versions: Mapping[ApiKey, tuple[int, int]]) -> None:
        """The broker has introduced itself: from now on answers may be large."""
        self.versions = versions
        self._frames.max_frame_bytes = MAX_ANSWER_BYTES

    def version(self, key: ApiKey, at_most: int | None = None, at_least: int = 0) -> int:
        """The highest version of an API that both sides know, or UnsupportedByBroker.

        A version that its designers may still change is taken only by those who ask for it with `at_most`.
        """
        api = APIS[key]
        if key not in self.versions:
            raise UnsupportedByBroker(
                f"broker {self.name} does not have {api.name}; a newer broker is needed, or one that serves it"
            )
        low, high = self.versions[key]
        ours = api.max_stable_version if at_most is None else min(at_most, api.max_version)
        best = min(high, ours)
        if best < max(low, api.min_version, at_least):
            wanted = f"{max(api.min_version, at_least)} to {ours}"
            raise UnsupportedByBroker(
                f"broker {self.name} has {api.name} in versions {low} to {high}, this needs one of {wanted}; "
                f"the {'broker' if high < ours else 'client'} is too old"
            )
        return best

    def send(
        self,
        key: ApiKey,
        version: int,
        body: Sequence[Buffer],
        on_reply: OnReply,
        deadline: float,
        no_reply: bool = False,
    ) -> None:
        """Send a request. The buffers must not change afterwards: they are kept by reference until they have left.

        `deadline` is when the connection is given up for want of this answer, on the loop's clock. With `no_reply` the
        broker sends none (Produce with acks=0), and `on_reply(None, None)` only says that the request was handed over.
        """
        if self.failure is not None:
            self._loop.call_soon(on_reply, None, another(self.failure))
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

    def close(self, error: MoldauError | None = None) -> None:
        """End the connection; whoever waits for an answer hears the error."""
        if self.failure is None:
            self._end(error or ClosedError(f"the connection to broker {self.name} was closed"))
        transport = self._frames.transport
        if transport is not None:
            transport.abort()

    async def finish(self, error: MoldauError, within_s: float) -> None:
        """End the connection when all that was sent has left, as what nobody acknowledges (acks=0) must; at the latest
        after `within_s`, should the broker not read. Whoever waits for an answer hears the error at once."""
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
            self._not_kafka(PeerBytesError(bytes(frame[:SHOWN_BYTES])))
            return
        head = waiting.popleft()
        start = 4
        if head.tagged:
            try:
                start = 5 if frame[4] == 0 else decode_response_header(frame, head.key, head.version)[1]
            except (IndexError, WireError):
                waiting.appendleft(head)
                self._not_kafka(PeerBytesError(bytes(frame[:SHOWN_BYTES])))
                return
        self.last_used = self._loop.time()
        head.on_reply(frame[start:], None)

    def _lost(self, error: Exception | None) -> None:
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
        if self.failure is None:
            reason = f" ({error})" if error else ""
            if self.versions:
                message = f"broker {self.name} closed the connection{reason}; it may be restarting"
            else:
                message = (
                    f"{self.name} closed the connection before it answered{reason}: it is stopping, or it is a "
                    "listener for TLS, or no Kafka broker; check the port in bootstrap.servers"
                )
            self._end(BrokerUnavailable(message))

    def _not_kafka(self, error: FrameError) -> None:
        start = error.start if isinstance(error, PeerBytesError) else b""
        self.close(NotKafka(describe_peer(self.name, start)))

    def _end(self, error: MoldauError) -> None:
        self.failure = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, deque()
        # Each in a callback of its own: what one of them does or raises is no business of the others.
        for one in waiting:
            self._loop.call_soon(one.on_reply, None, another(error))
        self._on_lost(self)

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
        self.close(
            TimedOut(
                f"broker {self.name} did not answer {APIS[late.key].name} in time; the connection was given up. "
                "It may be overloaded or unreachable; request.timeout.ms is how long is waited"
            )
        )


def describe_peer(name: str, start: bytes) -> str:
    """What it is that speaks there, judged by its first bytes."""
    if start.startswith(b"HTTP/") or start[:4] == b"HTTP":
        return f"{name} speaks HTTP, not Kafka's protocol; check the port in bootstrap.servers"
    if len(start) >= 2 and start[0] in TLS_RECORDS and start[1] == 0x03:
        return tls_port(name)
    return f"{name} does not speak Kafka's protocol (it sent {start!r}); check the port in bootstrap.servers"


def tls_port(name: str) -> str:
    """What to say of a listener for TLS."""
    return (
        f"{name} speaks TLS, and this client spoke plain text; use a PLAINTEXT listener of the broker "
        "(TLS is not there yet)"
    )
