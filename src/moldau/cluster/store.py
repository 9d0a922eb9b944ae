"""Metadata store interface: a small tree of versioned values, changed by atomic commits with expected versions.

The model is ZooKeeper's, so a store over ZooKeeper is thin: slash-separated paths, values of bytes, a version per node
that starts at 0 and increments with each change, ephemeral nodes that are deleted with the session that created them,
and commits of several operations that are applied together or not at all. A store object is one session. It may lose
its connection and restore it (`SessionEvent`). Once it has expired it cannot be used any more: open another one.

It is not a database: values are small, there are no queries, and reads of several nodes are not one snapshot. A caller
that needs a snapshot states the versions that it read in its commit, and starts again on `Conflict`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple, TypeVar

# ZooKeeper refuses messages above 1 MB (jute.maxbuffer): a value stays below that, with room for path and header.
MAX_VALUE_BYTES = 1_000_000
MAX_PATH_CHARACTERS = 1_024
# Limit of one commit. The caller keeps the total size of a commit's values near MAX_VALUE_BYTES.
MAX_OPERATIONS = 10_000
# Limits for callers that split a large change: a commit is one message of about 1 MB if the store is a service.
MAX_TOGETHER = 500
MAX_BYTES_TOGETHER = 800_000

ANY_VERSION = -1

T = TypeVar("T")


class StoreError(Exception):
    """The store failed: its file is damaged, full, read-only or locked, or it was closed. The message says which."""


class Conflict(StoreError):
    """An expectation of a commit did not hold, and nothing was changed. Read again, decide again, retry."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(f"{path}: {expected}")
        self.path = path


class StoredNode(NamedTuple):
    """A value as it was read.

    `created` is larger for every node created later, over the whole life of the store. It distinguishes two nodes that
    had the same path; the version cannot, because both begin at 0.
    """

    value: bytes
    version: int
    created: int
    ephemeral: bool = False


class Create(NamedTuple):
    """Expects that the path does not exist, and that its parent exists and is not ephemeral."""

    path: str
    value: bytes
    ephemeral: bool = False


class Set(NamedTuple):
    """Expects the node at this version (`ANY_VERSION`: at any), and sets its value."""

    path: str
    value: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Expects the node at this version (`ANY_VERSION`: at any), without children, and removes it."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Expects the node at this version (`ANY_VERSION`: at any), and changes nothing."""

    path: str
    version: int = ANY_VERSION


Operation = Create | Set | Delete | Check


class EventKind(Enum):
    """The kinds of changes of a node."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


class Event(NamedTuple):
    """A change of a watched node. It carries no value: a listener that needs the value reads the node."""

    kind: EventKind
    path: str


Listener = Callable[[Event], None]


class SessionEvent(Enum):
    """A change of a session that its owner did not request."""

    SUSPENDED = "suspended"
    """Disconnected: reads and commits fail, events may be missed, ephemeral nodes still exist."""
    RESUMED = "resumed"
    """Connected again, with the same session. Events may have been missed: call `sync`, then read again."""
    EXPIRED = "expired"
    """The session ended: its ephemeral nodes are deleted, or will be. This Store object cannot be used any more."""


SessionListener = Callable[[SessionEvent], None]


class Store(ABC):
    """One session with a metadata store. Used from one event loop."""

    shared: ClassVar[bool]
    """Whether several brokers can use it. If not, no other process changes anything, and watches are not needed."""

    session_timeout_s: float
    """How long a session survives without contact."""

    last_contact: float
    """When the latest answered request was sent, by the loop's clock. Until `session_timeout_s` after that the session
    does not expire, and no other broker considers its owner dead."""

    @abstractmethod
    async def get(self, path: str) -> StoredNode | None:
        """The node, or None if it does not exist."""

    @abstractmethod
    async def children(self, path: str) -> list[str]:
        """The names (not paths) of the node's children, sorted; empty also if the node does not exist."""

    @abstractmethod
    async def read_children(self, path: str) -> dict[str, StoredNode]:
        """The node's children by name, sorted, in one call, so that loading a thousand topics is fast."""

    @abstractmethod
    async def commit(self, operations: Sequence[Operation]) -> None:
        """Apply all operations in order, or none of them: `Conflict` names the path whose expectation failed.

        When it returns, the change is on disk. After a StoreError other than Conflict the change may or may not be
        stored: read again. If the caller is cancelled, the commit still happens completely or not at all.
        """

    @abstractmethod
    def watch(self, path: str, listener: Listener) -> Callable[[], None]:
        """Call the listener, on the loop, for each later change of the node and of all nodes below it. Returns a
        function that removes the listener.

        Events arrive in the order of the commits. A listener must not raise.
        """

    @abstractmethod
    async def sync(self) -> None:
        """After this call, reads see everything that any session committed before it. Reads alone may lag behind a
        little."""

    @abstractmethod
    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        """Call the listener, on the loop, when the session is suspended, resumed or expired. Returns a function that
        removes it."""

    @abstractmethod
    async def close(self) -> None:
        """End the session: its ephemeral nodes are deleted."""

    async def get_each(self, paths: Sequence[str]) -> list[StoredNode | None]:
        """The nodes of many paths, requested at the same time."""
        return await asyncio.gather(*(self.get(path) for path in paths))

    async def ensure(self, paths: Sequence[str]) -> None:
        """Create the missing nodes, without a value. `paths` lists parents before their children."""
        for path in paths:
            if await self.get(path) is None:
                try:
                    await self.commit([Create(path, b"")])
                except Conflict:
                    if await self.get(path) is None:  # no other session created it: the parent is missing
                        raise


