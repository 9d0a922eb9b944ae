"""Client session: parses request headers, starts requests in order, and sends their responses in the same order.

A response that is ready before an earlier one waits in `_replies`. All complete responses at its front are sent
together. The hot path (header, route, handler, response) is synchronous and runs inside the read callback.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from moldau.broker.connection.reply_memory import ReplyMemory, UnsentReplies
from moldau.broker.quotas.request_time import TimedCoroutine, with_time_throttle
from moldau.broker.quotas.session_quota import SessionQuota
from moldau.broker.requests.handler_registry import HANDLERS, NO_REPLY, Body, DeferredAnswer, Handler
from moldau.host.event_log import event_logger
from moldau.net.framing import Buffer, FramedConnection, FrameError, FrameMemory
from moldau.net.paced_transport import PacedTransport
from moldau.security import CLUSTER_NAME, Decision, Operation, Principal, ResourceType, authorized_operations
from moldau.security.principal_mapping import NoMatchingRule
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import WireError
from moldau.wire.tuned.varint import skip_tags

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.broker.connection.connection_limits import Connections
    from moldau.broker.connection.listener import Listener
    from moldau.broker.metrics import ApiMetrics, BrokerMetrics
    from moldau.broker.quotas.client_quotas import ClientQuotas
    from moldau.host.threads import Threads

log = event_logger(__name__)

_HEADER = Struct(">hHihB")  # API key, version, correlation id, length of the client id; one more byte always follows
_HEADER_BYTES = 10
_REPLY = Struct(">ii")
_REPLY_FLEXIBLE = Struct(">iiB")

OPERATIONS_NOT_ASKED = -(2**31)
"""The value of `authorized_operations` if the client did not ask for it."""


class UnservedApi(WireError):
    """A request of an API or version that this broker does not serve. Only ApiVersions has a response for that case."""


class Route:
    """The handler, metrics and encoding of one version of one API, as dispatch needs them."""

    __slots__ = ("answer", "api", "flexible_reply", "flexible_request", "metrics")

    def __init__(self, handler: Handler, version: int, metrics: ApiMetrics) -> None:
        flexible_from = APIS[handler.api].flexible_from
        self.api = handler.api
        self.answer = handler.answer
        self.metrics = metrics
        self.flexible_request = flexible_from is not None and version >= flexible_from
        # A client that sends ApiVersions does not know our versions yet. It must be able to read the response header.
        self.flexible_reply = self.flexible_request and handler.api != ApiKey.API_VERSIONS


def build_routes(metrics: dict[ApiKey, ApiMetrics]) -> dict[int, Route]:
    return {
        handler.api << 16 | version: Route(handler, version, metrics[handler.api])
        for handler in HANDLERS.values()
        for version in range(handler.min_version, handler.max_version + 1)
    }


class LoginHost(NamedTuple):
    """What sessions use until their client has logged in."""

    routes: Mapping[int, Route]
    frame_memory: FrameMemory
    """A memory of their own: unknown clients cannot use up the memory of others."""
    threads: Threads
    now_ms: Callable[[], int]
    timeout_s: float
    failure_delay_s: float


class SessionHost(NamedTuple):
    """The parts of the broker that a session uses."""

    loop: asyncio.AbstractEventLoop
    frame_memory: FrameMemory
    reply_memory: ReplyMemory
    max_request_bytes: int
    max_inflight: int
    routes: Mapping[int, Route]
    api_versions_fallback: Route
    connections: Connections
    metrics: BrokerMetrics
    quotas: ClientQuotas
    login: LoginHost
    broker: Broker
    """For the handlers, as `request.broker`. The session itself does not use it."""


class Request:
    """A request in progress: its session, version and header fields, and the broker for the handler."""

    __slots__ = ("broker", "client_id", "correlation_id", "route", "session", "started", "version")

    def __init__(
        self, session: Session, route: Route, version: int, correlation_id: int, client_id: str, started: float
    ) -> None:
        self.session = session
        self.broker = session.broker
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.started = started
        self.route = route

    def authorized(
        self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME, *, audited: bool = True
    ) -> bool:
        """Whether the client may do the operation. A denial goes to the audit log, unless the client did not ask for
        this resource, as when a list leaves out what it may not see."""
        session, authorizer = self.session, self.broker.authorizer
        principal, host = session.principal, session.client_host
        allowed = authorizer.authorize(principal, host, operation, resource_type, name)
        if authorizer.enabled and audited and (not allowed or self.broker.audit_log.logs_allowed):
            decision = authorizer.decide(principal, host, operation, resource_type, name)
            self._audit(operation, resource_type, name, decision)
        return allowed

    def authorized_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may do the operation on at least one resource of the type. A denial is not logged: the
        client has not named a resource."""
        session = self.session
        return self.broker.authorizer.decide_any(
            session.principal, session.client_host, operation, resource_type
        ).allowed

    def _audit(self, operation: Operation, resource_type: ResourceType, name: str, decision: Decision) -> None:
        session, audit_log = self.session, self.broker.audit_log
        if audit_log.repeats((session.peer, self.correlation_id, operation, resource_type, name)):
            return
        write = audit_log.allowed if decision.allowed else audit_log.denied
        if not decision.allowed:
            self.broker.metrics.authorization_denied += 1
        write(self.route.api, session.principal, session.client_host, operation, (resource_type, name), decision)

    def authorized_operations(self, asked: bool, resource_type: ResourceType, name: str = CLUSTER_NAME) -> int:
        """The operations that the client may perform on a resource, as a bit field, if it asked for them."""
        if not asked:
            return OPERATIONS_NOT_ASKED
        session = self.session
        return authorized_operations(
            self.broker.authorizer, session.principal, session.client_host, resource_type, name
        )

    def cluster_operations(self, asked: bool) -> int:
        """The operations on the cluster. None are shown to a client that may not describe the cluster, as in Kafka."""
        if asked and not self.authorized(Operation.DESCRIBE, ResourceType.CLUSTER):
            return 0
        return self.authorized_operations(asked, ResourceType.CLUSTER)


