"""Delta and Iceberg tables: created, evolved, and every record in them once, whatever crashes or sleeps."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moldau.client.data_types import TopicPartition
from moldau.connect.config_def import ConfigError
from moldau.connect.connector import SinkCommit, SinkSlice, SinkTask, TakenOverError
from moldau.connect.connectors.delta_sink import DeltaSink
from moldau.connect.connectors.iceberg_sink import IcebergSink
from moldau.connect.connectors.lake_sink import LakeSink, TableMark
from moldau.connect.connectors.sink_commit_log import StagedFile
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from tests.connect.connectors.crashing_store import Crash
from tests.connect.connectors.support import Writer, created_from, sink_batch, typed

A, B = TopicPartition("a", 0), TopicPartition("a", 1)


def delta(root: Path, **more: Any) -> DeltaSink:
    return created_from(DeltaSink, {"path": root, "rotate.schedule.interval.ms": 0, **more})


def iceberg(root: Path, **more: Any) -> IcebergSink:
    root.mkdir(parents=True, exist_ok=True)
    catalog = {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/warehouse"}
    settings = {f"iceberg.catalog.{name}": value for name, value in catalog.items()}
    return created_from(IcebergSink, {"path": root, "rotate.schedule.interval.ms": 0, **settings, **more})


def delta_table(root: Path, table: str = "a") -> pa.Table:
    from deltalake import DeltaTable

    return pa.table(DeltaTable(str(root / table)).to_pyarrow_table())


def iceberg_table(root: Path, table: str = "a") -> pa.Table:
    opened = iceberg(root)._open(f"default.{table}")
    return opened.scan().to_arrow()


Lake = tuple[Callable[..., LakeSink], Callable[..., pa.Table]]
LAKES: dict[str, Lake] = {"delta": (delta, delta_table), "iceberg": (iceberg, iceberg_table)}


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest) -> Lake:
    return LAKES[request.param]


def numbers_in(table: pa.Table) -> list[int]:
    return sorted(table.column("n").to_pylist())


def written(connector: LakeSink, batch: int, source: TopicPartition, first: int, *batches: ConnectBatch) -> None:
    part = SinkSlice(source, first, first + sum(one.num_rows for one in batches))
    message = connector.write(part, iter(batches), SinkTask("test", batch, 0, 0))
    connector.commit(SinkCommit("test", batch, [part], [message]))


def test_records_are_appended_and_offsets_kept(lake: Lake, tmp_path: Path) -> None:
    sink, table = lake
    driver = Writer(sink(tmp_path), {A: 5, B: 3})
    driver.step()
    driver.ends = {A: 8, B: 3}
    driver.step()
    assert numbers_in(table(tmp_path)) == sorted([*range(8), *range(3)])
    assert Writer(sink(tmp_path), driver.ends).pending() == []


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_crash_around_the_commit_of_the_table_loses_and_doubles_nothing(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    sink, table = lake
    first = Writer(sink(tmp_path), {A: 4})
    first.step()
    first.ends = {A: 9}
    apply = type(first.connector).apply  # type: ignore[attr-defined]

    def crash(self: LakeSink, name: str, mark: TableMark, files: list[StagedFile]) -> None:
        if step == "after":
            apply(self, name, mark, files)
        raise Crash(step)

    commit = first.written()
    with monkeypatch.context() as patch:
        patch.setattr(type(first.connector), "apply", crash)
        with pytest.raises(Crash):
            first.connector.commit(commit)
    second = Writer(sink(tmp_path), {A: 11})
    assert second.pending() == [SinkSlice(A, 9, 11)]
    second.step()
    assert numbers_in(table(tmp_path)) == list(range(11))


def test_a_process_that_slept_through_a_takeover_adds_nothing(lake: Lake, tmp_path: Path) -> None:
    sink, table = lake
    old = Writer(sink(tmp_path), {A: 5})
    asleep = old.written()
    new = Writer(sink(tmp_path), {A: 3})
    new.step()
    with pytest.raises(TakenOverError):
        old.connector.commit(asleep)
    assert numbers_in(table(tmp_path)) == [0, 1, 2]


def test_a_process_that_slept_after_its_decision_adds_nothing_twice(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, table = lake
    old = Writer(sink(tmp_path), {A: 1})
    old.step()
    old.ends = {A: 5}
    commit = old.written()
    opened = type(old.connector)._open  # type: ignore[attr-defined]
    slept: list[bool] = []

    def open_then_sleep(self: LakeSink, name: str) -> Any:
        found = opened(self, name)
        if self is old.connector and len(slept) < 2:
            slept.append(True)
            if len(slept) == 2:  # The first look is that of the check before the decision.
                Writer(sink(tmp_path), {A: 7}).step()
        return found

    monkeypatch.setattr(type(old.connector), "_open", open_then_sleep)
    old.connector.commit(commit)
    assert len(slept) == 2
    assert numbers_in(table(tmp_path)) == list(range(7))


def test_iceberg_keeps_its_own_number_of_tries(tmp_path: Path) -> None:
    driver = Writer(iceberg(tmp_path), {A: 1})
    driver.step()
    assert "commit.retry.num-retries" not in iceberg(tmp_path)._open("default.a").metadata.properties


def test_new_fields_become_columns_and_another_type_is_refused(lake: Lake, tmp_path: Path) -> None:
    sink, table = lake
    connector = sink(tmp_path)
    connector.start()
    kinds = [
        pa.struct([("n", pa.int64())]),
        pa.struct([("n", pa.int64()), ("text", pa.string()), ("in", pa.struct([("x", pa.int32())]))]),
        pa.struct([("n", pa.string())]),
    ]
    written(connector, 1, A, 0, sink_batch(A, 0, typed([{"n": 1}], kinds[0])))
    written(connector, 2, A, 1, sink_batch(A, 1, typed([{"n": 2, "text": "x", "in": {"x": 1}}], kinds[1])))
    written(connector, 3, A, 2, sink_batch(A, 2, typed([{"n": 3}], kinds[0])))
    rows = sorted(table(tmp_path).to_pylist(), key=lambda row: row["n"])
    nothing = {"text": None, "in": None}
    assert rows == [{"n": 1, **nothing}, {"n": 2, "text": "x", "in": {"x": 1}}, {"n": 3, **nothing}]
    with pytest.raises(DataError, match="column n of table"):
        written(connector, 4, A, 3, sink_batch(A, 3, typed([{"n": "text"}], kinds[2])))
    assert connector.written_offsets() == {A: 3}
    written(connector, 5, A, 3, sink_batch(A, 3, typed([{"n": 4}], kinds[0])))
    assert numbers_in(table(tmp_path)) == [1, 2, 3, 4]


def test_all_types(lake: Lake, tmp_path: Path) -> None:
    sink, table = lake
    connector = sink(tmp_path)
    connector.start()
    row: dict[str, Any] = {
        "i8": 1,
        "i16": 2,
        "f": 1.5,
        "b": True,
        "bytes": b"\x00",
        "day": datetime.date(2026, 1, 31),
        "at": datetime.datetime(2026, 1, 31, 12, 0, 0, 1000, tzinfo=datetime.UTC),
        "money": decimal.Decimal("1.25"),
        "list": ["x", None],
        "map": [("k", 1)],
    }
    kinds = [pa.int8(), pa.int16(), pa.float32(), pa.bool_(), pa.binary(), pa.date32(), pa.timestamp("ms", tz="UTC")]
    kinds += [pa.decimal128(10, 2), pa.list_(pa.string()), pa.map_(pa.string(), pa.int64())]
    kind = pa.struct([pa.field(name, one) for name, one in zip(row, kinds, strict=True)])
    written(connector, 1, A, 0, sink_batch(A, 0, typed([row, dict.fromkeys(row)], kind)))
    found = sorted(table(tmp_path).to_pylist(), key=lambda one: one["i8"] or 0)
    assert found == [dict.fromkeys(row), row]


def test_records_of_one_batch_in_several_tables(lake: Lake, tmp_path: Path) -> None:
    sink, table = lake
    connector = sink(tmp_path)
    connector.start()
    kind = pa.struct([("n", pa.int64())])
    batches = [
        sink_batch(A, 0, typed([{"n": 0}], kind), topic="x.y"),
        sink_batch(A, 1, typed([{"n": 1}], kind), topic="z"),
        sink_batch(A, 2, typed([{"n": 2}], kind), topic="x.y"),
    ]
    written(connector, 1, A, 0, *batches)
    assert numbers_in(table(tmp_path, "x_y")) == [0, 2]
    assert numbers_in(table(tmp_path, "z")) == [1]


def test_a_log_that_was_removed_does_not_hide_new_records(lake: Lake, tmp_path: Path) -> None:
    """Who removes the log wants the records again: the marks of the old log in the table must not count."""
    import shutil

    sink, table = lake
    first = Writer(sink(tmp_path), {A: 2})
    first.step()
    first.ends = {A: 3}
    first.step()
    shutil.rmtree(tmp_path / "_moldau")
    second = Writer(sink(tmp_path), {A: 1})
    second.step()
    assert numbers_in(table(tmp_path)) == [0, 0, 1, 2]


def test_partitions_of_delta_tables(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    connector = delta(tmp_path, **{"partition.by": "c,k"})
    connector.start()
    kind = pa.struct([("n", pa.int64()), ("c", pa.string()), ("k", pa.int64())])
    rows = [{"n": n, "c": ["a/b", "50 %", None][n % 3], "k": n % 2} for n in range(12)]
    written(connector, 1, A, 0, sink_batch(A, 0, typed(rows, kind)))
    found = delta_table(tmp_path)
    assert sorted(found.to_pylist(), key=lambda row: row["n"]) == rows
    opened = DeltaTable(str(tmp_path / "a"))
    assert opened.metadata().partition_columns == ["c", "k"]
    assert len(opened.file_uris()) == 6
    assert opened.to_pyarrow_table(filters=[("k", "=", 1)]).num_rows == 6
    other = delta(tmp_path)
    other.start()
    with pytest.raises(DataError, match=r"partition\.by"):
        written(other, 2, A, 12, sink_batch(A, 12, typed(rows[:1], kind)))


def test_values_that_are_no_structs_or_have_no_schema(lake: Lake, tmp_path: Path) -> None:
    sink, table = lake
    connector = sink(tmp_path)
    connector.start()
    written(connector, 1, A, 0, sink_batch(A, 0, typed(["x", "y"], pa.string())))
    assert table(tmp_path).column("value").to_pylist() == ["x", "y"]
    loose = ValueColumn(pa.array([{"q": 1}], pa.struct([("q", pa.int64())])))
    written(connector, 2, A, 2, sink_batch(A, 2, loose))
    assert [row["q"] for row in table(tmp_path).to_pylist() if row["q"]] == [1]


@pytest.mark.parametrize(
    ("kind", "settings", "problem"),
    [
        (DeltaSink, {"path": "hdfs://x"}, "exactly once"),
        (DeltaSink, {"path": "/tmp", "delta.storage.options": "[]"}, "JSON object"),
        (DeltaSink, {"path": "/tmp", "partition.by": "a.b"}, "inside of structs"),
        (IcebergSink, {"path": "/tmp", "table.name.format": "${topic}"}, "namespace"),
        (IcebergSink, {"path": "/tmp", "storage.options": "x"}, "JSON object"),
    ],
)
def test_a_wrong_setting_is_named(kind: type[LakeSink], settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        created_from(kind, settings)
