"""Connection between brokers: `await exchange.ask(request, version)` returns the response.

Raises ExchangeLost if the connection fails. Any number of requests may be in flight; they are answered in order.
Versions are not negotiated: the brokers of a cluster have the same version, or neighbouring versions that know each
other's. Retries are up to the caller.

Records are not copied: a response that takes more than one read is received into its own buffer, and the record views
of the response point into it and keep it alive.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from moldau.net.client_logins import LoginSource
from moldau.net.client_session import ClientSession
from moldau.net.connect import connect
from moldau.net.framing import Buffer, FrameMemory
from moldau.net.request_pipeline import AnswerFrames, RequestPipeline
from moldau.net.tls_errors import tls_problem
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import WireError
from moldau.wire.message import Request

MAX_ANSWER_BYTES = 1 << 30
"""The size limit of a response: a Fetch may exceed its limits by one batch, and a batch may be large."""

AT_ONCE_BYTES = 16 << 20
"""The buffer for a response up to this size is allocated at once when the length is known: a follower fetches 10 MB
(replica.fetch.response.max.bytes). For a larger one, memory grows only with the bytes that arrive."""

FIRST_READ_BYTES = 64 * 1024
"""The size of the first read, before the size of a response is known. Only this much of a large response is copied from
the shared buffer. With less, responses with a few small batches would need a second read."""

ANSWERS_MEMORY_BYTES = 1 << 32
"""The limit for all incomplete responses of a broker's peers; their sizes follow from the broker's requests."""


class PeerConnectionLost(OSError):
    """The connection failed or was closed: it is unknown whether the requests in flight were executed."""


class _Frames(AnswerFrames):
    """Frames whose buffers may outlive the callback."""

    __slots__ = ("owned",)

    growth_bytes = AT_ONCE_BYTES

    def __init__(self, memory: FrameMemory, max_frame_bytes: int, owner: RequestPipeline[Any]) -> None:
        super().__init__(memory, max_frame_bytes, owner)
        self.owned = False

    def own_frame_received(self, buffer: bytearray, frame: memoryview) -> None:
        self.owned = True
        self.frame_received(frame)
        self.owned = False


class PeerConnection(RequestPipeline[PeerConnectionLost]):
    """One connection; created by `open_peer_connection`."""

    __slots__ = ("_kept", "_session", "_timeout_s", "on_end")

    def __init__(self, name: str, client_id: str, *, memory: FrameMemory, timeout_s: float) -> None:
        super().__init__(name, client_id)
        self._timeout_s = timeout_s
        self._frames = self._kept = _Frames(memory, MAX_ANSWER_BYTES, self)
        self._session: ClientSession | None = None
        self.on_end: Callable[[], None] = lambda: None
        """Called once, when no more requests can be sent."""

    async def log_in(self, login: LoginSource, random: Callable[[], float]) -> None:
        """Log in, and again before each session ends. Raises PeerConnectionLost."""
        self._session = ClientSession(
            self,
            login,
            timeout_s=self._timeout_s,
            random=random,
            error_of=lambda error: PeerConnectionLost(str(error)),
        )
        await self._session.begin(self._loop.time() + self._timeout_s)

    async def ask(self, request: Request, version: int, *, timeout_s: float | None = None) -> Any:
        """Send a request and return its response. Raises ExchangeLost. `timeout_s` defaults to that of the exchange.

        If the caller is cancelled, the request stays in flight: its response is read in its turn, and dropped.
        """
        return await self.asking(request, version, timeout_s=timeout_s)

    def asking(self, request: Request, version: int, *, timeout_s: float | None = None) -> asyncio.Future[Any]:
        """Like `ask`, as a future; the request has been handed over when this returns."""
        loop = self._loop
        key = ApiKey(request.API_KEY)
        response: asyncio.Future[Any] = loop.create_future()

        def on_reply(view: memoryview | None, error: PeerConnectionLost | None) -> None:
            if response.done():
                return
            if view is None:
                assert error is not None
                response.set_exception(error)
                return
            try:
                response.set_result(self._decode(key, version, view))
            except WireError as problem:
                lost = PeerConnectionLost(
                    f"broker {self.name} answered {APIS[key].name} with something else: {problem}"
                )
                response.set_exception(lost)
                self.close(lost)

        body: tuple[Buffer, ...] = (request.encode(version),)
        self.send(key, version, body, on_reply, loop.time() + (self._timeout_s if timeout_s is None else timeout_s))
        return response

    def _decode(self, key: ApiKey, version: int, view: memoryview) -> Any:
        kind = APIS[key].response_type()
        if kind.HAS_RECORDS and not self._kept.owned:
            view = memoryview(bytes(view))  # it is in the buffer that all connections share
        return kind.decode(view, version)

    # -- errors ----------------------------------------------------------------------------------------------------

    def _error_closed(self) -> PeerConnectionLost:
        return PeerConnectionLost(f"the connection to broker {self.name} was closed")

    def _error_lost(self, error: Exception | None) -> PeerConnectionLost:
        return PeerConnectionLost(f"broker {self.name} closed the connection" + (f" ({error})" if error else ""))

    def _error_late(self, key: ApiKey) -> PeerConnectionLost:
        return PeerConnectionLost(f"broker {self.name} did not answer {APIS[key].name} in time")

    def _error_foreign(self, start: bytes) -> PeerConnectionLost:
        return PeerConnectionLost(f"{self.name} does not answer like a broker (it sent {start!r})")

    def _error_again(self, error: PeerConnectionLost) -> PeerConnectionLost:
        return PeerConnectionLost(str(error))

    def _ended(self) -> None:
        if self._session is not None:
            self._session.end()
        self.on_end()


async def open_peer_connection(
    host: str,
    port: int,
    client_id: str,
    *,
    timeout_s: float,
    memory: FrameMemory,
    name: str | None = None,
    tls: ssl.SSLContext | None = None,
    login: LoginSource | None = None,
    random: Callable[[], float] = lambda: 0.5,
) -> PeerConnection:
    """Connect to a broker within `timeout_s`, which is also the default timeout of its responses.

    All exchanges of an event loop share `memory`. Raises ExchangeLost.
    """
    exchange = PeerConnection(name or f"{host}:{port}", client_id, memory=memory, timeout_s=timeout_s)
    try:
        await connect(lambda: exchange.protocol, host, port, timeout_s=timeout_s, tls=tls)
    except ssl.SSLError as error:
        raise PeerConnectionLost(tls_problem(f"broker {exchange.name}", host, error)) from error
    except OSError as error:
        raise PeerConnectionLost(f"broker {exchange.name} cannot be reached: {error}") from error
    if login is not None:
        try:
            await exchange.log_in(login, random)
        except BaseException:
            exchange.close()
            raise
    return exchange
