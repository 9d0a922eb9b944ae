"""The metadata store: a small tree of versioned values, changed by atomic commits that state what they expect.

The model is ZooKeeper's, so that an engine over it is a thin one: slash-separated paths, values of bytes, a version a
node that starts at 0 and grows by one with each change, nodes that vanish with the session that made them, and
commits of several operations that happen together or not at all. A store object is one session: it may lose touch with
its store and find it again (`SessionEvent`), and once it has expired it is of no more use: open another one.

It is not a database: values are small, there are no queries, and reads of several nodes are not one snapshot.
Whoever needs one states the versions it read in its commit, and starts over on `Conflict`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import ClassVar, NamedTuple, TypeVar

# ZooKeeper refuses messages above 1 MB (jute.maxbuffer): a value stays below it with room for path and header.
MAX_VALUE_BYTES = 1_000_000
MAX_PATH_CHARACTERS = 1_024
# Of one commit. The total size of a commit's values is the caller's to keep near MAX_VALUE_BYTES.
MAX_OPERATIONS = 10_000
# What callers with more to do put into one: it travels in one message of about 1 MB where the store is a service.
MAX_TOGETHER = 500
MAX_BYTES_TOGETHER = 800_000

ANY_VERSION = -1

T = TypeVar("T")


class StoreError(Exception):
    """The store cannot serve: its file is damaged, full, read-only or taken, or it was closed. The text says which."""


class Conflict(StoreError):
    """A commit's expectation did not hold, and nothing of it was done. Read again, decide again, try again."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(f"{path}: {expected}")
        self.path = path


class Node(NamedTuple):
    """A value as it was read.

    `created` is larger for every node created later, over the store's whole life: it tells two nodes that had the
    same path apart, where the version cannot, since both begin at 0.
    """

    value: bytes
    version: int
    created: int
    ephemeral: bool = False


class Create(NamedTuple):
    """Expects that the path does not exist and that its parent does, and is not ephemeral."""

    path: str
    value: bytes
    ephemeral: bool = False


class Set(NamedTuple):
    """Expects the node at this version (`ANY_VERSION`: at any), and gives it a value."""

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
    """What happened to a node."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


class Event(NamedTuple):
    """Something happened to a node that is watched. It carries no value: whoever wants that reads it."""

    kind: EventKind
    path: str


Listener = Callable[[Event], None]


class SessionEvent(Enum):
    """What became of a session that its owner did not end."""

    SUSPENDED = "suspended"
    """Out of touch: reads and commits fail, events may be missed, ephemeral nodes still stand."""
    RESUMED = "resumed"
    """In touch again, the session is the same. What happened meanwhile was not told: `sync`, then read again."""
    EXPIRED = "expired"
    """Over: its ephemeral nodes are gone, or will be. This Store object is dead."""


SessionListener = Callable[[SessionEvent], None]


class Store(ABC):
    """One session with a metadata store. Used from one event loop."""

    shared: ClassVar[bool]
    """Whether several brokers can meet in it. Where not, nobody else changes anything, and nobody needs to watch."""

    session_timeout_s: float
    """How long a session survives without touch."""

    last_contact: float
    """When, by the loop's clock, the latest request was sent that the store has answered: until `session_timeout_s`
    from then the session is not given up, and nobody else takes its owner for dead."""

    @abstractmethod
    async def get(self, path: str) -> Node | None:
        """The node, or None where there is none."""

    @abstractmethod
    async def children(self, path: str) -> list[str]:
        """The names (not paths) of the node's children, sorted; empty also where there is no such node."""

    @abstractmethod
    async def read_children(self, path: str) -> dict[str, Node]:
        """The node's children by name, sorted, in one go: what loading a thousand topics needs."""

    @abstractmethod
    async def commit(self, operations: Sequence[Operation]) -> None:
        """Does all operations in their order, or none of them: `Conflict` says whose expectation failed.

        When it returns, the change is on disk. After a StoreError other than Conflict it may or may not be: read
        again. A commit whose caller is cancelled happens wholly or not at all.
        """

    @abstractmethod
    def watch(self, path: str, listener: Listener) -> Callable[[], None]:
        """Calls the listener, on the loop, for each later change of the node and all below it; returns the end of it.

        Events come in the order of the commits. A listener must not raise.
        """

    @abstractmethod
    async def sync(self) -> None:
        """What anyone had committed before this call is seen by reads after it. Reads alone may be a little behind."""

    @abstractmethod
    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        """Calls the listener, on the loop, when the session is suspended, resumed or expired; returns the end of it."""

    @abstractmethod
    async def close(self) -> None:
        """Ends the session: its ephemeral nodes vanish."""

    async def get_each(self, paths: Sequence[str]) -> list[Node | None]:
        """The nodes of many paths, asked for at the same time."""
        return await asyncio.gather(*(self.get(path) for path in paths))

    async def ensure(self, paths: Sequence[str]) -> None:
        """Creates those nodes, empty, that are missing. Parents come before their children."""
        for path in paths:
            if await self.get(path) is None:
                try:
                    await self.commit([Create(path, b"")])
                except Conflict:
                    if await self.get(path) is None:  # not someone else creating it: the parent is missing
                        raise


OpenStore = Callable[[], Awaitable[Store]]
"""Every call is a new session with the same store. Raises StoreError."""


def split(path: str) -> tuple[str, str]:
    """Parent path and name; a child of the root has the parent "". `ValueError` for what is not a path."""
    if not path.startswith("/") or path.endswith("/") or "//" in path or "\0" in path:
        raise ValueError(f"not a path of the store: {path!r}")
    if len(path) > MAX_PATH_CHARACTERS:
        raise ValueError(f"a path of {len(path)} characters, at most {MAX_PATH_CHARACTERS} are allowed")
    parent, _, name = path.rpartition("/")
    if name in (".", ".."):
        raise ValueError(f"not a path of the store: {path!r}")
    return parent, name


def check_operations(operations: Sequence[Operation]) -> None:
    """What every engine refuses alike: `ValueError` for paths, values and commits outside the bounds."""
    if len(operations) > MAX_OPERATIONS:
        raise ValueError(f"{len(operations)} operations in one commit, at most {MAX_OPERATIONS} are allowed")
    for operation in operations:
        split(operation.path)
        if isinstance(operation, Create | Set) and len(operation.value) > MAX_VALUE_BYTES:
            raise ValueError(
                f"{operation.path}: a value of {len(operation.value)} bytes, at most {MAX_VALUE_BYTES} are allowed"
            )


def in_commits(parts: Iterable[T], operations_of: Callable[[T], Sequence[Operation]]) -> Iterator[list[T]]:
    """Parts of a large change in their order, as many at a time as one commit should carry; no part is divided."""
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
    """The listeners of an engine that makes its own events."""

    def __init__(self) -> None:
        # By watched path; within it, by number in the order they came: events reach listeners in a fixed order.
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
        """The path itself and every one above it."""
        found = [path]
        while path := path.rpartition("/")[0]:
            found.append(path)
        found.append("/")
        return found


def events_of(operations: Sequence[Operation]) -> list[Event]:
    """The events that a commit of these operations makes."""
    kinds: Mapping[type[Operation], EventKind] = {
        Create: EventKind.CREATED,
        Set: EventKind.CHANGED,
        Delete: EventKind.DELETED,
    }
    return [
        Event(kinds[type(operation)], operation.path) for operation in operations if not isinstance(operation, Check)
    ]
