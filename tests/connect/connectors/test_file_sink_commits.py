"""Exactly once in files: crashes between any two steps, and processes that slept through a takeover."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.connect.connector import RetriableError, SinkSlice, TakenOverError
from moldau.connect.connectors import file_sink, sink_commit_log
from moldau.connect.connectors.file_sink import FileSink
from moldau.connect.connectors.file_store import FileStore, LocalStore
from moldau.connect.connectors.sink_commit_log import BadCommitError, CommitLog, StagedFile
from moldau.connect.errors import DataError
from tests.connect.connectors.crashing_store import Crash, CrashingStore
from tests.connect.connectors.support import Writer, created

A, B = TopicPartition("a", 0), TopicPartition("a", 1)


def sink(root: Path, **settings: Any) -> FileSink:
    return created(FileSink, path=root, **{"flush_size": 4, "rotate_schedule_interval_ms": 0, **settings})


def published(root: Path) -> dict[str, list[int]]:
    """The visible files, as readers of the directory find them, with the numbers in each."""
    files = [path for path in root.rglob("*.parquet") if "_moldau" not in path.parts]
    return {str(path.relative_to(root)): pq.read_table(path).column("n").to_pylist() for path in sorted(files)}


def check_exactly_once(root: Path, ends: dict[TopicPartition, int]) -> None:
    files = published(root)
    for source, end in ends.items():
        mine = [numbers for name, numbers in files.items() if f"partition={source.partition}/" in name]
        assert sorted(number for numbers in mine for number in numbers) == list(range(end))


def leftovers(root: Path) -> list[str]:
    return [str(path) for path in (root / "_moldau" / "test" / "staged").rglob("*") if path.is_file()]


def test_files_have_the_names_of_their_first_offsets(tmp_path: Path) -> None:
    driver = Writer(sink(tmp_path), {A: 10, B: 3})
    driver.step()
    assert published(tmp_path) == {
        "a/partition=0/a+0+0000000000.snappy.parquet": [0, 1, 2, 3],
        "a/partition=0/a+0+0000000004.snappy.parquet": [4, 5, 6, 7],
        "a/partition=0/a+0+0000000008.snappy.parquet": [8, 9],
        "a/partition=1/a+1+0000000000.snappy.parquet": [0, 1, 2],
    }
    assert driver.connector.written_offsets() == {A: 10, B: 3}
    assert not driver.step()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    ends = {A: 6, B: 2}
    for operation in range(1000):
        root = tmp_path / f"{operation}"
        store = CrashingStore(LocalStore(str(root)), operation, after=after)

        def opened(url: str, options: object, store: FileStore = store) -> FileStore:
            return store

        with monkeypatch.context() as patch:
            patch.setattr(file_sink, "open_store", opened)
            try:
                first = Writer(sink(root), {A: 2, B: 1})
                first.step()
                first.ends = ends
                first.step()
            except Crash:
                pass
        assert all(numbers for numbers in published(root).values())
        second = Writer(sink(root), ends)
        second.batch = 2
        assert leftovers(root) == []
        while second.step():
            pass
        check_exactly_once(root, ends)
        if not store.crashed:
            assert operation >= 12
            return
    raise AssertionError("the crash never moved past the end")


def test_a_crash_while_a_successor_finishes_the_commit_of_its_predecessor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {A: 6, B: 2}
    for operation in range(30):
        root = tmp_path / f"{operation}"
        commit = Writer(sink(root), ends).written()
        log = CommitLog(LocalStore(str(root)), "test", publish=crash)
        log._last = log._latest()
        with pytest.raises(Crash):
            log.commit(1, {A: 6, B: 2}, [StagedFile(*one) for message in commit.messages for one in message])
        store = CrashingStore(LocalStore(str(root)), operation, after=operation % 2 == 0)
        with monkeypatch.context() as patch:
            patch.setattr(file_sink, "open_store", lambda url, options, store=store: store)
            try:
                Writer(sink(root), ends)
            except Crash:
                pass
        third = Writer(sink(root), ends)
        assert third.pending() == []
        check_exactly_once(root, ends)
        assert leftovers(root) == []


def crash(store: FileStore, one: StagedFile) -> None:
    raise Crash(one.final)


def test_a_process_that_slept_through_a_takeover_publishes_nothing(tmp_path: Path) -> None:
    old = Writer(sink(tmp_path), {A: 4})
    old.step()
    old.ends = {A: 8}
    asleep = old.written()
    new = Writer(sink(tmp_path), {A: 6})
    new.step()
    before = published(tmp_path)
    with pytest.raises(TakenOverError, match="replaced"):
        old.connector.commit(asleep)
    with pytest.raises(TakenOverError):
        old.connector.commit(asleep)
    assert published(tmp_path) == before
    new.ends = {A: 9}
    new.step()
    check_exactly_once(tmp_path, {A: 9})


def test_a_process_is_replaced_when_its_successor_starts(tmp_path: Path) -> None:
    old = Writer(sink(tmp_path), {A: 4})
    asleep = old.written()
    new = Writer(sink(tmp_path), {A: 4})
    with pytest.raises(TakenOverError):
        old.connector.commit(asleep)
    assert published(tmp_path) == {}
    new.step()
    check_exactly_once(tmp_path, {A: 4})


def test_a_process_that_slept_until_its_commits_were_removed_publishes_nothing(tmp_path: Path) -> None:
    old = Writer(sink(tmp_path), {A: 1})
    old.step()
    old.ends = {A: 8}
    asleep = old.written()
    new = Writer(sink(tmp_path), {A: 1})
    for end in range(2, 2 * sink_commit_log.KEPT + 5):
        new.ends = {A: end}
        new.step()
    commits = sorted((tmp_path / "_moldau" / "test" / "commits").iterdir())
    assert len(commits) <= sink_commit_log.KEPT + 1
    before = published(tmp_path)
    with pytest.raises(TakenOverError):
        old.connector.commit(asleep)
    assert published(tmp_path) == before
    assert sorted((tmp_path / "_moldau" / "test" / "commits").iterdir()) == commits
    assert Writer(sink(tmp_path), new.ends).pending() == []


def test_a_process_that_slept_between_its_decision_and_its_files_does_no_harm(tmp_path: Path) -> None:
    old = Writer(sink(tmp_path), {A: 4})
    commit = old.written()
    sleeping: list[Any] = []

    def sleeper(store: FileStore, one: StagedFile) -> None:
        if not sleeping:
            sleeping.append(Writer(sink(tmp_path), {A: 4}))
            sleeping[0].ends = {A: 7}
            sleeping[0].step()
        sink_commit_log.move_into_place(store, one)

    log = old.connector._started()  # type: ignore[attr-defined]
    log._publish = sleeper
    old.connector.commit(commit)
    check_exactly_once(tmp_path, {A: 7})
    old.ends = {A: 9}
    with pytest.raises(TakenOverError):
        old.step()


def test_of_two_processes_that_commit_at_once_one_wins(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    for turn in range(30):
        logs = [CommitLog(store, "test") for _ in range(4)]
        logs[0].start()
        for log in logs:
            log._last = logs[0]._last
        won: list[str] = []
        barrier = threading.Barrier(len(logs))

        def race(log: CommitLog, barrier: threading.Barrier = barrier, won: list[str] = won, turn: int = turn) -> None:
            barrier.wait()
            try:
                log.commit(turn, {A: turn}, [])
                won.append(log.owner)
            except TakenOverError:
                return

        threads = [threading.Thread(target=race, args=(log,)) for log in logs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        latest = logs[0]._latest()
        assert latest is not None
        assert latest.owner == won[0]


def test_a_commit_whose_files_could_not_be_published_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Writer(sink(tmp_path), {A: 3})
    commit = driver.written()
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "publish", full_disk)
        with pytest.raises(RetriableError, match=f"no space left in {tmp_path}: free some"):
            driver.connector.commit(commit)
        with pytest.raises(OSError, match="No space"):
            driver.connector.written_offsets()
    driver.connector.commit(commit)
    check_exactly_once(tmp_path, {A: 3})
    assert driver.connector.written_offsets() == {A: 3}


def full_disk(*_: object) -> bool:
    raise OSError(28, "No space left on device")


def test_records_that_the_target_has_are_refused(tmp_path: Path) -> None:
    driver = Writer(sink(tmp_path), {A: 4})
    driver.step()
    again = driver.written([SinkSlice(A, 2, 6)])
    with pytest.raises(DataError, match="has them up to 4"):
        driver.connector.commit(again)


def test_staged_files_of_dead_attempts_are_removed(tmp_path: Path) -> None:
    driver = Writer(sink(tmp_path), {A: 4})
    driver.written()
    assert leftovers(tmp_path)
    driver.batch = file_sink.SWEEP_INTERVAL - 1
    driver.step()
    assert leftovers(tmp_path) == []


def test_a_commit_that_cannot_be_read_stops_the_sink(tmp_path: Path) -> None:
    driver = Writer(sink(tmp_path), {A: 4})
    driver.step()
    latest = max((tmp_path / "_moldau" / "test" / "commits").iterdir())
    latest.write_text('{"format": 99}')
    with pytest.raises(BadCommitError, match="format 99"):
        sink(tmp_path).start()


def test_two_connectors_share_a_directory(tmp_path: Path) -> None:
    one = Writer(sink(tmp_path), {A: 4})
    other = created(FileSink, path=tmp_path)
    other.name = "other"
    two = Writer(other, {TopicPartition("b", 0): 4})
    one.step()
    one.ends = {A: 8}
    one.step()
    two.step()
    assert one.connector.written_offsets() == {A: 8}
    assert two.connector.written_offsets() == {}


def test_offsets_that_the_user_changes_are_those_of_the_target(tmp_path: Path) -> None:
    old = Writer(sink(tmp_path), {A: 4, B: 4})
    old.step()
    old.ends = {A: 9}
    asleep = old.written()
    sink(tmp_path).change_offsets({A: 6, B: None})
    assert old.connector.written_offsets() == {A: 4, B: 4}
    with pytest.raises(TakenOverError):
        old.connector.commit(asleep)
    changed = sink(tmp_path)
    changed.start()
    assert changed.written_offsets() == {A: 6}
    sink(tmp_path).change_offsets(None)
    again = sink(tmp_path)
    again.start()
    assert again.written_offsets() == {}


def test_a_full_disk_and_missing_rights_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Writer(sink(tmp_path), {A: 3})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(RetriableError, match="no space left"):
            driver.step()
    assert leftovers(tmp_path) == []
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", read_only)
        with pytest.raises(MoldauError, match="give the worker the right"):
            driver.step()
    driver.step()
    check_exactly_once(tmp_path, {A: 3})


def read_only(*_: object) -> bool:
    raise OSError(30, "Read-only file system")
