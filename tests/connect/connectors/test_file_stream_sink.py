"""Lines of one file, written exactly once: Kafka's lines, crashes at every step, and a process that was replaced."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from moldau.client.data_types import TopicPartition
from moldau.connect.config_def import ConfigError
from moldau.connect.connector import SinkCommit, SinkSlice, SinkTask, TakenOverError
from moldau.connect.connectors import file_stream_sink
from moldau.connect.connectors.file_store import FileStore, LocalStore
from moldau.connect.connectors.file_stream_sink import FileStreamSink
from moldau.connect.connectors.sink_commit_log import StagedFile
from moldau.connect.record_batch import ValueColumn
from tests.connect.connectors.crashing_store import Crash
from tests.connect.connectors.support import Writer, created, sink_batch, typed

A = TopicPartition("a", 0)


def sink(path: Path) -> FileStreamSink:
    return created(FileStreamSink, file=path)


def numbers_in(path: Path) -> list[int]:
    """`Struct{n=1,name=row 1}`, as Java writes it."""
    return [int(line.partition("n=")[2].partition(",")[0]) for line in path.read_text().splitlines()]


def test_lines_as_kafka_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("before\n")
    connector = sink(path)
    connector.start()
    values = [
        typed(["one", "žluť"], pa.string()),
        ValueColumn(pa.array(["x", None], pa.string())),
        typed([1, -2], pa.int64()),
        typed([1.0, 1e10], pa.float64()),
        typed([True], pa.bool_()),
        typed([{"n": 1, "name": "x"}], pa.struct([("n", pa.int64()), ("name", pa.string())])),
    ]
    part = SinkSlice(A, 0, 10)
    message = connector.write(part, (sink_batch(A, 0, one) for one in values), SinkTask("test", 1, 0, 0))
    connector.commit(SinkCommit("test", 1, [part], [message]))
    expected = ["before", "one", "žluť", "x", "null", "1", "-2", "1.0", "1.0E10", "true", "Struct{n=1,name=x}"]
    assert path.read_text().splitlines() == expected


def test_a_crash_at_any_step_loses_and_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pwrite = file_stream_sink.os.pwrite

    def half(file: int, data: bytes, position: int) -> int:
        real_pwrite(file, data[: len(data) // 2], position)
        raise Crash("half")

    def record_then_crash(self: LocalStore, path: str, data: bytes, real: object = LocalStore.create) -> bool:
        real(self, path, data)  # type: ignore[operator]
        raise Crash("after the record")

    def delete_crash(self: LocalStore, path: str) -> None:
        raise Crash("before the removal")

    faults = [
        (file_stream_sink.os, "pwrite", half),
        (LocalStore, "create", record_then_crash),
        (LocalStore, "delete", delete_crash),
    ]
    for number, (owner, name, fault) in enumerate(faults):
        path = tmp_path / f"{number}" / "out.txt"
        path.parent.mkdir()
        driver = Writer(sink(path), {A: 5})
        driver.step()
        driver.ends = {A: 20}
        commit = driver.written()
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fault)
            with pytest.raises(Crash):
                driver.connector.commit(commit)
        successor = Writer(sink(path), {A: 22})
        successor.step()
        assert numbers_in(path) == list(range(22))


def test_a_process_that_was_replaced_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    old = Writer(sink(path), {A: 5})
    asleep = old.written()
    new = Writer(sink(path), {A: 3})
    new.step()
    with pytest.raises(TakenOverError):
        old.connector.commit(asleep)
    assert numbers_in(path) == [0, 1, 2]


def test_a_process_that_slept_while_it_wrote_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    old = Writer(sink(path), {A: 5})
    commit = old.written()

    def sleeper(store: FileStore, one: StagedFile) -> None:
        data = store.read(one.staged)
        new = Writer(sink(path), {A: 9})
        new.step()
        (tmp_path / one.staged).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / one.staged).write_bytes(data)
        file_stream_sink.write_in_place(store, one)

    log = old.connector._started()  # type: ignore[attr-defined]
    log._publish = sleeper
    old.connector.commit(commit)
    assert numbers_in(path) == list(range(9))


def test_the_file_name_is_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="standard output"):
        created(FileStreamSink)
    with pytest.raises(ConfigError, match="directory"):
        created(FileStreamSink, file=tmp_path)
