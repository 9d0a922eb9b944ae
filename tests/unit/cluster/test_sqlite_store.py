"""SQLite store: it survives crashes, and explains errors of its file in one sentence."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.cluster.sqlite_store import LANE, SqliteStore
from moldau.cluster.store import Create, Event, EventKind, Set, StoreError
from moldau.host.threads import Threads
from tests.support.waiting import loop_turns
from tests.unit.cluster.support import run


def with_threads(scenario: Callable[[Threads], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        threads = Threads(threads=2)
        try:
            await scenario(threads)
        finally:
            await threads.close()

    run(whole())


def refusal(path: Path) -> str:
    """The error of opening this file."""
    messages: list[str] = []

    async def scenario(threads: Threads) -> None:
        with pytest.raises(StoreError) as error:
            await SqliteStore.open(str(path), threads)
        messages.append(str(error.value))

    with_threads(scenario)
    (message,) = messages
    assert str(path) in message
    assert "\n" not in message
    return message


def test_commits_survive_a_kill_of_the_process(tmp_path: Path) -> None:
    program = """if True:
        import asyncio, os, sys
        from moldau.cluster.sqlite_store import SqliteStore
        from moldau.cluster.store import Create, Set
        from moldau.host.threads import Threads
        async def main():
            store = await SqliteStore.open(sys.argv[1], Threads())
            await store.commit([Create("/n", b""), Create("/e", b"", ephemeral=True)])
            for number in range(20):
                await store.commit([Set("/n", b"%d" % number)])
            os.kill(os.getpid(), 9)
        asyncio.run(main())
    """
    path = tmp_path / "metadata.db"
    killed = subprocess.run([sys.executable, "-c", program, str(path)], timeout=60, check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr.decode()

    async def scenario(threads: Threads) -> None:
        store = await SqliteStore.open(str(path), threads)
        node = await store.get("/n")
        assert node is not None
        assert (node.value, node.version) == (b"19", 20)
        assert await store.get("/e") is None, "the ephemeral node of a dead session is still there"
        await store.commit([Set("/n", b"on", 20)])
        await store.close()

    with_threads(scenario)


def copy_of(directory: Path, number: int) -> str:
    """The path of a copy of the store, taken while it is open."""
    copy = directory / f"copy-{number}"
    copy.mkdir()
    for file in directory.glob("metadata.db*"):
        shutil.copy(file, copy / file.name)
    return str(copy / "metadata.db")


def test_a_copy_taken_at_any_moment_has_every_commit_made_before_it(tmp_path: Path) -> None:
    async def scenario(threads: Threads) -> None:
        store = await SqliteStore.open(str(tmp_path / "metadata.db"), threads)
        await store.commit([Create("/n", b"0")])
        for number in range(1, 6):
            await store.commit([Set("/n", b"%d" % number)])
            copied = await SqliteStore.open(copy_of(tmp_path, number), threads)
            node = await copied.get("/n")
            assert node is not None
            assert node.value == b"%d" % number
            await copied.close()
        await store.close()

    with_threads(scenario)


def test_the_creation_counter_continues_after_a_restart(tmp_path: Path) -> None:
    async def scenario(threads: Threads) -> None:
        numbers = []
        for name in ("/a", "/b", "/c"):
            store = await SqliteStore.open(str(tmp_path / "metadata.db"), threads)
            await store.commit([Create(name, b"")])
            node = await store.get(name)
            assert node is not None
            numbers.append(node.created)
            await store.close()
        assert numbers == sorted(set(numbers))

    with_threads(scenario)


def test_a_file_that_another_has_open_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"

    async def scenario(threads: Threads) -> None:
        store = await SqliteStore.open(str(path), threads)
        with pytest.raises(StoreError, match="another process has it open"):
            await SqliteStore.open(str(path), threads)
        await store.commit([Create("/still", b"works")])
        await store.close()
        await (await SqliteStore.open(str(path), threads)).close()

    with_threads(scenario)


def test_a_file_that_is_not_a_database_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.write_bytes(b"these are my notes, not a database\n" * 100)
    before = path.read_bytes()
    assert "not a metadata store of this program" in refusal(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    foreign = sqlite3.connect(path)
    foreign.executescript("CREATE TABLE bookmarks (url TEXT); INSERT INTO bookmarks VALUES ('x');")
    foreign.close()
    before = path.read_bytes()
    assert "not a metadata store of this program" in refusal(path)
    assert path.read_bytes() == before


def test_a_later_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with_threads(lambda threads: filled(path, threads))
    later = sqlite3.connect(path)
    later.execute("PRAGMA user_version = 99")
    later.close()
    assert "its layout is version 99" in refusal(path)


async def filled(path: Path, threads: Threads) -> None:
    """A store with several pages."""
    store = await SqliteStore.open(str(path), threads)
    await store.commit([Create(f"/n{number}", b"some value " * 20) for number in range(200)])
    await store.close()


def test_a_damaged_page_is_noticed_when_the_file_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with_threads(lambda threads: filled(path, threads))
    data = bytearray(path.read_bytes())
    data[3 * 4096 : 4 * 4096] = b"\xff" * 4096
    path.write_bytes(data)
    assert "it is damaged" in refusal(path)


def test_a_flipped_bit_in_a_value_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    with_threads(lambda threads: filled(path, threads))
    data = bytearray(path.read_bytes())
    where = data.index(b"some value")
    data[where] ^= 1
    path.write_bytes(data)

    async def scenario(threads: Threads) -> None:
        store = await SqliteStore.open(str(path), threads)
        with pytest.raises(StoreError, match=r"damaged.*does not match its checksum"):
            await store.read_children("/")
        await store.close()

    with_threads(scenario)


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    assert "it cannot be opened or made" in refusal(tmp_path / "nowhere" / "metadata.db")


def test_a_directory_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    path.mkdir()
    assert "it cannot be opened or made" in refusal(path)


def test_a_full_disk_fails_the_commit_only_and_room_heals_it(tmp_path: Path) -> None:
    async def scenario(threads: Threads) -> None:
        store = await SqliteStore.open(str(tmp_path / "metadata.db"), threads)
        await store.commit([Create("/n", b"before")])
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match="the disk is full"):
            await store.commit([Set("/n", b"after"), Create("/big", bytes(100_000))])
        node = await store.get("/n")
        assert node is not None
        assert (node.value, node.version) == (b"before", 0)
        store._connection.execute("PRAGMA max_page_count = 1000000")
        await store.commit([Set("/n", b"after"), Create("/big", bytes(100_000))])
        await store.close()

    with_threads(scenario)


def test_a_store_that_cannot_be_written_says_so_and_can_still_be_read(tmp_path: Path) -> None:
    async def scenario(threads: Threads) -> None:
        store = await SqliteStore.open(str(tmp_path / "metadata.db"), threads)
        await store.commit([Create("/n", b"before")])
        store._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError, match="it cannot be written"):
            await store.commit([Set("/n", b"after")])
        node = await store.get("/n")
        assert node is not None
        assert node.value == b"before"
        await store.close()

    with_threads(scenario)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (sqlite3.SQLITE_IOERR_LOCK, "a read-only file or disk"),
        (sqlite3.SQLITE_IOERR_FSYNC, "the disk failed"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "it cannot be written"),
        (sqlite3.SQLITE_MISMATCH, "it cannot be used"),
    ],
)
def test_errors_of_sqlite_are_explained(code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_operations: object) -> None:
        error = sqlite3.OperationalError("in its own words")
        error.sqlite_errorcode = code
        raise error

    async def scenario(threads: Threads) -> None:
        store = await SqliteStore.open(str(tmp_path / "metadata.db"), threads)
        monkeypatch.setattr(store, "_commit", failing)
        with pytest.raises(StoreError, match=rf"{says}.*\(in its own words\)"):
            await store.commit([Create("/n", b"")])
        await store.close()

    with_threads(scenario)


def test_a_commit_whose_caller_is_cancelled_is_stored_and_watchers_see_it(tmp_path: Path) -> None:
    async def scenario(threads: Threads) -> None:
        store = await SqliteStore.open(str(tmp_path / "metadata.db"), threads)
        await store.commit([Create("/n", b"")])
        events: list[Event] = []
        store.watch("/", events.append)
        gate = threading.Event()
        held = [asyncio.ensure_future(threads.run(LANE, gate.wait, 30)) for _ in range(2)]  # its lane is busy
        await loop_turns()
        cancelled = asyncio.ensure_future(store.commit([Set("/n", b"one")]))
        await loop_turns()
        cancelled.cancel()
        await asyncio.wait([cancelled])
        assert cancelled.cancelled()
        following = asyncio.ensure_future(store.commit([Set("/n", b"two", 1)]))
        gate.set()
        await following
        await asyncio.gather(*held)
        node = await store.get("/n")
        assert node is not None
        assert (node.value, node.version) == (b"two", 2)
        assert events == [Event(EventKind.CHANGED, "/n")] * 2
        await store.close()

    with_threads(scenario)


def test_work_that_waits_when_the_store_is_closed_is_refused(tmp_path: Path) -> None:
    async def scenario(threads: Threads) -> None:
        store = await SqliteStore.open(str(tmp_path / "metadata.db"), threads)
        closing = asyncio.ensure_future(store.close())
        await loop_turns()
        with pytest.raises(StoreError, match="is closed"):
            await store.get("/n")
        await closing

    with_threads(scenario)


def test_only_the_owner_can_read_the_file_also_one_of_an_earlier_release(tmp_path: Path) -> None:
    def modes() -> set[int]:
        return {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}

    async def scenario(threads: Threads) -> None:
        for turn in range(2):
            store = await SqliteStore.open(str(tmp_path / "metadata.db"), threads)
            await store.commit([Create(f"/a{turn}", b"secret")])
            assert modes() == {0o600}
            await store.close()
            (tmp_path / "metadata.db").chmod(0o644)

    with_threads(scenario)