OpenStore = Callable[[], Awaitable[Store]]
"""Opens a new session with the same store on every call. Raises StoreError."""


def split(path: str) -> tuple[str, str]:
    """Parent path and name; a child of the root has the parent "". `ValueError` if it is not a valid path."""
    if not path.startswith("/") or path.endswith("/") or "//" in path or "\0" in path:
        raise ValueError(f"not a path of the store: {path!r}")
    if len(path) > MAX_PATH_CHARACTERS:
        raise ValueError(f"a path of {len(path)} characters, at most {MAX_PATH_CHARACTERS} are allowed")
    parent, _, name = path.rpartition("/")
    if name in (".", ".."):
        raise ValueError(f"not a path of the store: {path!r}")
    return parent, name


def check_operations(operations: Sequence[Operation]) -> None:
    """The checks of every store: `ValueError` for invalid paths, and for values and commits above the limits."""
    if len(operations) > MAX_OPERATIONS:
        raise ValueError(f"{len(operations)} operations in one commit, at most {MAX_OPERATIONS} are allowed")
    for operation in operations:
        split(operation.path)
        if isinstance(operation, Create | Set) and len(operation.value) > MAX_VALUE_BYTES:
            raise ValueError(
                f"{operation.path}: a value of {len(operation.value)} bytes, at most {MAX_VALUE_BYTES} are allowed"
            )


def in_commits(parts: Iterable[T], operations_of: Callable[[T], Sequence[Operation]]) -> Iterator[list[T]]:
    """Group the parts of a large change, in order, into commits within the limits. A part is never divided."""
    group: list[T] = []
    size = 0
    for part in parts:
        added = sum(len(one.path) + len(getattr(one, "value", b"")) for one in operations_of(part))
        if group and (len(group) == MAX_TOGETHER or size + added > MAX_BYTES_TOGETHER):
            yield group
            group, size = [], 0
        group.append(part)
        size += added
    if group:
        yield group


class Watches:
    """The listeners of a store, by watched path."""

    def __init__(self) -> None:
        # By watched path; within it, by number in the order of registration: events reach listeners in a fixed order.
        self._by_path: dict[str, dict[int, Listener]] = {}
        self._next = 0

    def add(self, path: str, listener: Listener) -> Callable[[], None]:
        if path != "/":
            split(path)
        number = self._next
        self._next += 1
        self._by_path.setdefault(path, {})[number] = listener

        def end() -> None:
            listeners = self._by_path.get(path, {})
            listeners.pop(number, None)
            if not listeners:
                self._by_path.pop(path, None)

        return end

    def publish(self, events: Sequence[Event]) -> None:
        if not self._by_path:
            return
        for event in events:
            for path in self._watched_of(event.path):
                for listener in list(self._by_path.get(path, {}).values()):
                    listener(event)

    def clear(self) -> None:
        self._by_path.clear()

    @staticmethod
    def _watched_of(path: str) -> list[str]:
        """The path itself and all its ancestors."""
        found = [path]
        while path := path.rpartition("/")[0]:
            found.append(path)
        found.append("/")
        return found


def events_of(operations: Sequence[Operation]) -> list[Event]:
    """The events that a commit of these operations causes."""
    kinds: Mapping[type[Operation], EventKind] = {
        Create: EventKind.CREATED,
        Set: EventKind.CHANGED,
        Delete: EventKind.DELETED,
    }
    return [
        Event(kinds[type(operation)], operation.path) for operation in operations if not isinstance(operation, Check)
    ]
