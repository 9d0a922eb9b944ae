"""Embedded metadata store: one SQLite file of one broker, without an external service.

Every commit is on disk when it returns (write-ahead log, synchronous=FULL). The file is locked exclusively, so a second
process gets a clear error instead of an inconsistent tree. Every value has a checksum, so a flipped bit is an error
instead of a wrong replica list. The blocking work runs in a thread, one call at a time.

It is not for clusters: a session is the process that has the file open. Ephemeral nodes of a killed process are deleted
when the next process opens the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sqlite3
import zlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar

from moldau.cluster.store import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    Listener,
    Operation,
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
from moldau.host.private_files import make_private
from moldau.host.tasks import outcome
from moldau.host.threads import Threads, ThreadsBusy, ThreadsClosed

LANE = "metadata"

# In the file's header ("Mold"), so that another program's database or a later layout is not mistaken for ours.
APPLICATION_ID = 0x4D6F6C64
LAYOUT_VERSION = 1

_SCHEMA = f"""
BEGIN;
CREATE TABLE nodes (
    parent    TEXT    NOT NULL,
    name      TEXT    NOT NULL,
    value     BLOB    NOT NULL,
    checksum  INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID;
CREATE TABLE counters (created INTEGER NOT NULL);
INSERT INTO counters VALUES (0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {LAYOUT_VERSION};
COMMIT;
"""

_COLUMNS = "value, checksum, version, created, ephemeral"

# Messages for the operator, by SQLite's result code: the extended code if it is listed, otherwise the primary code.
_EXPLAINED = {
    sqlite3.SQLITE_IOERR_LOCK: "it cannot be locked for writing (a read-only file or disk, or one without file locks)",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it cannot be written (a read-only file, directory or disk)",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened or made (a missing directory, or no permission)",
    sqlite3.SQLITE_PERM: "it cannot be opened (no permission)",
    sqlite3.SQLITE_BUSY: "another process has it open",
    sqlite3.SQLITE_LOCKED: "another process has it open",
    sqlite3.SQLITE_NOTADB: "it is not a metadata store of this program; move it away, or name another directory",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore it from a copy",
    sqlite3.SQLITE_IOERR: "the disk failed",
}

P = ParamSpec("P")
T = TypeVar("T")


class _DamagedError(Exception):
    """The data read differs from the data written."""


class SqliteStore(Store):
    """The tree in one SQLite file. Created by `await SqliteStore.open(path, threads)`."""

    shared = False
    session_timeout_s = math.inf

    def __init__(self, path: str, threads: Threads, connection: sqlite3.Connection) -> None:
        self._path = path
        self._threads = threads
        self._connection = connection
        self._one_at_a_time = asyncio.Lock()
        self._watches = Watches()
        self._closed = False

    @classmethod
    async def open(cls, path: str, threads: Threads) -> SqliteStore:
        """Open the file, or create it if it is missing. `StoreError` if it is damaged, of another program, locked or
        not writable."""
        return cls(path, threads, await _run(threads, path, _open, path))

    async def get(self, path: str) -> StoredNode | None:
        parent, name = split(path)
        return await self._alone(self._in_thread, self._get, parent, name)

    async def children(self, path: str) -> list[str]:
        return await self._alone(self._in_thread, self._children, _as_parent(path))

    async def read_children(self, path: str) -> dict[str, StoredNode]:
        return await self._alone(self._in_thread, self._read_children, _as_parent(path))

    async def commit(self, operations: Sequence[Operation]) -> None:
        check_operations(operations)
        await self._alone(self._commit_and_publish, operations)

    def watch(self, path: str, listener: Listener) -> Callable[[], None]:
        return self._watches.add(path, listener)

    async def sync(self) -> None:
        """Does nothing: there are no other sessions."""

    def on_session(self, _listener: SessionListener) -> Callable[[], None]:
        """Never called: the session is the open file."""
        return lambda: None

    async def close(self) -> None:
        if not self._closed:
            await self._alone(self._close)

    async def _alone(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one piece of work at a time, to its end.

        A caller may be cancelled while its statement runs in the thread. Without the shield, the next caller's
        statement would then run inside the same transaction, and the events of a commit that did happen would be lost.
        """

        async def exclusively() -> T:
            async with self._one_at_a_time:
                if self._closed:
                    raise StoreError(f"the metadata store {self._path} is closed")
                return await work(*args, **kwargs)

        return await outcome(asyncio.ensure_future(exclusively()))

    async def _in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _run(self._threads, self._path, call, *args, **kwargs)

    async def _commit_and_publish(self, operations: Sequence[Operation]) -> None:
        await self._in_thread(self._commit, operations)
        self._watches.publish(events_of(operations))

    async def _close(self) -> None:
        self._closed = True
        self._watches.clear()
        await self._in_thread(self._end_session)

    # ---------------------------------------------------------------------------------------- methods run in the thread

    def _get(self, parent: str, name: str) -> StoredNode | None:
        row = self._connection.execute(
            f"SELECT {_COLUMNS} FROM nodes WHERE parent = ? AND name = ?", (parent, name)
        ).fetchone()
        return None if row is None else _node(parent, name, row)

    def _children(self, parent: str) -> list[str]:
        rows = self._connection.execute("SELECT name FROM nodes WHERE parent = ? ORDER BY name", (parent,))
        return [name for (name,) in rows]

    def _read_children(self, parent: str) -> dict[str, StoredNode]:
        rows = self._connection.execute(f"SELECT name, {_COLUMNS} FROM nodes WHERE parent = ? ORDER BY name", (parent,))
        return {row[0]: _node(parent, row[0], row[1:]) for row in rows}

    def _commit(self, operations: Sequence[Operation]) -> None:
        with _transaction(self._connection):
            self._connection.execute("UPDATE counters SET created = created + 1")
            for operation in operations:
                self._apply(operation)

    def _apply(self, operation: Operation) -> None:
        parent, name = split(operation.path)
        if isinstance(operation, Create):
            return self._create(operation, parent, name)
        row = self._connection.execute(
            "SELECT version FROM nodes WHERE parent = ? AND name = ?", (parent, name)
        ).fetchone()
        if row is None:
            raise Conflict(operation.path, "does not exist")
        if operation.version not in (ANY_VERSION, row[0]):
            raise Conflict(operation.path, f"is at version {row[0]}, expected was {operation.version}")
        if isinstance(operation, Set):
            self._connection.execute(
                "UPDATE nodes SET value = ?, checksum = ?, version = version + 1 WHERE parent = ? AND name = ?",
                (operation.value, zlib.crc32(operation.value), parent, name),
            )
        elif isinstance(operation, Delete):
            if self._has_children(operation.path):
                raise Conflict(operation.path, "has children")
            self._connection.execute("DELETE FROM nodes WHERE parent = ? AND name = ?", (parent, name))
        else:
            assert isinstance(operation, Check)
        return None

    def _create(self, operation: Create, parent: str, name: str) -> None:
        if parent:
            above = self._connection.execute(
                "SELECT ephemeral FROM nodes WHERE parent = ? AND name = ?", split(parent)
            ).fetchone()
            if above is None:
                raise Conflict(operation.path, "its parent does not exist")
            if above[0]:
                raise Conflict(operation.path, "its parent is ephemeral and can have no children")
        try:
            self._connection.execute(
                "INSERT INTO nodes SELECT ?, ?, ?, ?, 0, created, ? FROM counters",
                (parent, name, operation.value, zlib.crc32(operation.value), operation.ephemeral),
            )
        except sqlite3.IntegrityError:
            raise Conflict(operation.path, "exists already") from None

    def _has_children(self, path: str) -> bool:
        row = self._connection.execute("SELECT 1 FROM nodes WHERE parent = ? LIMIT 1", (path,)).fetchone()
        return row is not None

    def _end_session(self) -> None:
        try:
            with _transaction(self._connection):
                self._connection.execute("DELETE FROM nodes WHERE ephemeral")
        except sqlite3.Error:
            pass  # for example a full disk: the next process that opens the file deletes them
        finally:
            self._connection.close()


def _as_parent(path: str) -> str:
    """The path as it is in the parent column of its children."""
    if path == "/":
        return ""
    split(path)
    return path


def _node(parent: str, name: str, row: tuple[bytes, int, int, int, int]) -> StoredNode:
    value, checksum, version, created, ephemeral = row
    if zlib.crc32(value) != checksum:
        raise _DamagedError(f"the value of {parent}/{name} does not match its checksum")
    return StoredNode(value, version, created, bool(ephemeral))


def _open(path: str) -> sqlite3.Connection:
    make_private(path)  # it may hold credentials; SQLite gives its write-ahead log the same permissions
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    # Set exclusive mode before the first access: then SQLite needs no shared-memory file and keeps the lock while open.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    application_id, layout = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    fresh = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0 and application_id == 0
    if not fresh and application_id != APPLICATION_ID:
        raise StoreError(f"the metadata store {path}: {_EXPLAINED[sqlite3.SQLITE_NOTADB]}")
    if not fresh and layout != LAYOUT_VERSION:
        raise StoreError(
            f"the metadata store {path}: its layout is version {layout}, this program knows {LAYOUT_VERSION}; "
            "use the version of the program that wrote it"
        )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # on macOS a plain fsync stops at the drive's cache
    if fresh:
        connection.executescript(_SCHEMA)
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise _DamagedError(" ".join(found.split()))
    with _transaction(connection):
        connection.execute("DELETE FROM nodes WHERE ephemeral")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value = connection.execute(f"PRAGMA {name}").fetchone()[0]
    assert isinstance(value, int)
    return value


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some failures (a full disk) have already rolled back
            connection.execute("ROLLBACK")
        raise


async def _run(threads: Threads, path: str, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a call in a thread, and turn every failure into one message for the operator."""
    try:
        return await threads.run(LANE, call, *args, **kwargs)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        # Extended codes carry the primary one in their low byte.
        explained = _EXPLAINED.get(code) or _EXPLAINED.get(code & 0xFF, "it cannot be used")
        raise StoreError(f"the metadata store {path}: {explained} ({error})") from error
    except _DamagedError as error:
        raise StoreError(f"the metadata store {path}: {_EXPLAINED[sqlite3.SQLITE_CORRUPT]} ({error})") from error
    except (ThreadsBusy, ThreadsClosed) as error:
        raise StoreError(f"the metadata store {path}: no thread is available ({error})") from error