class PendingReply:
    """The place of a response in the order of its connection. Calling it fills in the response."""

    __slots__ = ("buffers", "counted", "later", "request")

    def __init__(self, request: Request, later: DeferredAnswer | None = None) -> None:
        self.request = request
        self.later = later
        self.buffers: Body | None = None
        self.counted = 0

    def __call__(self, body: Body) -> None:
        self.later = None  # it refers to this object, too: break the reference cycle
        self.buffers = body
        session = self.request.session
        if session.broker.quotas.timed:
            self.buffers = with_time_throttle(self.request, body)
        if not session.is_first(self):
            self.count()
        session.send_ready()

    def count(self) -> None:
        """Count the bytes as unsent: the response waits for an earlier one."""
        assert self.buffers is not None
        self.counted = sum(map(len, self.buffers))
        self.request.session.unsent.add(self.counted)


class Session(FramedConnection):
    takes_turns = True

    __slots__ = (
        "_accepted",
        "_api_versions_fallback",
        "_client_id",
        "_client_id_bytes",
        "_connections",
        "_full",
        "_loop",
        "_max_inflight",
        "_metrics",
        "_now",
        "_paced",
        "_quotas",
        "_replies",
        "_routes",
        "_tasks",
        "_unread",
        "broker",
        "client_host",
        "client_port",
        "client_software",
        "last_active",
        "listener",
        "principal",
        "quota",
        "token_authenticated",
        "unauthenticated",
        "unsent",
    )

    def __init__(self, host: SessionHost, listener: Listener) -> None:
        super().__init__(host.frame_memory, host.max_request_bytes)
        # Attributes of the session, because the hot path reads them for each request.
        self._loop = host.loop
        self._now = host.loop.time
        self._routes = host.routes
        self._api_versions_fallback = host.api_versions_fallback
        self._max_inflight = host.max_inflight
        self._connections = host.connections
        self._metrics = host.metrics
        self._quotas = host.quotas
        self.broker = host.broker
        self.listener = listener
        self.principal: Principal = listener.default_principal
        self.unauthenticated = listener.security.needs_handshake
        """Whether a TLS handshake or a login must come before the first request."""
        self.token_authenticated = False
        """Whether the client has logged in with a delegation token."""
        self._accepted = False
        self._paced: PacedTransport | None = None
        self.client_host = "?"
        self.client_port = 0
        self.client_software = ""
        self.last_active = self._now()
        self._client_id = ""
        self._client_id_bytes = b""
        self._replies: deque[PendingReply] = deque()
        self._full = False
        self._unread = False
        self._tasks: list[asyncio.Task[Any]] = []
        self.unsent = UnsentReplies(host.reply_memory)
        self.quota = SessionQuota(self, host.quotas, host.loop)

    # -- lifecycle -------------------------------------------------------------------------------------------------

    def accept(self, peer: tuple[Any, ...] | None, close: Callable[[], None]) -> bool:
        """Count a new connection, before its TLS handshake. False if a limit refuses it: `close` is called, now or
        soon."""
        if peer:
            self.client_host, self.client_port = peer[0], peer[1]
        refused = self._connections.admit(self)
        if refused is not None:
            self._connections.log_client_error("connection refused", self, refused.reason)
            self._connections.close_refused(self, close, refused.after_s)
            return False
        self._accepted = True
        return True

    def _abort(self) -> None:
        self._closing = True
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.listener.security.context is not None:
            tls = cast(asyncio.Transport, transport)
            transport = self._paced = PacedTransport(tls, self._writing_paused, self._writing_resumed)
        super().connection_made(transport)

    def opened(self) -> None:
        assert self.transport is not None
        if not self._accepted and not self.accept(self.transport.get_extra_info("peername"), self._abort):
            self.hold()
            self._closing = True
        elif self.unauthenticated:
            self.secured()

    def secured(self) -> None:
        """The TLS handshake is complete: the client is whom its certificate names."""
        assert self.transport is not None
        try:
            self.principal = self.listener.security.peer_principal(self.transport)
        except NoMatchingRule as error:
            self._metrics.failed_authentications += 1
            self._connections.log_client_error("authentication failed", self, str(error))
            self._abort()
            return
        self.unauthenticated = False
        self._connections.authenticated()

    @property
    def security_protocol(self) -> str:
        return self.listener.bound.protocol

    def closed(self, error: Exception | None) -> None:
        self._connections.forget(self)
        for pending in self._replies:
            if pending.later is not None:
                pending.later.abandon()
        self._replies.clear()
        self.unsent.close()
        self.quota.close()
        for task in self._tasks:
            task.cancel()

    def rejected(self, error: Exception) -> None:
        self._metrics.malformed_requests += 1
        self._connections.log_client_error("malformed request, connection closed", self, str(error))

    @property
    def peer(self) -> str:
        return f"{self.client_host}:{self.client_port}"

    @property
    def client_id(self) -> str:
        """The client id of the last request; empty before the first one."""
        return self._client_id

    def waiting(self) -> list[DeferredAnswer]:
        """The requests that wait for something before they can be answered, oldest first."""
        return [pending.later for pending in self._replies if pending.later is not None]

    @property
    def idle(self) -> bool:
        """Whether all requests are answered."""
        return not self._replies

    # -- requests --------------------------------------------------------------------------------------------------

    def frame_received(self, frame: memoryview) -> None:
        started = self.last_active = self._now()
        try:
            if self._quotas.timed:
                self.quota.run_timed(self._dispatch_and_write, frame, started)
            else:
                self._dispatch(frame, started)
        except UnservedApi as error:
            self._metrics.unsupported_versions += 1
            self._connections.log_client_error("API not served, connection closed", self, str(error))
            self.close()
        except (WireError, FrameError) as error:
            self.rejected(error)
            self.close()
        except Exception:
            # A bug in the broker. This client loses its connection and reconnects; others are not affected.
            self._metrics.handler_failures += 1
            log.exception("request failed, connection closed", extra={"client": self.peer, "frame": self._shown(frame)})
            self.close()

    def _shown(self, frame: memoryview) -> str:
        """The beginning of a frame, for the log."""
        return bytes(frame[:32]).hex()

    def _dispatch(self, frame: memoryview, started: float) -> None:
        try:
            api_key, version, correlation_id, client_id_size, _ = _HEADER.unpack_from(frame)
        except StructError:
            if len(frame) != _HEADER_BYTES:
                raise WireError(f"request header of {len(frame)} bytes, at least {_HEADER_BYTES} are needed") from None
            api_key, version, correlation_id, client_id_size, _ = _HEADER.unpack(bytes(frame) + b"\0")  # empty body
        route = self._routes.get(api_key << 16 | version)
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
            route.metrics.done(self._now() - started)
        elif isinstance(answer, DeferredAnswer):
            self._answer_later(request, answer)
        elif isinstance(answer, Coroutine):
            self._run(request, answer)
        else:
            self._answer(request, [answer.encode(version)])  # type: ignore[union-attr]

    def _dispatch_and_write(self, frame: memoryview, started: float) -> None:
        """Dispatch a request whose time is measured. Its response is written now, not at the end of the read callback,
        because writing takes time, too."""
        self._dispatch(frame, started)
        self._flush()

    def _unserved(self, api_key: int, version: int) -> Route:
        if api_key not in APIS:
            raise UnservedApi(f"API key {api_key} version {version} is not served, there is no such API")
        key = ApiKey(api_key)
        if key not in HANDLERS:
            raise UnservedApi(f"{APIS[key].name} version {version} is not served, nor is any other version")
        if key != ApiKey.API_VERSIONS:
            served = f"versions {HANDLERS[key].min_version} to {HANDLERS[key].max_version} are"
            raise UnservedApi(f"{APIS[key].name} version {version} is not served, {served}")
        self._metrics.unsupported_versions += 1
        return self._api_versions_fallback

    def _client_id_of(self, frame: memoryview, end: int) -> str:
        """The client id of a request. It is nearly always the previous one, so bytes are compared before text is
        decoded."""
        raw = bytes(frame[_HEADER_BYTES:end])
        if raw != self._client_id_bytes:
            if len(frame) < end:
                raise WireError("client id passes the end of the frame")
            self._client_id = raw.decode(errors="replace")  # only used in logs and quotas: no reason to close
            self._client_id_bytes = raw
        return self._client_id

    # -- responses -------------------------------------------------------------------------------------------------

    def _answer(self, request: Request, body: Body) -> None:
        if self._quotas.timed:
            body = with_time_throttle(request, body)
        if self._replies:
            pending = PendingReply(request)
            pending.buffers = body
            pending.count()
            self._replies.append(pending)
            self._watch_depth()
        else:
            self._send(request, body)

    def _send(self, request: Request, body: Body) -> None:
        size = sum(map(len, body)) if len(body) > 1 else len(body[0])
        route = request.route
        head = (
            _REPLY_FLEXIBLE.pack(size + 5, request.correlation_id, 0)
            if route.flexible_reply
            else _REPLY.pack(size + 4, request.correlation_id)
        )
        metrics = route.metrics
        metrics.reply_bytes += size
        metrics.done(self._now() - request.started)
        buffers: list[Buffer] = [head]
        buffers += body
        self.send(buffers, size)

    def _answer_later(self, request: Request, later: DeferredAnswer) -> None:
        pending = PendingReply(request, later)
        self._replies.append(pending)
        self._watch_depth()
        later.start(pending)

    def send_ready(self) -> None:
        """Send all complete responses at the front of the queue, together."""
        if self.transport is None:
            return
        replies = self._replies
        outermost = not self._reading
        self._reading = True  # collect all buffers and write once
        try:
            while replies and (ready := replies[0].buffers) is not None:
                reply = replies.popleft()
                if reply.counted:
                    self.unsent.add(-reply.counted)
                self._send(reply.request, ready)
        finally:
            if outermost:
                self._reading = False
                self._flush()
        if self._full and len(replies) <= self._max_inflight // 2:
            self._full = False
            self.release()
        if self._unread:
            self._count_unread()
        if self.unsent.has_waiting:
            self.unsent.wake()

    def is_first(self, reply: PendingReply | DeferredAnswer) -> bool:
        """Whether all earlier requests are answered."""
        replies = self._replies
        return not replies or replies[0] is reply or replies[0].later is reply

    def pause_writing(self) -> None:
        if self._paced is None:
            self._writing_paused()
        else:
            self._paced.transport_full()

    def resume_writing(self) -> None:
        if self._paced is None:
            self._writing_resumed()
        else:
            self._paced.transport_drained()

    def _writing_paused(self) -> None:
        self.hold()
        self._unread = True
        self._count_unread()

    def _writing_resumed(self) -> None:
        self._unread = False
        self.unsent.stuck(0)
        self.unsent.wake()  # before new requests are dispatched
        self.release()

    def _count_unread(self) -> None:
        if self.transport is not None:
            self.unsent.stuck(self.transport.get_write_buffer_size() + self._collected)

    def _watch_depth(self) -> None:
        if len(self._replies) >= self._max_inflight and not self._full:
            self._full = True
            self._metrics.inflight_limit_hits += 1
            self.hold()

    def _run(self, request: Request, work: Coroutine[Any, Any, Any]) -> None:
        """Run an asynchronous handler. The connection dispatches no further request until it has answered."""
        pending = PendingReply(request)
        self._replies.append(pending)
        self.hold()
        # The task runs the handler's coroutine directly. If the connection is lost at once, the task is cancelled
        # before its first step. A coroutine around the handler's would then end without awaiting it, and Python would
        # warn.
        if self._quotas.timed:
            work = TimedCoroutine(work, self.quota.run_timed)
        task = self._loop.create_task(work)
        self._tasks.append(task)
        task.add_done_callback(partial(self._worked, pending))

    def _worked(self, pending: PendingReply, task: asyncio.Task[Any]) -> None:
        self._tasks.remove(task)
        if task.cancelled():
            self.close()  # already closed, unless something that the handler awaited was cancelled
            return
        try:
            answer = task.result()
            body: Body | None = None if answer is NO_REPLY else [answer.encode(pending.request.version)]
        except Exception:
            # A bug in the broker, as in `frame_received`.
            self._metrics.handler_failures += 1
            log.exception("request failed, connection closed", extra={"client": self.peer})
            self.close()
            return
        if body is None:
            self._replies.remove(pending)
            pending.request.route.metrics.done(self._now() - pending.request.started)
        else:
            pending(body)
        if self.transport is not None:
            self.release()
