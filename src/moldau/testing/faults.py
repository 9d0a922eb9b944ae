"""Fault injection: failing requests, late or missing responses, broken connections.

    broker.faults.fail_next("Produce", "NOT_ENOUGH_REPLICAS", topic="orders")
    with broker.faults.delay("Fetch", 2.0, client_id="slow-*"):
        ...

Each call creates a `Fault`, which applies a given number of times, and which a test can wait for and end. Faults are
installed in the broker's table of routes, so without a fault a request takes the same path as in production. Faults
stay when the broker restarts. `client_id` and `topic` are names, or patterns with `*` and `?`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from threading import Condition
from types import TracebackType
from typing import Self, TypeVar

from moldau.broker.broker import Broker
from moldau.broker.connection.connection_limits import Connections, Refused
from moldau.broker.connection.session import Request, Session
from moldau.broker.requests.handler_registry import HANDLERS, NO_REPLY, Answer, Body, Reply
from moldau.testing.broker_thread import BrokerThread
from moldau.testing.error_replies import ANSWERED_FIRST, IMPOSSIBLE, refuse, spoil, topics_of
from moldau.testing.intercept import Intercepted, Silence
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode

WAIT_S = 30.0

Handle = Callable[[Request, memoryview], Answer]
Strike = Callable[[ApiKey, Request, memoryview, Handle], Answer]
"""Answers a request that a fault applies to; the last argument is the real handler."""

T = TypeVar("T")


class Fault:
    """A fault that applies `times` times (None: until it is ended)."""

    def __init__(
        self,
        faults: Faults,
        what: str,
        apis: frozenset[ApiKey],
        times: int | None,
        client_id: str | None = None,
        topic: str | None = None,
    ) -> None:
        if times is not None and times < 1:
            raise ValueError(f"a fault strikes at least once, not {times} times")
        self.what = what
        self.apis = apis
        self.times = times
        self._faults = faults
        self._client_id = client_id
        self._topic = topic
        self._struck = 0
        self._news = Condition()
        self.strike: Strike = lambda api, request, body, handle: handle(request, body)

    def __repr__(self) -> str:
        return f"<Fault: {self.what}, struck {self._struck} of {self.times or 'any number of'} times>"

    @property
    def struck(self) -> int:
        """How often it has applied so far."""
        return self._struck

    def wait(self, times: int | None = None, timeout: float = WAIT_S) -> None:
        """Wait until it has applied this often. Default: `times` of the fault, or once if that is unlimited."""
        wanted = times or self.times or 1
        with self._news:
            if not self._news.wait_for(lambda: self._struck >= wanted, timeout):
                raise TimeoutError(f"{self!r} did not strike {wanted} times within {timeout} s")

    def end(self) -> None:
        """Remove the fault."""
        self._faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    # -- called on the broker's loop -------------------------------------------------------------------------------

    def meets(self, api: ApiKey, request: Request, body: memoryview) -> bool:
        if self._client_id is not None and not fnmatchcase(request.client_id, self._client_id):
            return False
        return self._topic is None or any(fnmatchcase(name, self._topic) for name in topics_of(api, request, body))

    def count(self) -> None:
        with self._news:
            self._struck += 1
            self._news.notify_all()

    @property
    def used_up(self) -> bool:
        return self.times is not None and self._struck >= self.times

    def ended(self) -> None:
        """Called once, when it is removed."""


class BlackHole(Fault):
    """Swallows requests without an answer. Its connections have lost requests, so they are cut when it ends."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._sessions: set[Session] = set()
        self.strike = self._swallow

    def _swallow(self, api: ApiKey, request: Request, body: memoryview, handle: Handle) -> Answer:
        self._sessions.add(request.session)
        return Silence()

    def ended(self) -> None:
        for session in self._sessions:
            _cut(session)
        self._sessions.clear()


