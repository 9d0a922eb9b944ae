"""Metadata store in memory: the simplest implementation of the store's rules.

Many sessions can share one tree, which the embedded SQLite store cannot offer. Tests of failover and of whole clusters
in one process rely on it, also when each broker runs in its own thread with its own loop. A test can suspend a session,
resume it, or let it expire. Nothing is kept when the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from moldau.cluster.store import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    Event,
    EventKind,
    Listener,
    Operation,
    SessionEvent,
    SessionListener,
    Set,
    Store,
    StoredNode,
    StoreError,
    Watches,
    check_operations,
    events_of,
    split,
)

SESSION_TIMEOUT_S: Final = 6.0


class _Owned(NamedTuple):
    node: StoredNode
    owner: MemoryStore | None  # the session of an ephemeral node


class MemoryTree:
    """A tree that sessions share."""

    def __init__(self, session_timeout_s: float = SESSION_TIMEOUT_S) -> None:
        self.session_timeout_s: Final = session_timeout_s
        self._nodes: dict[str, _Owned] = {}
        self._names: dict[str, dict[str, None]] = {}  # names of the children, by parent
        self._commits = 0
        self._sessions: list[MemoryStore] = []
        # Sessions may run in several threads. No code waits while it holds the lock.
        self._lock = threading.RLock()

    def session(self) -> MemoryStore:
        return self.join(MemoryStore(self))

    async def open(self) -> MemoryStore:
        """A new session, in the form of `OpenStore`."""
        return self.session()

    def join(self, session: MemoryStore) -> MemoryStore:
        with self._lock:
            self._sessions.append(session)
        return session

    # -- session events, for tests ---------------------------------------------------------------------------------

    def suspend(self, session: MemoryStore) -> None:
        """Disconnect the session: its calls fail, and it receives no events."""
        with self._lock:
            session.suspend()
        session.tell(SessionEvent.SUSPENDED)

    def resume(self, session: MemoryStore) -> None:
        """Reconnect the session. It does not receive the missed events, except that it expired."""
        with self._lock:
            session.suspended = False
        session.tell(SessionEvent.EXPIRED if session.ended else SessionEvent.RESUMED)

    def expire(self, session: MemoryStore) -> None:
        """Expire the session: its ephemeral nodes are deleted. The session is notified unless it is disconnected."""
        self.end(session)
        if not session.suspended:
            session.tell(SessionEvent.EXPIRED)

    # -- reading and writing ---------------------------------------------------------------------------------------

    def get(self, path: str) -> StoredNode | None:
        split(path)
        with self._lock:  # never read half of another thread's commit
            found = self._nodes.get(path)
        return None if found is None else found.node

    def children(self, path: str) -> list[str]:
        if path != "/":
            split(path)
        with self._lock:
            return sorted(self._names.get("" if path == "/" else path, ()))

    def read_children(self, path: str) -> dict[str, StoredNode]:
        above = "" if path == "/" else path
        with self._lock:
            return {name: self._nodes[f"{above}/{name}"].node for name in self.children(path)}

    def commit(self, session: MemoryStore, operations: Sequence[Operation]) -> None:
        check_operations(operations)
        with self._lock:
            before: dict[str, _Owned | None] = {}
            self._commits += 1
            try:
                for operation in operations:
                    before.setdefault(operation.path, self._nodes.get(operation.path))
                    self._apply(session, operation)
            except Conflict:
                for path, owned in before.items():
                    self._put(path, owned)
                raise
            self._publish(events_of(operations))

    def end(self, session: MemoryStore) -> None:
        with self._lock:
            if session not in self._sessions:
                return
            self._sessions.remove(session)
            gone = [path for path, owned in self._nodes.items() if owned.owner is session]
            for path in gone:
                self._put(path, None)
            session.ended = True
            self._publish([Event(EventKind.DELETED, path) for path in gone])

    def _publish(self, events: Sequence[Event]) -> None:
        for session in list(self._sessions):
            session.happened(events)

    def _put(self, path: str, owned: _Owned | None) -> None:
        parent, name = split(path)
        if owned is not None:
            self._nodes[path] = owned
            self._names.setdefault(parent, {})[name] = None
        elif self._nodes.pop(path, None) is not None:
            del self._names[parent][name]

    def _apply(self, session: MemoryStore, operation: Operation) -> None:
        path = operation.path
        if isinstance(operation, Create):
            self._check_place(path)
            node = StoredNode(operation.value, 0, self._commits, operation.ephemeral)
            self._put(path, _Owned(node, session if operation.ephemeral else None))
            return
        owned = self._nodes.get(path)
        if owned is None:
            raise Conflict(path, "does not exist")
        node = owned.node
        if operation.version not in (ANY_VERSION, node.version):
            raise Conflict(path, f"is at version {node.version}, expected was {operation.version}")
        if isinstance(operation, Set):
            changed = node._replace(value=operation.value, version=node.version + 1)
            self._put(path, _Owned(changed, owned.owner))
        elif isinstance(operation, Delete):
            if self._names.get(path):
                raise Conflict(path, "has children")
            self._put(path, None)
        else:
            assert isinstance(operation, Check)

    def _check_place(self, path: str) -> None:
        parent, _ = split(path)
        above = self._nodes.get(parent)
        if parent and above is None:
            raise Conflict(path, "its parent does not exist")
        if above is not None and above.node.ephemeral:
            raise Conflict(path, "its parent is ephemeral and can have no children")
        if path in self._nodes:
            raise Conflict(path, "exists already")


class MemoryStore(Store):
    """One session with a tree in memory. Made by `MemoryTree().session()`."""

    shared = True

    def __init__(self, tree: MemoryTree) -> None:
        self.session_timeout_s = tree.session_timeout_s
        self.suspended = False
        self.ended = False
        self.watches = Watches()
        self._tree = tree
        self._session_listeners: dict[int, SessionListener] = {}
        self._listeners_added = 0
        self._notifications: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop of the listeners
        self._suspended_at = 0.0

    @property
    def last_contact(self) -> float:  # type: ignore[override]
        """The current time while connected, otherwise the time of the disconnection."""
        return self._suspended_at if self.suspended else asyncio.get_running_loop().time()

    def suspend(self) -> None:
        if not self.suspended and self._loop is not None:
            self._suspended_at = self._loop.time()
        self.suspended = True

    async def get(self, path: str) -> StoredNode | None:
        await self._answer()
        return self._tree.get(path)

    async def get_each(self, paths: Sequence[str]) -> list[StoredNode | None]:
        await self._answer()
        return [self._tree.get(path) for path in paths]

    async def children(self, path: str) -> list[str]:
        await self._answer()
        return self._tree.children(path)

    async def read_children(self, path: str) -> dict[str, StoredNode]:
        await self._answer()
        return self._tree.read_children(path)

    async def commit(self, operations: Sequence[Operation]) -> None:
        await self._answer()
        self._tree.commit(self, operations)

    async def sync(self) -> None:
        await self._answer()

    def watch(self, path: str, listener: Listener) -> Callable[[], None]:
        self._loop = _running_loop()
        return self.watches.add(path, listener)

    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        self._loop = _running_loop()
        self._listeners_added += 1
        number = self._listeners_added
        self._session_listeners[number] = listener
        return lambda: self._session_listeners.pop(number, None) and None

    async def close(self) -> None:
        self.watches.clear()
        self._session_listeners.clear()
        self._tree.end(self)

    # -- notifications from the tree, in any thread ----------------------------------------------------------------

    def happened(self, events: Sequence[Event]) -> None:
        if not self.suspended:
            self._notifications.append(lambda: self.watches.publish(events))
            self._notify_on_loop()

    def tell(self, event: SessionEvent) -> None:
        def listeners() -> None:
            for listener in list(self._session_listeners.values()):
                listener(event)

        self._notifications.append(listeners)
        self._notify_on_loop()

    def _notify_on_loop(self) -> None:
        """Notify at once if the session's loop is running in this thread, otherwise on that loop, in the order of
        commits."""
        loop = self._loop
        if loop is None or loop is _running_loop():
            self._notify_all()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: its broker crashed
                loop.call_soon_threadsafe(self._notify_all)

    def _notify_all(self) -> None:
        while self._notifications:
            self._notifications.popleft()()

    async def _answer(self) -> None:
        """Let other tasks run first, as every real store does."""
        await asyncio.sleep(0)
        if self.suspended:
            raise StoreError("the metadata store in memory: disconnected")
        if self.ended:
            raise StoreError("the metadata store in memory: this session has ended")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
