"""One client connection: cuts request headers, starts requests in order, answers them in the same order.

An answer that is ready while an earlier one is not waits in `_replies`; whatever is complete at its front leaves
together. The hot path (header, route, handler, reply) is synchronous and runs inside the read callback.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from moldau.broker.registry import HANDLERS, NO_REPLY, Body, Handler, Later
from moldau.net.framing import Buffer, FramedConnection, FrameError
from moldau.security import CLUSTER_NAME, Operation, Principal, ResourceType, authorized_operations
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import WireError
from moldau.wire.tuned.varint import skip_tags

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.broker.listener import Listener
    from moldau.broker.metrics import ApiMetrics

log = logging.getLogger(__name__)

_HEADER = Struct(">hHihB")  # api key, version, correlation id, length of the client id; one byte more is always there
_HEADER_BYTES = 10
_REPLY = Struct(">ii")
_REPLY_FLEXIBLE = Struct(">iiB")

OPERATIONS_NOT_ASKED = -(2**31)
"""Stands where a client did not want to know what it may do."""


class Route:
    """What dispatch needs to know of one (API, version)."""

    __slots__ = ("answer", "flexible_reply", "flexible_request", "metrics")

    def __init__(self, handler: Handler, version: int, metrics: ApiMetrics) -> None:
        flexible_from = APIS[handler.api].flexible_from
        self.answer = handler.answer
        self.metrics = metrics
        self.flexible_request = flexible_from is not None and version >= flexible_from
        # A client that does not know our versions yet must be able to read this one answer.
        self.flexible_reply = self.flexible_request and handler.api != ApiKey.API_VERSIONS


def build_routes(metrics: dict[ApiKey, ApiMetrics]) -> dict[int, Route]:
    return {
        handler.api << 16 | version: Route(handler, version, metrics[handler.api])
        for handler in HANDLERS.values()
        for version in range(handler.min_version, handler.max_version + 1)
    }


class Request:
    """One request being served: who asks, in which version, and the broker that answers."""

    __slots__ = ("broker", "client_id", "correlation_id", "flexible_reply", "metrics", "session", "started", "version")

    def __init__(
        self, session: Session, route: Route, version: int, correlation_id: int, client_id: str, started: float
    ) -> None:
        self.session = session
        self.broker = session.broker
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.started = started
        self.flexible_reply = route.flexible_reply
        self.metrics = route.metrics

    def authorized(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        session = self.session
        return self.broker.authorizer.authorize(session.principal, session.client_host, operation, resource_type, name)

    def authorized_operations(self, asked: bool, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """What the client may do to something, as bits, if it asked for that."""
        if not asked:
            return OPERATIONS_NOT_ASKED
        session = self.session
        return authorized_operations(
            self.broker.authorizer, session.principal, session.client_host, resource_type, name
        )


class PendingReply:
    """A place in the order of a connection's answers, filled by calling it."""

    __slots__ = ("buffers", "later", "request")

    def __init__(self, request: Request, later: Later | None = None) -> None:
        self.request = request
        self.later = later
        self.buffers: Body | None = None

    def __call__(self, body: Body) -> None:
        self.later = None  # it knows us, too: do not leave a cycle behind
        self.buffers = body
        self.request.session.send_ready()