class FaultyConnections(Connections):
    """Refuses new connections while there is a fault for them."""

    __slots__ = ("faults",)

    def __init__(self, broker: Broker, faults: Faults) -> None:
        super().__init__(
            lambda: broker.settings, broker.metrics, broker.loop.time, broker.quotas, broker.connection_rates
        )
        self.faults = faults

    def admit(self, session: Session) -> Refused | None:
        refusal = self.faults.refusal()
        return Refused(refusal) if refusal else super().admit(session)


class Faults:
    """All faults of one broker. Its methods may be called from any thread, whether the broker runs or not."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._at_the_door: list[Fault] = []
        self._broker: Broker | None = None
        self._handlers: dict[int, Handle] = {}
        self._life: BrokerThread | None = None

    def __iter__(self) -> Iterator[Fault]:
        return iter([*self._faults, *self._at_the_door])

    # -- kinds of faults -------------------------------------------------------------------------------------------

    def fail_next(
        self,
        api: str | ApiKey,
        error: str | int | ErrorCode,
        *,
        times: int | None = 1,
        topic: str | None = None,
        client_id: str | None = None,
        applied: bool = False,
    ) -> Fault:
        """Refuse the next requests with this error, for all their partitions. With `applied` they are carried out
        anyway, but the client gets an error, as from a broker that crashes before it answers."""
        key, code = _api(api), _error(error)
        if key in IMPOSSIBLE:
            raise ValueError(f"{APIS[key].name} cannot be made to fail; `drop_next` can break its connection")
        fault = Fault(self, f"{APIS[key].name} fails with {code.name}", frozenset({key}), times, client_id, topic)

        def strike(api: ApiKey, request: Request, body: memoryview, handle: Handle) -> Answer:
            if not applied and api not in ANSWERED_FIRST:
                return _refusal(api, request, body, code)
            answer = handle(request, body)
            if answer is NO_REPLY:
                return answer
            return Intercepted(request, answer, lambda real, reply: reply(spoil(api, request, real, code)))

        fault.strike = strike
        return self._add(fault)

    def delay(
        self,
        api: str | ApiKey,
        seconds: float,
        *,
        times: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Carry out requests at once but answer them late, in the broker's time. Later responses of the same connection
        wait, too, because the protocol requires them in order."""
        key = _api(api)
        what = f"{APIS[key].name} is answered {seconds} s late"
        fault = Fault(self, what, frozenset({key}), times, client_id, topic)

        def strike(api: ApiKey, request: Request, body: memoryview, handle: Handle) -> Answer:
            answer = handle(request, body)
            if answer is NO_REPLY:
                return answer
            late = Intercepted(request, answer, lambda real, reply: late.after(seconds, real, reply))
            return late

        fault.strike = strike
        return self._add(fault)

    def drop_next(
        self,
        api: str | ApiKey,
        *,
        times: int | None = 1,
        topic: str | None = None,
        client_id: str | None = None,
        applied: bool = False,
    ) -> Fault:
        """Cut the connection instead of answering. With `applied` the request was carried out before. The client cannot
        know that; retries and idempotence must handle it."""
        key = _api(api)
        fault = Fault(self, f"{APIS[key].name} breaks the connection", frozenset({key}), times, client_id, topic)

        def strike(api: ApiKey, request: Request, body: memoryview, handle: Handle) -> Answer:
            def cut(real: Body | None = None, reply: Reply | None = None) -> None:
                _cut(request.session)

            answer = handle(request, body) if applied else NO_REPLY
            if answer is not NO_REPLY:
                return Intercepted(request, answer, cut)
            cut()
            return NO_REPLY

        fault.strike = strike
        return self._add(fault)

    def black_hole(
        self,
        api: str | ApiKey | None = None,
        *,
        times: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        """Neither carry out nor answer requests (of every API, if none is named), and keep the connection open. When
        the fault ends, the connections that lost requests are cut."""
        if api is None and topic is not None:
            raise ValueError("not every request names a topic: name the API, too")
        apis = frozenset(HANDLERS) if api is None else frozenset({_api(api)})
        what = "everything is swallowed" if api is None else f"{APIS[_api(api)].name} is swallowed"
        return self._add(BlackHole(self, what, apis, times, client_id, topic))

    def drop_connections(self, client_id: str | None = None) -> int:
        """Cut all open connections, or those of one client; returns their number."""

        def drop() -> int:
            sessions = [
                session
                for session in (self._broker.connections if self._broker is not None else ())
                if client_id is None or fnmatchcase(session.client_id, client_id)
            ]
            for session in sessions:
                _cut(session)
            return len(sessions)

        return self._do(drop)

    def refuse_connections(self, times: int | None = 1) -> Fault:
        """Cut the next connections as soon as they are accepted."""
        fault = Fault(self, "connections are refused", frozenset(), times)
        self._do(lambda: self._at_the_door.append(fault))
        return fault

    def clear(self) -> None:
        """End all faults."""
        for fault in list(self):
            fault.end()

    def remove(self, fault: Fault) -> None:
        def take_out() -> None:
            for faults in (self._faults, self._at_the_door):
                if fault in faults:
                    faults.remove(fault)
                    fault.ended()
            self._install()

        self._do(take_out)

    # -- broker side -----------------------------------------------------------------------------------------------

    def prepare(self, broker: Broker) -> None:
        """Install the faults. Called on the loop, before the broker starts."""
        self._broker = broker
        broker.connections = FaultyConnections(broker, self)
        self._handlers = {key: route.answer for key, route in broker.routes.items()}
        self._install()

    def attach(self, life: BrokerThread) -> None:
        self._life = life

    def detach(self) -> None:
        self._life = self._broker = None
        self._handlers = {}

    def refusal(self) -> str | None:
        """The reason to refuse the connection that was just accepted, or None."""
        if not self._at_the_door:
            return None
        fault = self._at_the_door[0]
        fault.count()
        if fault.used_up:
            self._at_the_door.remove(fault)
        return "a test injected this fault"

    def _do(self, action: Callable[[], T]) -> T:
        """Run an action on the broker's loop, if there is one."""
        return action() if self._life is None else self._life.call(action)

    def _add(self, fault: Fault) -> Fault:
        def put_in() -> None:
            self._faults.append(fault)
            self._install()

        self._do(put_in)
        return fault

    def _install(self) -> None:
        """Route an API through its faults, or directly to its handler if it has none."""
        if self._broker is None:
            return
        for key, route in self._broker.routes.items():
            api = ApiKey(key >> 16)
            handle = self._handlers[key]
            meant = any(api in fault.apis for fault in self._faults)
            route.answer = partial(self._answer, api, handle) if meant else handle

    def _answer(self, api: ApiKey, handle: Handle, request: Request, body: memoryview) -> Answer:
        for fault in self._faults:
            if api in fault.apis and fault.meets(api, request, body):
                fault.count()
                if fault.used_up:
                    # This does not end a black hole: it keeps the swallowed requests until the test ends it.
                    self._faults.remove(fault)
                    self._install()
                return fault.strike(api, request, body, handle)
        return handle(request, body)


def _refusal(api: ApiKey, request: Request, body: memoryview, code: ErrorCode) -> Answer:
    answer = refuse(api, request, body, code)
    if answer is not None:
        return list(answer)
    # A client with acks=0 notices an error as in production: its connection is closed.
    _cut(request.session)
    return NO_REPLY


def _cut(session: Session) -> None:
    if session.transport is not None:
        session.transport.abort()


def _api(name: str | ApiKey) -> ApiKey:
    if isinstance(name, ApiKey):
        return name
    known = {APIS[key].name: key for key in HANDLERS}
    if name in known:
        return known[name]
    near = get_close_matches(name, known, 1)
    raise ValueError(f"there is no API {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _error(error: str | int | ErrorCode) -> ErrorCode:
    if not isinstance(error, str):
        return ErrorCode(error)
    if error in ErrorCode.__members__:
        return ErrorCode[error]
    near = get_close_matches(error, ErrorCode.__members__, 1)
    raise ValueError(f"there is no error {error!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
