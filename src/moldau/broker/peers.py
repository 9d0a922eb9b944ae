"""The other brokers, for whoever has something to ask them: `await peers.ask(broker_id, request)`.

One connection a broker and lane, made when it is first needed, kept while the broker lives, and closed when the cluster
says that it is gone: whoever waits hears it then, not after a time-out. Requests of one lane are answered in order, so
those that wait for replication and those that somebody waits for take different ones. After a failure there is a pause
before the next attempt; who asks meanwhile hears PeerUnavailable at once. Nothing is repeated here: what became of a
request is not known, and only who asked knows whether it may be asked twice, and of whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from moldau.cluster.image import BrokerImage, ClusterImage, Endpoint
from moldau.net.exchange import ANSWERS_MEMORY_BYTES, Exchange, ExchangeLost, open_exchange
from moldau.net.framing import FrameMemory
from moldau.wire.api import APIS, ApiKey
from moldau.wire.message import Request

REQUEST_TIMEOUT_S: Final = 30.0
"""For a connection to be made, and for an answer on it."""

MAX_IN_FLIGHT: Final = 100
"""Requests that wait for their answers on one connection; who comes beyond is refused."""

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
"""After a connection that failed: doubled with each failure in a row."""


class PeerUnavailable(Exception):
    """The broker could not be asked, or did not answer. It may have carried the request out all the same."""


class Lane(Enum):
    """Requests that wait for each other."""

    VERIFICATION = "verification"
    """Is a partition part of a transaction? A producer waits for the answer."""
    MARKERS = "markers"
    """The ends of transactions, answered when they are replicated."""


Q = TypeVar("Q")


class Together(Generic[Q]):
    """Questions for other brokers that go together: those that come while a request to a broker is under way wait, and
    are sent in the next one."""

    def __init__(
        self,
        send: Callable[[int, list[Q]], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        max_waiting: int,
        max_together: int,
    ) -> None:
        self._send = send
        self._spawn = spawn
        self._max_waiting = max_waiting
        self._max_together = max_together
        self._waiting: dict[int, list[Q]] = {}
        """By broker, while a request to it is under way."""

    def add(self, broker_id: int, question: Q) -> bool:
        """Whether there was room for it. `send` then hears of it, once; unless the broker is stopped before."""
        waiting = self._waiting.get(broker_id)
        if waiting is None:
            self._waiting[broker_id] = [question]
            self._spawn(self._send_all(broker_id))
        elif len(waiting) < self._max_waiting:
            waiting.append(question)
        else:
            return False
        return True

    async def _send_all(self, broker_id: int) -> None:
        try:
            while waiting := self._waiting[broker_id]:
                questions = waiting[: self._max_together]
                del waiting[: self._max_together]
                await self._send(broker_id, questions)
        finally:
            left = self._waiting.pop(broker_id)
            this = asyncio.current_task()
            if left and this is not None and not this.cancelling():
                # The failure of some is a bug, and logged as one; it must not be the end of those behind them.
                self._waiting[broker_id] = left
                self._spawn(self._send_all(broker_id))


class Peers:
    def __init__(self, node_id: int, listener: str, image: Callable[[], ClusterImage]) -> None:
        self._client_id = f"broker-{node_id}"
        self._listener = listener
        self._image = image
        self._memory = FrameMemory(ANSWERS_MEMORY_BYTES)
        self._peers: dict[tuple[int, Lane], _Peer] = {}
        self._closed = False

    async def ask(self, broker_id: int, request: Request, lane: Lane) -> Any:
        """The response, in the highest version that is not about to change. Raises PeerUnavailable."""
        exchange = await self._exchange(broker_id, lane)
        if exchange.in_flight >= MAX_IN_FLIGHT:
            raise PeerUnavailable(f"{exchange.in_flight} requests wait for broker {broker_id} already")
        try:
            return await exchange.ask(request, APIS[ApiKey(request.API_KEY)].max_stable_version)
        except ExchangeLost as error:
            raise PeerUnavailable(str(error)) from error

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Brokers that are gone, or live a new life, have their connections closed."""
        if old.brokers is new.brokers:
            return
        for (broker_id, lane), peer in list(self._peers.items()):
            if new.brokers.get(broker_id) != peer.broker:
                del self._peers[broker_id, lane]
                peer.close()

    def close(self) -> None:
        """No more questions; whoever waits hears PeerUnavailable."""
        self._closed = True
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    # -- connections -----------------------------------------------------------------------------------------------

    async def _exchange(self, broker_id: int, lane: Lane) -> Exchange:
        peer = self._peers.get((broker_id, lane))
        if peer is None:
            peer = self._meet(broker_id, lane)
        if peer.exchange is not None and not peer.exchange.closed:
            return peer.exchange
        if peer.opening is None:
            now = asyncio.get_running_loop().time()
            if now < peer.not_before:
                raise PeerUnavailable(f"broker {broker_id} could not be reached a moment ago")
            peer.opening = asyncio.create_task(self._connect(peer))
            peer.opening.add_done_callback(_heard)
        # Whoever stops waiting leaves the connection to the others, and to those who come later.
        done, _ = await asyncio.wait([peer.opening])
        for opening in done:
            if opening.cancelled():
                raise PeerUnavailable(f"broker {broker_id} is gone")
            return opening.result()
        raise AssertionError("waiting without a time-out ends with what was waited for")

    def _meet(self, broker_id: int, lane: Lane) -> _Peer:
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if broker is None or endpoint is None or self._closed:
            raise PeerUnavailable(f"broker {broker_id} is not there")
        peer = self._peers[broker_id, lane] = _Peer(broker, endpoint)
        return peer

    async def _connect(self, peer: _Peer) -> Exchange:
        try:
            peer.exchange = await self._open(peer.broker.id, peer.endpoint)
        except ExchangeLost as error:
            peer.failed(asyncio.get_running_loop().time())
            raise PeerUnavailable(str(error)) from error
        finally:
            peer.opening = None
        peer.pause_s = FIRST_PAUSE_S
        return peer.exchange

    async def _open(self, broker_id: int, endpoint: Endpoint) -> Exchange:
        return await open_exchange(
            endpoint.host,
            endpoint.port,
            self._client_id,
            timeout_s=REQUEST_TIMEOUT_S,
            memory=self._memory,
            name=f"{broker_id} ({endpoint.host}:{endpoint.port})",
        )


def _heard(opening: asyncio.Task[Exchange]) -> None:
    """Those who waited know how it went; if there are none left, nobody need be told."""
    if not opening.cancelled():
        opening.exception()


class _Peer:
    """One lane to one life of one broker."""

    __slots__ = ("broker", "endpoint", "exchange", "not_before", "opening", "pause_s")

    def __init__(self, broker: BrokerImage, endpoint: Endpoint) -> None:
        self.broker = broker
        self.endpoint = endpoint
        self.exchange: Exchange | None = None
        self.opening: asyncio.Task[Exchange] | None = None
        self.not_before = 0.0
        self.pause_s = FIRST_PAUSE_S

    def failed(self, now: float) -> None:
        self.not_before = now + self.pause_s
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)

    def close(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
        if self.exchange is not None:
            self.exchange.close()
