"""Connections to other brokers: `await peers.ask(broker_id, request, lane)`.

* There is one connection per broker and lane. It is opened when it is first needed, kept, and closed when the broker
  leaves the cluster. Waiting requests then fail at once, not after a timeout.
* A connection answers its requests in order. So requests that wait for replication have another lane than requests that
  a client waits for.
* After a failed connection attempt there is a pause. Requests during the pause raise PeerUnavailable at once.
* Nothing is retried here: after a failure it is unknown whether the broker has carried out the request. Only the caller
  knows whether it may be repeated, and to which broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final, Generic, TypeVar

from moldau.broker.peer_security import PeerSecurity
from moldau.cluster.image import BrokerImage, ClusterImage, Endpoint
from moldau.net.framing import FrameMemory
from moldau.net.peer_connection import ANSWERS_MEMORY_BYTES, PeerConnection, PeerConnectionLost
from moldau.wire.api import APIS, ApiKey
from moldau.wire.message import Request

REQUEST_TIMEOUT_S: Final = 30.0
"""Timeout of connecting, and of each response."""

MAX_IN_FLIGHT: Final = 100
"""Requests that wait for their responses on one connection. Further ones raise PeerUnavailable."""

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
"""The pause after a failed connection attempt. It doubles with each failure in a row."""


class PeerUnavailable(Exception):
    """The broker could not be asked, or did not answer. It may have carried out the request nevertheless."""


class PeerLane(Enum):
    """A class of requests with a connection of its own: they are answered in order."""

    VERIFICATION = "verification"
    """AddPartitionsToTxn, which adds and verifies partitions. A producer waits for the response."""
    MARKERS = "markers"
    """WriteTxnMarkers, answered when the markers are replicated."""


Q = TypeVar("Q")


class RequestBatcher(Generic[Q]):
    """Batches questions for other brokers: those that arrive while a request to a broker is in flight are sent together
    in the next request."""

    def __init__(
        self,
        send: Callable[[int, list[Q]], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        max_waiting: int,
        max_batch: int,
    ) -> None:
        self._send = send
        self._spawn = spawn
        self._max_waiting = max_waiting
        self._max_batch = max_batch
        self._waiting: dict[int, list[Q]] = {}
        """By broker, while a request to it is in flight."""

    def add(self, broker_id: int, question: Q) -> bool:
        """Queue a question. False if the queue is full. Otherwise `send` gets the question once, unless this broker
        stops before."""
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
                questions = waiting[: self._max_batch]
                del waiting[: self._max_batch]
                await self._send(broker_id, questions)
        finally:
            left = self._waiting.pop(broker_id)
            this = asyncio.current_task()
            if left and this is not None and not this.cancelling():
                # `send` has failed, which is a bug; `spawn` logs it. The questions that still wait must be sent.
                self._waiting[broker_id] = left
                self._spawn(self._send_all(broker_id))


class Peers:
    def __init__(self, node_id: int, security: PeerSecurity, image: Callable[[], ClusterImage]) -> None:
        self._client_id = f"broker-{node_id}"
        self._security = security
        self._listener = security.listener
        self._image = image
        self._memory = FrameMemory(ANSWERS_MEMORY_BYTES)
        self._peers: dict[tuple[int, PeerLane], _Peer] = {}
        self._closed = False

    async def ask(self, broker_id: int, request: Request, lane: PeerLane) -> Any:
        """Send a request in its highest stable version and return the response. Raises PeerUnavailable."""
        connection = await self._connected(broker_id, lane)
        if connection.in_flight >= MAX_IN_FLIGHT:
            raise PeerUnavailable(f"{connection.in_flight} requests to broker {broker_id} are in flight already")
        try:
            return await connection.ask(request, APIS[ApiKey(request.API_KEY)].max_stable_version)
        except PeerConnectionLost as error:
            raise PeerUnavailable(str(error)) from error

    def follow(self, old: ClusterImage, new: ClusterImage) -> None:
        """Close the connections to brokers that have left the cluster or were registered again."""
        if old.brokers is new.brokers:
            return
        for (broker_id, lane), peer in list(self._peers.items()):
            if new.brokers.get(broker_id) != peer.broker:
                del self._peers[broker_id, lane]
                peer.close()

    def close(self) -> None:
        """Close all connections. Waiting and new requests raise PeerUnavailable."""
        self._closed = True
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    # -- connections -----------------------------------------------------------------------------------------------

    async def _connected(self, broker_id: int, lane: PeerLane) -> PeerConnection:
        peer = self._peers.get((broker_id, lane))
        if peer is None:
            peer = self._register(broker_id, lane)
        if peer.connection is not None and not peer.connection.closed:
            return peer.connection
        if peer.opening is None:
            now = asyncio.get_running_loop().time()
            if now < peer.not_before:
                raise PeerUnavailable(f"broker {broker_id} could not be reached a moment ago")
            peer.opening = asyncio.create_task(self._connect(peer))
            peer.opening.add_done_callback(_retrieve)
        # `wait` does not cancel the task: if this request is cancelled, others may wait for the same connection.
        done, _ = await asyncio.wait([peer.opening])
        for opening in done:
            if opening.cancelled():
                raise PeerUnavailable(f"broker {broker_id} has left the cluster")
            return opening.result()
        raise AssertionError("asyncio.wait without a timeout returned before the task was done")

    def _register(self, broker_id: int, lane: PeerLane) -> _Peer:
        broker = self._image().brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self._listener)
        if broker is None or endpoint is None or self._closed:
            raise PeerUnavailable(f"broker {broker_id} is not registered")
        peer = self._peers[broker_id, lane] = _Peer(broker, endpoint)
        return peer

    async def _connect(self, peer: _Peer) -> PeerConnection:
        try:
            peer.connection = await self._open(peer.broker.id, peer.endpoint)
        except PeerConnectionLost as error:
            peer.failed(asyncio.get_running_loop().time())
            raise PeerUnavailable(str(error)) from error
        finally:
            peer.opening = None
        peer.pause_s = FIRST_PAUSE_S
        return peer.connection

    async def _open(self, broker_id: int, endpoint: Endpoint) -> PeerConnection:
        return await self._security.connect(
            endpoint.host,
            endpoint.port,
            self._client_id,
            timeout_s=REQUEST_TIMEOUT_S,
            memory=self._memory,
            name=f"{broker_id} ({endpoint.host}:{endpoint.port})",
        )


def _retrieve(opening: asyncio.Task[PeerConnection]) -> None:
    """Retrieve the exception, so that asyncio does not log it if no request waits for the connection any more."""
    if not opening.cancelled():
        opening.exception()


class _Peer:
    """One lane to one registration of one broker."""

    __slots__ = ("broker", "connection", "endpoint", "not_before", "opening", "pause_s")

    def __init__(self, broker: BrokerImage, endpoint: Endpoint) -> None:
        self.broker = broker
        self.endpoint = endpoint
        self.connection: PeerConnection | None = None
        self.opening: asyncio.Task[PeerConnection] | None = None
        self.not_before = 0.0
        self.pause_s = FIRST_PAUSE_S

    def failed(self, now: float) -> None:
        self.not_before = now + self.pause_s
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)

    def close(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
        if self.connection is not None:
            self.connection.close()