class Session(FramedConnection):
    __slots__ = (
        "_client_id",
        "_client_id_bytes",
        "_full",
        "_replies",
        "_tasks",
        "broker",
        "client_host",
        "client_port",
        "client_software",
        "last_active",
        "listener",
        "principal",
    )

    def __init__(self, broker: Broker, listener: Listener) -> None:
        super().__init__(broker.frame_memory, broker.max_request_bytes)
        self.broker = broker
        self.listener = listener
        self.principal: Principal = listener.default_principal
        self.client_host = "?"
        self.client_port = 0
        self.client_software = ""
        self.last_active = broker.loop.time()
        self._client_id = ""
        self._client_id_bytes = b""
        self._replies: deque[PendingReply] = deque()
        self._full = False
        self._tasks: list[asyncio.Task[None]] = []

    # -- life ------------------------------------------------------------------------------------------------------

    def opened(self) -> None:
        assert self.transport is not None
        peer = self.transport.get_extra_info("peername")
        if peer:
            self.client_host, self.client_port = peer[0], peer[1]
        reason = self.broker.connections.admit(self)
        if reason is not None:
            self.broker.connections.complain("connection refused", self, reason)
            self._closing = True
            self.transport.abort()

    def closed(self, error: Exception | None) -> None:
        self.broker.connections.forget(self)
        for pending in self._replies:
            if pending.later is not None:
                pending.later.abandon()
        self._replies.clear()
        for task in self._tasks:
            task.cancel()

    def rejected(self, error: Exception) -> None:
        self.broker.metrics.malformed_requests += 1
        self.broker.connections.complain("malformed request, connection closed", self, str(error))

    @property
    def peer(self) -> str:
        return f"{self.client_host}:{self.client_port}"

    @property
    def client_id(self) -> str:
        """As the client last named itself; empty before its first request."""
        return self._client_id

    def waiting(self) -> list[Later]:
        """What has been asked and waits for something before it is answered, oldest first."""
        return [pending.later for pending in self._replies if pending.later is not None]

    @property
    def idle(self) -> bool:
        """Nothing asked that is not answered."""
        return not self._replies

    # -- requests --------------------------------------------------------------------------------------------------

    def frame_received(self, frame: memoryview) -> None:
        started = self.last_active = self.broker.loop.time()
        try:
            self._dispatch(frame, started)
        except (WireError, FrameError) as error:
            self.rejected(error)
            self.close()
        except Exception:
            # A bug of ours. The client hears it as a lost connection and comes back; nobody else notices.
            self.broker.metrics.handler_failures += 1
            log.exception(
                "request failed, connection closed", extra={"client": self.peer, "frame": bytes(frame[:32]).hex()}
            )
            self.close()

    def _dispatch(self, frame: memoryview, started: float) -> None:
        try:
            api_key, version, correlation_id, client_id_size, _ = _HEADER.unpack_from(frame)
        except StructError:
            if len(frame) != _HEADER_BYTES:
                raise WireError(f"request header of {len(frame)} bytes") from None
            api_key, version, correlation_id, client_id_size, _ = _HEADER.unpack(bytes(frame) + b"\0")  # empty body
        route = self.broker.routes.get(api_key << 16 | version)
        if route is None:
            route = self._unserved(api_key, version)
            version = 0
        pos = _HEADER_BYTES
        client_id = ""
        if client_id_size > 0:
            pos += client_id_size
            client_id = self._client_id_of(frame, pos)
        if route.flexible_request:
            try:
                pos = skip_tags(frame, pos)
            except IndexError:
                raise WireError("request header passes the end of the frame") from None
        request = Request(self, route, version, correlation_id, client_id, started)
        route.metrics.request_bytes += len(frame)
        answer = route.answer(request, frame[pos:])
        if type(answer) is list:
            self._answer(request, answer)
        elif answer is NO_REPLY:
            request.metrics.done(self.broker.loop.time() - started)
        elif isinstance(answer, Later):
            self._answer_later(request, answer)
        elif isinstance(answer, Coroutine):
            self._run(request, answer)
        else:
            self._answer(request, [answer.encode(version)])  # type: ignore[union-attr]

    def _unserved(self, api_key: int, version: int) -> Route:
        if api_key != ApiKey.API_VERSIONS:
            name = APIS[ApiKey(api_key)].name if api_key in APIS else f"API key {api_key}"
            raise WireError(f"{name} version {version} is not served")
        self.broker.metrics.unsupported_versions += 1
        return self.broker.api_versions_fallback

    def _client_id_of(self, frame: memoryview, end: int) -> str:
        """Nearly always the same as last time: compare bytes before decoding text."""
        raw = bytes(frame[_HEADER_BYTES:end])
        if raw != self._client_id_bytes:
            if len(frame) < end:
                raise WireError("client id passes the end of the frame")
            self._client_id = raw.decode(errors="replace")  # a name for logs and quotas: no reason to hang up
            self._client_id_bytes = raw
        return self._client_id

    # -- answers ---------------------------------------------------------------------------------------------------

    def _answer(self, request: Request, body: Body) -> None:
        if self._replies:
            pending = PendingReply(request)
            pending.buffers = body
            self._replies.append(pending)
            self._watch_depth()
        else:
            self._send(request, body)

    def _send(self, request: Request, body: Body) -> None:
        size = sum(map(len, body)) if len(body) > 1 else len(body[0])
        head = (
            _REPLY_FLEXIBLE.pack(size + 5, request.correlation_id, 0)
            if request.flexible_reply
            else _REPLY.pack(size + 4, request.correlation_id)
        )
        metrics = request.metrics
        metrics.reply_bytes += size
        metrics.done(self.broker.loop.time() - request.started)
        buffers: list[Buffer] = [head]
        buffers += body
        self.send(buffers, size)

    def _answer_later(self, request: Request, later: Later) -> None:
        pending = PendingReply(request, later)
        self._replies.append(pending)
        self._watch_depth()
        later.start(pending)

    def send_ready(self) -> None:
        """Send what is complete at the front of the order, together."""
        if self.transport is None:
            return
        replies = self._replies
        outermost = not self._reading
        self._reading = True  # collect, and write once
        try:
            while replies and (ready := replies[0].buffers) is not None:
                self._send(replies.popleft().request, ready)
        finally:
            if outermost:
                self._reading = False
                self._flush()
        if self._full and len(replies) <= self.broker.max_inflight // 2:
            self._full = False
            self.release()

    def _watch_depth(self) -> None:
        if len(self._replies) >= self.broker.max_inflight and not self._full:
            self._full = True
            self.broker.metrics.inflight_limit_hits += 1
            self.hold()

    def _run(self, request: Request, work: Coroutine[Any, Any, Any]) -> None:
        """A handler that awaits: its connection takes no further request until it has answered."""
        pending = PendingReply(request)
        self._replies.append(pending)
        self.hold()

        async def answer() -> None:
            try:
                message = await work
                body: Body = [message.encode(request.version)]
            except asyncio.CancelledError:
                raise
            except Exception:
                # As in `frame_received`: a bug of ours, and one client's lost connection.
                self.broker.metrics.handler_failures += 1
                log.exception("request failed, connection closed", extra={"client": self.peer})
                self.close()
                return
            pending(body)
            if self.transport is not None:
                self.release()

        task = self.broker.loop.create_task(answer())
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)
