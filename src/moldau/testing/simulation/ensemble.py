"""Servers of the simulated metadata store: the order of commits, and the lag of each server.

`MemoryTree` defines the effect of a commit. This module adds the behaviour of a real ensemble: a leader orders commits,
and they reach the other servers later. A session is connected to one server, so its reads show an older prefix of the
commits until it calls `sync`. Events arrive after their commits, in order, and always before a read that would show the
change. A session expires if the ensemble does not hear from it for its timeout.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context
from random import Random
from typing import TYPE_CHECKING, Protocol

from moldau.cluster.memory_store import MemoryStore, MemoryTree
from moldau.cluster.store import Event, Operation, StoredNode, split

if TYPE_CHECKING:
    from moldau.testing.simulation.store import SimulatedStore

SERVERS = 3


class Way(Protocol):
    """One direction between a session and the ensemble, for example a `network.Link`."""

    def delay_s(self) -> float: ...

    def pass_or_wait(self, action: Callable[[], None]) -> None: ...


class Direct:
    """A direction without delay or failures."""

    def delay_s(self) -> float:
        return 0.0

    def pass_or_wait(self, action: Callable[[], None]) -> None:
        action()


class Channel:
    """The messages of one session in one direction, in order."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()
        self._busy = False
        self._last_due = 0.0
        self._context = Context()

    def send(self, action: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._last_due = max(loop.time() + self._way.delay_s(), self._last_due)
        self._queue.append((self._last_due, action))
        if not self._busy:
            self._busy = True
            loop.call_at(self._last_due, self._way.pass_or_wait, self._arrive, context=self._context)

    def drop(self) -> list[Callable[[], None]]:
        """Drop the messages in flight, and return them in order."""
        dropped = [action for _, action in self._queue]
        self._queue.clear()
        return dropped

    def _arrive(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue and self._queue[0][0] <= loop.time():
            self._queue.popleft()[1]()
        self._busy = bool(self._queue)
        if self._busy:
            loop.call_at(self._queue[0][0], self._way.pass_or_wait, self._arrive, context=self._context)


class Change:
    """One commit as servers apply it: the new nodes and the events."""

    def __init__(self, nodes: dict[str, StoredNode | None], events: Sequence[Event]) -> None:
        self.nodes = nodes
        self.events = events


class StoreServer:
    """One server of the ensemble, which has applied a prefix of the commits."""

    def __init__(self, ensemble: SimulatedEnsemble, lag_s: float) -> None:
        self.lag_s = lag_s
        """Maximum delay after which it applies a commit of the leader."""
        self.applied = 0
        self.sessions: dict[SimulatedStore, None] = {}
        self._ensemble = ensemble
        self._view: dict[str, StoredNode] = {}
        self._queue = Channel(self)
        self._waiting: list[tuple[int, Callable[[], None]]] = []

    def delay_s(self) -> float:
        return self.lag_s * self._ensemble.random.random()

    def pass_or_wait(self, action: Callable[[], None]) -> None:
        action()

    def learn(self, index: int) -> None:
        """Receive a commit from the leader."""
        if self.lag_s:
            self._queue.send(lambda: self.catch_up(index))
        else:
            self.catch_up(index)

    def catch_up(self, index: int) -> None:
        while self.applied < index:
            change = self._ensemble.changes[self.applied]
            self.applied += 1
            for path, node in change.nodes.items():
                if node is None:
                    self._view.pop(path, None)
                else:
                    self._view[path] = node
            for session in list(self.sessions):
                session.server_tells(change.events, self.applied)
        ready = [action for wanted, action in self._waiting if wanted <= self.applied]
        self._waiting = [one for one in self._waiting if one[0] > self.applied]
        for action in ready:
            action()

    def when_applied(self, index: int, action: Callable[[], None]) -> None:
        if index <= self.applied:
            action()
        else:
            self._waiting.append((index, action))

    def get(self, path: str) -> StoredNode | None:
        split(path)
        return self._view.get(path)

    def read_children(self, path: str) -> dict[str, StoredNode]:
        if path != "/":
            split(path)
        above = "" if path == "/" else path
        found = {}
        for other, node in self._view.items():
            parent, _, name = other.rpartition("/")
            if parent == above:
                found[name] = node
        return dict(sorted(found.items()))


class SimulatedEnsemble:
    """All servers, and the order of all commits."""

    def __init__(self, seed: int, session_timeout_s: float = 6.0, lag_s: float = 0.0) -> None:
        self.random = Random(seed)
        self.session_timeout_s = session_timeout_s
        self.changes: list[Change] = []
        self.servers = [StoreServer(self, lag_s if index else 0.0) for index in range(SERVERS)]
        self.sessions: dict[SimulatedStore, None] = {}
        self.on_commit: Callable[[Change], None] | None = None
        self._tree = MemoryTree()
        self._observer = _Observer(self._tree, self._committed)
        self._tree.join(self._observer)

    async def open(
        self,
        there: Way | None = None,
        back: Way | None = None,
        deliver: Callable[[Callable[[], None]], None] | None = None,
    ) -> SimulatedStore:
        """Open a new session. `deliver` runs a callback in the session's process."""
        from moldau.testing.simulation.store import SimulatedStore

        session = SimulatedStore(self, there or Direct(), back or Direct(), deliver)
        await session.connect()
        return session

    @property
    def index(self) -> int:
        """The number of commits."""
        return len(self.changes)

    def _committed(self, events: Sequence[Event]) -> None:
        nodes = {event.path: self._tree.get(event.path) for event in events}
        change = Change(nodes, events)
        self.changes.append(change)
        if self.on_commit is not None:
            self.on_commit(change)

    def commit(self, session: SimulatedStore, operations: Sequence[Operation]) -> None:
        """Order a commit, as the leader; `Conflict` if an expectation fails."""
        self._tree.commit(session.owner, operations)
        self._spread()

    def end(self, session: SimulatedStore) -> None:
        """End a session: its ephemeral nodes are deleted."""
        session.ended = True
        self.sessions.pop(session, None)
        for server in self.servers:
            server.sessions.pop(session, None)
        self._tree.end(session.owner)
        self._spread()

    def expire(self, session: SimulatedStore) -> None:
        """Expire a session, and notify it if it is reachable."""
        if not session.ended:
            self.end(session)
            session.answer(session.expired, on_any_connection=True)

    def _spread(self) -> None:
        for server in self.servers:
            server.learn(self.index)

    def begin(self, session: SimulatedStore) -> None:
        """Register a new session. It lives as long as the ensemble hears from it."""
        session.owner = self._tree.session()
        self.sessions[session] = None
        session.heard_at = asyncio.get_running_loop().time()
        self._watch_over(session)

    def _watch_over(self, session: SimulatedStore) -> None:
        loop = asyncio.get_running_loop()
        due = session.heard_at + self.session_timeout_s
        if session.ended:
            return
        if loop.time() >= due:
            self.expire(session)
        else:
            loop.call_at(due, self._watch_over, session, context=Context())

    def attach(self, session: SimulatedStore) -> None:
        """Connect a session to a server that has applied all commits that the session has seen."""
        for server in self.servers:
            server.sessions.pop(session, None)
        fit = [server for server in self.servers if server.applied >= session.seen]
        session.server = self.random.choice(fit)
        session.server.sessions[session] = None


class _Observer(MemoryStore):
    """Receives every commit of the tree, in order."""

    def __init__(self, tree: MemoryTree, committed: Callable[[Sequence[Event]], None]) -> None:
        super().__init__(tree)
        self._committed = committed

    def happened(self, events: Sequence[Event]) -> None:
        if events:
            self._committed(events)
