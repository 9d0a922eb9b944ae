"""A broker's connection to another broker: `await exchange.ask(request, version)` gives the response, or ExchangeLost.

Any number of requests may be under way, and are answered in order. There is no talk about versions first: brokers of a
cluster are of one version, or of neighbours that know each other's. Who asks again, and where, is for others to decide.

Records are not copied on their way: an answer of more than one read is received into memory of its own, and a
response's record views point into it for as long as somebody holds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from moldau.net.caller import AnswerFrames, Caller
from moldau.net.connect import connect
from moldau.net.framing import Buffer, FrameMemory
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import WireError
from moldau.wire.message import Request

MAX_ANSWER_BYTES = 1 << 30
"""The largest answer that is taken: a Fetch may be over its bounds by one batch, and a batch may be large."""

AT_ONCE_BYTES = 16 << 20
"""Memory for an answer of up to this size is made in one piece when its length is known, without growing: a follower
asks for 10 MB (replica.fetch.response.max.bytes). What claims to be larger must send that much first."""

FIRST_READ_BYTES = 64 * 1024
"""What followers read before they know how large an answer is: only this much of a large one is copied from the buffer
that all connections share. With less, answers of some small batches would take a second read."""

ANSWERS_MEMORY_BYTES = 1 << 32
"""What all incomplete answers of a broker's peers may take together; what they can be follows from what it asks."""


class ExchangeLost(OSError):
    """The connection could not be made, broke, or was given up: nobody knows what became of the requests on it."""


class _Frames(AnswerFrames):
    """Frames whose memory may live on."""

    __slots__ = ("owned",)

    growth_bytes = AT_ONCE_BYTES

    def __init__(self, memory: FrameMemory, max_frame_bytes: int, owner: Caller[Any]) -> None:
        super().__init__(memory, max_frame_bytes, owner)
        self.owned = False

    def own_frame_received(self, buffer: bytearray, frame: memoryview) -> None:
        self.owned = True
        self.frame_received(frame)
        self.owned = False


class Exchange(Caller[ExchangeLost]):
    """One connection; made by `open_exchange`."""

    __slots__ = ("_kept", "_timeout_s", "on_end")

    def __init__(self, name: str, client_id: str, *, memory: FrameMemory, timeout_s: float) -> None:
        super().__init__(name, client_id)
        self._timeout_s = timeout_s
        self._frames = self._kept = _Frames(memory, MAX_ANSWER_BYTES, self)
        self.on_end: Callable[[], None] = lambda: None
        """Called once, when nothing can be asked any more."""

    async def ask(self, request: Request, version: int, *, timeout_s: float | None = None) -> Any:
        """The response. Raises ExchangeLost. Without `timeout_s` the exchange's own time-out is meant.

        Whoever stops waiting leaves the request under way: its answer is taken in its turn, and dropped.
        """
        return await self.asking(request, version, timeout_s=timeout_s)

    def asking(self, request: Request, version: int, *, timeout_s: float | None = None) -> asyncio.Future[Any]:
        """As `ask`; at return the request has been handed over."""
        loop = self._loop
        key = ApiKey(request.API_KEY)
        response: asyncio.Future[Any] = loop.create_future()

        def on_reply(view: memoryview | None, error: ExchangeLost | None) -> None:
            if response.done():
                return
            if view is None:
                assert error is not None
                response.set_exception(error)
                return
            try:
                response.set_result(self._decode(key, version, view))
            except WireError as problem:
                lost = ExchangeLost(f"broker {self.name} answered {APIS[key].name} with something else: {problem}")
                response.set_exception(lost)
                self.close(lost)

        body: tuple[Buffer, ...] = (request.encode(version),)
        self.send(key, version, body, on_reply, loop.time() + (self._timeout_s if timeout_s is None else timeout_s))
        return response

    def _decode(self, key: ApiKey, version: int, view: memoryview) -> Any:
        kind = APIS[key].response_type()
        if kind.HAS_RECORDS and not self._kept.owned:
            view = memoryview(bytes(view))  # it came in the buffer that all connections share
        return kind.decode(view, version)

    # -- what ends are called --------------------------------------------------------------------------------------

    def _error_closed(self) -> ExchangeLost:
        return ExchangeLost(f"the connection to broker {self.name} was closed")

    def _error_lost(self, error: Exception | None) -> ExchangeLost:
        return ExchangeLost(f"broker {self.name} closed the connection" + (f" ({error})" if error else ""))

    def _error_late(self, key: ApiKey) -> ExchangeLost:
        return ExchangeLost(f"broker {self.name} did not answer {APIS[key].name} in time")

    def _error_foreign(self, start: bytes) -> ExchangeLost:
        return ExchangeLost(f"{self.name} does not answer as a broker does (it sent {start!r})")

    def _error_again(self, error: ExchangeLost) -> ExchangeLost:
        return ExchangeLost(str(error))

    def _ended(self) -> None:
        self.on_end()


async def open_exchange(
    host: str, port: int, client_id: str, *, timeout_s: float, memory: FrameMemory, name: str | None = None
) -> Exchange:
    """A connection to a broker, made within `timeout_s`, which is also how long its answers may take.

    `memory` is shared by all exchanges of a loop. Raises ExchangeLost.
    """
    exchange = Exchange(name or f"{host}:{port}", client_id, memory=memory, timeout_s=timeout_s)
    try:
        await connect(lambda: exchange.protocol, host, port, timeout_s=timeout_s)
    except OSError as error:
        raise ExchangeLost(f"broker {exchange.name} cannot be reached: {error}") from error
    return exchange
