"""The metadata store in memory: what the store's rules mean, in their plainest form.

Many sessions can share one tree, which the embedded engine cannot offer; tests of failover and whole clusters in one
process stand on that. Nothing is kept when the process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.cluster.store import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    Event,
    EventKind,
    Listener,
    Node,
    Operation,
    Set,
    Store,
    StoreError,
    Watches,
    check_operations,
    events_of,
    split,
)


class _Owned(NamedTuple):
    node: Node
    owner: MemoryStore | None  # the session of an ephemeral node


class MemoryTree:
    """A tree that sessions share."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Owned] = {}
        self._commits = 0
        self._sessions: list[MemoryStore] = []

    def session(self) -> MemoryStore:
        session = MemoryStore(self)
        self._sessions.append(session)
        return session

    def get(self, path: str) -> Node | None:
        split(path)
        found = self._nodes.get(path)
        return None if found is None else found.node

    def children(self, path: str) -> list[str]:
        if path != "/":
            split(path)
        parent = "" if path == "/" else path
        return sorted(name for above, name in map(split, self._nodes) if above == parent)

    def commit(self, session: MemoryStore, operations: Sequence[Operation]) -> None:
        check_operations(operations)
        before = dict(self._nodes)
        self._commits += 1
        try:
            for operation in operations:
                self._apply(session, operation)
        except Conflict:
            self._nodes = before
            raise
        self._publish(events_of(operations))

    def end(self, session: MemoryStore) -> None:
        gone = [path for path, owned in self._nodes.items() if owned.owner is session]
        for path in gone:
            del self._nodes[path]
        self._sessions.remove(session)
        self._publish([Event(EventKind.DELETED, path) for path in gone])

    def _publish(self, events: Sequence[Event]) -> None:
        for session in list(self._sessions):
            session.watches.publish(events)

    def _apply(self, session: MemoryStore, operation: Operation) -> None:
        path = operation.path
        if isinstance(operation, Create):
            self._check_place(path)
            node = Node(operation.value, 0, self._commits, operation.ephemeral)
            self._nodes[path] = _Owned(node, session if operation.ephemeral else None)
            return
        owned = self._nodes.get(path)
        if owned is None:
            raise Conflict(path, "does not exist")
        node = owned.node
        if operation.version not in (ANY_VERSION, node.version):
            raise Conflict(path, f"is at version {node.version}, expected was {operation.version}")
        if isinstance(operation, Set):
            changed = node._replace(value=operation.value, version=node.version + 1)
            self._nodes[path] = _Owned(changed, owned.owner)
        elif isinstance(operation, Delete):
            if self.children(path):
                raise Conflict(path, "has children")
            del self._nodes[path]
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

    def __init__(self, tree: MemoryTree) -> None:
        self._tree = tree
        self._closed = False
        self.watches = Watches()

    async def get(self, path: str) -> Node | None:
        await self._answer()
        return self._tree.get(path)

    async def children(self, path: str) -> list[str]:
        await self._answer()
        return self._tree.children(path)

    async def read_children(self, path: str) -> dict[str, Node]:
        await self._answer()
        above = "" if path == "/" else path
        nodes = {name: self._tree.get(f"{above}/{name}") for name in self._tree.children(path)}
        return {name: node for name, node in nodes.items() if node is not None}

    async def commit(self, operations: Sequence[Operation]) -> None:
        await self._answer()
        self._tree.commit(self, operations)

    def watch(self, path: str, listener: Listener) -> Callable[[], None]:
        return self.watches.add(path, listener)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.watches.clear()
            self._tree.end(self)

    async def _answer(self) -> None:
        """As with any store, others run before the answer comes."""
        await asyncio.sleep(0)
        if self._closed:
            raise StoreError("the metadata store in memory: this session has ended")
