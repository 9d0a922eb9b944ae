"""Index file: one SQLite database with the latest record per key of a topic, and the next offset per partition.

Rows and offsets change in one transaction, so a killed process continues where its last transaction ended. One thread
writes. Any number of threads read, each in a snapshot that also has the offsets: a reader knows what its answer
includes. A file that is damaged, or that another version has written, is deleted: the topic has all its content.

SQLite never calls fsync here, because an fsync would delay answers. The death of the process loses nothing, but a loss
of power may damage the file. So the file names the boot of the machine in which it was written, and a file of another
boot is deleted.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.client.errors import MoldauError
from moldau.host.boot import boot_id
from moldau.host.fs import LocalFileSystem

APPLICATION_ID: Final = 0x4D6F6C49
"""In the file's header, so that the database of another program is not taken for an index."""
LAYOUT_VERSION: Final = 1
FILE: Final = "index.sqlite"
CACHE_KIB: Final = 64 * 1024
"""The page cache of the writer. Keys arrive in random order: a small cache reads and writes pages again and again."""
READER_CACHE_KIB: Final = 4 * 1024
MAX_IDLE_READERS: Final = 16
BUSY_TIMEOUT_S: Final = 30.0
CHECKPOINT_PAGES: Final = 1_000
"""The pages of 4 KiB in the write-ahead log after which they are moved into the database."""
BOOT: Final = "boot"

_SCHEMA: Final = f"""
BEGIN;
CREATE TABLE IF NOT EXISTS latest (
    lookup    BLOB    NOT NULL,
    key       BLOB    NOT NULL,
    partition INTEGER NOT NULL,
    value     BLOB    NOT NULL,
    offset    INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    PRIMARY KEY (lookup, key, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {LAYOUT_VERSION};
COMMIT;
"""

_PUT: Final = "INSERT OR REPLACE INTO latest VALUES (?, ?, ?, ?, ?, ?)"
_REMOVE: Final = "DELETE FROM latest WHERE lookup = ? AND key = ? AND partition = ?"
_GET: Final = "SELECT key, partition, value, offset, timestamp FROM latest WHERE lookup = ? ORDER BY key, partition"
_PUT_POSITION: Final = "INSERT OR REPLACE INTO positions VALUES (?, ?)"
_PUT_FACT: Final = "INSERT OR REPLACE INTO facts VALUES (?, ?)"


class IndexedRecord(NamedTuple):
    """The latest record of a key. `timestamp` is in milliseconds since 1970."""

    key: bytes
    partition: int
    value: bytes
    offset: int
    timestamp: int


StoredRow = tuple[bytes, bytes, int, bytes, int, int]
"""lookup, key (empty if it is the lookup), partition, value, offset, timestamp."""
RowId = tuple[bytes, bytes, int]


@dataclass(frozen=True)
class IndexChanges:
    """What a batch of records changes: the last record of each key, and the next offset of each partition."""

    puts: Sequence[StoredRow] = ()
    removals: Sequence[RowId] = ()
    positions: Mapping[int, int] = field(default_factory=dict)


class IndexUnusable(MoldauError):
    """The file cannot be read, or the index was closed."""


class PositionsMoved(Exception):
    """Another process has changed the index."""


class IndexSnapshot:
    """The index at one moment. Valid inside of `IndexStore.snapshot`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def positions(self) -> dict[int, int]:
        return dict(self._connection.execute("SELECT partition, next_offset FROM positions"))

    def fact(self, name: str) -> bytes | None:
        found = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else bytes(found[0])

    def count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM latest").fetchone()[0])

    def get(self, lookups: Sequence[bytes]) -> list[IndexedRecord]:
        found = []
        for lookup in lookups:
            for key, *others in self._connection.execute(_GET, (lookup,)):
                found.append(IndexedRecord(key or lookup, *others))
        return found


class IndexStore:
    """The database. `apply` and `clear` are called by one thread, `snapshot` by any."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = f"{directory}/{FILE}"
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._writer = self._opened()

    def close(self) -> None:
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in (*idle, self._writer):
            connection.close()

    # -- the writer's thread -------------------------------------------------------------------------------------------

    def apply(
        self, changes: IndexChanges, expected: Mapping[int, int], facts: Mapping[str, bytes] | None = None
    ) -> None:
        """Store all changes, or none. Raises PositionsMoved unless the stored positions are the `expected` ones.

        Two processes may use one index for a moment, for example a server that was frozen and the one that replaced
        it. Without the check the slower one could overwrite rows with older ones, while the other has already stored
        a later position.
        """
        with self._transaction() as writer:
            if IndexSnapshot(writer).positions() != expected:
                raise PositionsMoved("another process writes this index")
            if changes.removals:
                writer.executemany(_REMOVE, changes.removals)
            if changes.puts:
                writer.executemany(_PUT, changes.puts)
            writer.executemany(_PUT_POSITION, changes.positions.items())
            writer.executemany(_PUT_FACT, (facts or {}).items())

    def clear(self, facts: Mapping[str, bytes]) -> None:
        """Remove all rows and offsets, and set these facts. Questions wait until the topic is read again."""
        with self._transaction() as writer:
            writer.execute("DELETE FROM latest")
            writer.execute("DELETE FROM positions")
            writer.executemany(_PUT_FACT, facts.items())

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        writer = self._writer
        writer.execute("BEGIN IMMEDIATE")
        try:
            yield writer
        except BaseException:
            writer.execute("ROLLBACK")
            raise
        writer.execute("COMMIT")

    # -- readers -------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[IndexSnapshot]:
        """Read at one moment. Raises IndexUnusable."""
        try:
            connection = self._reader()
        except sqlite3.Error as error:
            raise IndexUnusable(f"the index in {self._directory} cannot be opened: {error}") from error
        try:
            connection.execute("BEGIN")
            yield IndexSnapshot(connection)
            connection.execute("COMMIT")
        except BaseException as error:
            connection.close()
            if isinstance(error, sqlite3.Error):
                raise IndexUnusable(f"the index in {self._directory} cannot be read: {error}") from error
            raise
        with self._guard:
            if not self._closed and len(self._idle) < MAX_IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()

    def _reader(self) -> sqlite3.Connection:
        with self._guard:
            if self._closed:
                raise IndexUnusable("the index was closed")
            if self._idle:
                return self._idle.pop()
        connection = _connect(self._path)
        connection.execute(f"PRAGMA cache_size = -{READER_CACHE_KIB}")
        connection.execute("PRAGMA query_only = ON")
        return connection

    # -- opening -------------------------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        files = LocalFileSystem()
        files.mkdir(self._directory)
        connection = _connect(self._path)
        try:
            if _is_usable(connection):
                return _prepared(connection)
        except sqlite3.DatabaseError:
            pass  # damaged, or no database
        connection.close()
        for suffix in ("", "-wal", "-shm"):
            files.remove(f"{self._path}{suffix}", missing_ok=True)
        return _prepared(_connect(self._path))


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def _is_usable(connection: sqlite3.Connection) -> bool:
    """Whether the file is new, or an index of this layout."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables == 0:
        return True
    if (application, version) != (APPLICATION_ID, LAYOUT_VERSION):
        return False
    boot = boot_id().encode()
    return bool(boot) and IndexSnapshot(connection).fact(BOOT) == boot


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.executescript(_SCHEMA)
    connection.execute(_PUT_FACT, (BOOT, boot_id().encode()))
    return connection
