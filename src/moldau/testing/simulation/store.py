"""Session of the simulated metadata store: requests, responses and events over the simulated network.

A session whose pings do not arrive expires. A session that loses its connection does not know the result of its commits
and misses events. When it is connected again, it learns whether it still exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from moldau.cluster.memory_store import MemoryStore
from moldau.cluster.store import (
    Conflict,
    Event,
    Listener,
    Operation,
    SessionEvent,
    SessionListener,
    Store,
    StoredNode,
    StoreError,
    Watches,
    check_operations,
    split,
)
from moldau.testing.simulation.ensemble import Channel, SimulatedEnsemble, StoreServer, Way

T = TypeVar("T")

PINGS = 6
"""The number of pings within a session timeout."""
SILENCE = 1 / 2
"""The share of the session timeout after which a connection without a response is closed."""


class SimulatedStore(Store):
    """One session."""

    shared = True

    def __init__(
        self, ensemble: SimulatedEnsemble, there: Way, back: Way, deliver: Callable[[Callable[[], None]], None] | None
    ) -> None:
        self.session_timeout_s = ensemble.session_timeout_s
        self.ended = False
        """The ensemble has expired the session, or it was closed."""
        self.seen = 0
        self.heard_at = 0.0
        self.owner: MemoryStore
        self.server: StoreServer
        self.watches = Watches()
        self._ensemble = ensemble
        self._there = Channel(there)
        self._back = Channel(back)
        self._deliver = deliver or (lambda action: action())
        self._connected = False
        self._dead = False
        """This side knows that the session has ended."""
        self._connection = 0
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._answered_at = self.last_contact = 0.0
        self._listeners: dict[object, SessionListener] = {}
        self._timer: asyncio.TimerHandle | None = None

    # -- session ---------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        made: asyncio.Future[None] = loop.create_future()

        def welcome() -> None:
            if not made.done():
                made.set_result(None)

        def knock() -> None:
            self._ensemble.begin(self)
            self._ensemble.attach(self)
            self.answer(welcome, on_any_connection=True)

        self._there.send(knock)
        try:
            async with asyncio.timeout(self.session_timeout_s):
                await made
        except TimeoutError:
            self._dead = True
            raise StoreError("the simulated store: no server answers") from None
        self._connected = True
        self._pong(began_at)
        self._tick()

    def _tick(self) -> None:
        """Runs at intervals in the session's own process: sends pings, and notices missing responses."""
        loop = asyncio.get_running_loop()
        if self._dead:
            return
        if self._connected and loop.time() - self._answered_at > self.session_timeout_s * SILENCE:
            self.break_connection()
        self._there.send(partial(self._pinged if self._connected else self._asked_to_resume, loop.time()))
        self._timer = loop.call_later(self.session_timeout_s / PINGS, self._tick)

    def _pinged(self, sent_at: float) -> None:
        if self._still_there():
            self.answer(partial(self._pong, sent_at))

    def _still_there(self) -> bool:
        """Runs at the server whenever it hears from the session."""
        if self.ended:
            self.answer(self.expired, on_any_connection=True)
            return False
        self.heard_at = asyncio.get_running_loop().time()
        return True

    def _pong(self, sent_at: float) -> None:
        self._answered_at = asyncio.get_running_loop().time()
        self.last_contact = max(self.last_contact, sent_at)

    def _asked_to_resume(self, sent_at: float) -> None:
        if self._still_there():
            self._ensemble.attach(self)
            self.answer(partial(self._resumed, sent_at), on_any_connection=True)

    def _resumed(self, sent_at: float) -> None:
        if self._connected or self._dead:
            return
        self._connected = True
        self._pong(sent_at)
        self._notify(SessionEvent.RESUMED)

    def break_connection(self) -> None:
        """Lose the connection to the server. Some of the requests in flight arrive; all responses are lost."""
        if not self._connected or self._dead:
            return
        self._connected = False
        self._connection += 1
        under_way = self._there.drop()
        self._back.drop()
        for action in under_way[: self._ensemble.random.randint(0, len(under_way))]:
            self._there.send(action)
        self._fail_pending("the connection was lost; the result of the request is not known")
        self._notify(SessionEvent.SUSPENDED)

    def expired(self) -> None:
        if self._dead:
            return
        self._end_here("the session has expired")
        self._notify(SessionEvent.EXPIRED)

    def _end_here(self, why: str) -> None:
        self._dead = True
        self._connected = False
        if self._timer is not None:
            self._timer.cancel()
        self._fail_pending(why)

    def _fail_pending(self, why: str) -> None:
        pending, self._pending = self._pending, {}
        for future in pending:
            if not future.done():
                future.set_exception(StoreError(f"the simulated store: {why}"))

    def _notify(self, event: SessionEvent) -> None:
        for listener in list(self._listeners.values()):
            listener(event)

    # -- server side -----------------------------------------------------------------------------------------------

    def answer(self, action: Callable[[], None], *, on_any_connection: bool = False) -> None:
        """Run an action on the session's side, after everything that was sent before."""
        connection = self._connection

        def arrive() -> None:
            if on_any_connection or (self._connected and connection == self._connection):
                action()

        self._back.send(lambda: self._deliver(arrive))

    def server_tells(self, events: Sequence[Event], applied: int) -> None:
        def publish() -> None:
            self.seen = max(self.seen, applied)
            self.watches.publish(events)

        self.answer(publish)

    # -- reading and writing ---------------------------------------------------------------------------------------

    async def _ask(self, work: Callable[[Callable[[T | Exception], None]], None]) -> T:
        """Run `work` at the server, in the order of the requests; it gets a function for its result."""
        if self._dead:
            raise StoreError("the simulated store: this session has ended")
        if not self._connected:
            raise StoreError("the simulated store: disconnected")
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._pending[answered] = None

        def take(result: T | Exception) -> None:
            if answered not in self._pending:
                return  # the connection was lost, or the caller was cancelled
            del self._pending[answered]
            if answered.done():
                return
            if isinstance(result, Exception):
                answered.set_exception(result)
            else:
                answered.set_result(result)

        def reply(result: T | Exception) -> None:
            self.answer(lambda: take(result))

        def arrive() -> None:
            if self._still_there():
                work(reply)

        self._there.send(arrive)
        return await answered

    async def get(self, path: str) -> StoredNode | None:
        split(path)
        return await self._ask(lambda reply: reply(self.server.get(path)))

    async def get_each(self, paths: Sequence[str]) -> list[StoredNode | None]:
        for path in paths:
            split(path)
        return await self._ask(lambda reply: reply([self.server.get(path) for path in paths]))

    async def children(self, path: str) -> list[str]:
        return list(await self.read_children(path))

    async def read_children(self, path: str) -> dict[str, StoredNode]:
        return await self._ask(lambda reply: reply(self.server.read_children(path)))

    async def commit(self, operations: Sequence[Operation]) -> None:
        check_operations(operations)

        def work(reply: Callable[[Exception | None], None]) -> None:
            try:
                self._ensemble.commit(self, operations)
            except Conflict as conflict:
                result: Exception | None = conflict
            else:
                result = None
            # A session sees its own commits, and after a conflict the reason for it: a server answers after it has
            # applied all commits ordered before, also when it refuses one.
            self.server.catch_up(self._ensemble.index)
            reply(result)

        await self._ask(work)

    async def sync(self) -> None:
        def work(reply: Callable[[None], None]) -> None:
            self.server.when_applied(self._ensemble.index, lambda: reply(None))

        await self._ask(work)

    def watch(self, path: str, listener: Listener) -> Callable[[], None]:
        return self.watches.add(path, listener)

    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    async def close(self) -> None:
        self.watches.clear()
        self._listeners.clear()
        if self._connected:
            try:
                async with asyncio.timeout(self.session_timeout_s):
                    await self._ask(self._close_at_server)
            except (StoreError, TimeoutError):
                pass  # the session will expire
        self._end_here("this session has ended")

    def _close_at_server(self, reply: Callable[[None], None]) -> None:
        self._ensemble.end(self)
        reply(None)
