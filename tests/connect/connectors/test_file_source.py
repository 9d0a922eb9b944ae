"""Files as sources: every format, new files, parts read in parallel, resuming anywhere, and files that change."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
import os
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moldau.connect.config_def import ConfigError
from moldau.connect.connector import Slice, SourceOffsets
from moldau.connect.connectors import file_source
from moldau.connect.connectors.file_source import FilePart, FileSource, SourceChangedError, plan_parts
from moldau.connect.errors import DataError
from moldau.connect.schemas import SchemaType
from tests.connect.connectors.support import Reader, arrow_types, created, values


def source(path: object, **settings: Any) -> FileSource:
    return created(FileSource, **{"path": path, "topic": "t", "scan_interval_ms": 0, "files_idle_ms": 0, **settings})


def everything(reader: Reader) -> list[Any]:
    rows: list[Any] = []
    for _ in range(1000):
        found = reader.rows()
        if not found:
            return rows
        rows += found
    raise AssertionError("the source does not end")


def write_json(path: Path, rows: range) -> None:
    path.write_text("".join(json.dumps({"n": n, "text": f"row {n}"}) + "\n" for n in rows))


def write_csv(path: Path, rows: range) -> None:
    path.write_text("n,text\n" + "".join(f"{n},row {n}\n" for n in rows))


def write_parquet(path: Path, rows: range) -> None:
    pq.write_table(pa.table({"n": list(rows), "text": [f"row {n}" for n in rows]}), path, row_group_size=7)


def write_avro(path: Path, rows: range) -> None:
    fields = [{"name": "n", "type": "long"}, {"name": "text", "type": "string"}]
    with path.open("wb") as file:
        records = [{"n": n, "text": f"row {n}"} for n in rows]
        fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, records, sync_interval=100)


WRITERS = {"json": write_json, "csv": write_csv, "parquet": write_parquet, "avro": write_avro}


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("tasks", [1, 3])
def test_rows_of_every_format_once_whatever_the_size_of_a_slice(tmp_path: Path, suffix: str, tasks: int) -> None:
    WRITERS[suffix](tmp_path / f"one.{suffix}", range(200))
    WRITERS[suffix](tmp_path / f"two.{suffix}", range(200, 210))
    for split in (10, 333, 100_000):
        reader = Reader(source(tmp_path, tasks_max=tasks, split_bytes=split))
        rows = everything(reader)
        assert sorted(row["n"] for row in rows) == list(range(210))
        assert all(row["text"] == f"row {row['n']}" for row in rows)
        if tasks == 1:
            assert [row["n"] for row in rows if row["n"] < 200] == list(range(200))


@pytest.mark.parametrize("suffix", WRITERS)
def test_any_slices_may_have_been_committed_and_the_settings_changed(tmp_path: Path, suffix: str) -> None:
    WRITERS[suffix](tmp_path / f"one.{suffix}", range(100))
    for taken in itertools.product((0, 1, 2), repeat=3):
        connector = source(tmp_path, tasks_max=3, split_bytes=100)
        by_partition: dict[str, list[Slice]] = {}
        for part in connector.slices(SourceOffsets()):
            by_partition.setdefault(repr(sorted(part.partition.items())), []).append(part)
        assert len(by_partition) == 3
        rows: list[Any] = []
        offsets: dict[str, tuple[Any, Any]] = {}
        for (key, parts), count in zip(by_partition.items(), taken, strict=True):
            for part in parts[:count]:
                rows += values(connector.read(part))
                offsets[key] = (part.partition, part.end)
        rows += everything(Reader(source(tmp_path, tasks_max=2, split_bytes=177), offsets))
        assert sorted(row["n"] for row in rows) == list(range(100))


def test_a_big_file_is_divided_among_tasks_and_the_number_of_parts_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "big.txt"
    path.write_text("".join(f"line {number}\n" for number in range(20_000)))
    connector = source(path, tasks_max=4, split_bytes=1000)
    reader = Reader(connector)
    rows = reader.rows()
    assert len({json.dumps(one.partition) for one in reader.slices}) == 4
    assert len(reader.slices) <= file_source.MAX_SLICES
    rows += everything(reader)
    assert sorted(rows) == sorted(f"line {number}" for number in range(20_000))
    assert len(reader.offsets) < 40


def test_new_files_and_new_lines_are_picked_up(tmp_path: Path) -> None:
    reader = Reader(source(tmp_path / "*.txt"))
    assert reader.rows() == []
    (tmp_path / "one.txt").write_text("a\nb")
    (tmp_path / "other.log").write_text("no\n")
    (tmp_path / ".hidden.txt").write_text("no\n")
    assert reader.rows() == ["a"]
    with (tmp_path / "one.txt").open("a") as file:
        file.write("\nc\n")
    (tmp_path / "two.txt").write_text("d\n")
    assert sorted(reader.rows()) == ["b", "c", "d"]
    assert Reader(source(tmp_path / "*.txt"), reader.offsets).rows() == []


def test_the_last_line_of_a_complete_file_needs_no_end(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("n,m\n1,2\n3,4")
    assert everything(Reader(source(tmp_path, files_grow="false"))) == [{"n": 1, "m": 2}, {"n": 3, "m": 4}]
    (tmp_path / "one.csv").unlink()
    (tmp_path / "two.txt").write_text("x\r\ny")
    assert everything(Reader(source(tmp_path, files_grow="false"))) == ["x", "y"]


def test_types_of_csv_are_those_of_the_beginning_or_as_given(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("code,price,day\n007,1.5,2026-01-31\n008,2,2026-02-01\n")
    (batch,) = Reader(source(tmp_path, csv_types="code:string")).step()
    assert arrow_types(batch) == {"code": pa.string(), "price": pa.float64(), "day": pa.date32()}
    assert values([batch])[0] == {"code": "007", "price": 1.5, "day": datetime.date(2026, 1, 31)}
    assert batch.value.schema is not None
    assert batch.value.schema.type is SchemaType.STRUCT


def test_a_value_that_does_not_fit_its_column_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_source, "SAMPLE_BYTES", 4)
    path = tmp_path / "one.csv"
    path.write_text("n\n1\n")
    reader = Reader(source(path))
    assert reader.rows() == [{"n": 1}]
    with path.open("a") as file:
        file.write("2\nthree\n")
    with pytest.raises(DataError, match=r"csv\.types"):
        reader.rows()
    assert Reader(source(path, csv_types="n:string"), reader.offsets).rows() == [{"n": "2"}, {"n": "three"}]


def test_csv_without_header_with_other_marks_and_with_line_ends_in_values(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("1;'a'\n2;'b'\n")
    settings = {"csv_header": "false", "csv_delimiter": ";", "csv_quote": "'"}
    assert everything(Reader(source(tmp_path, **settings))) == [{"f0": 1, "f1": "a"}, {"f0": 2, "f1": "b"}]
    named = everything(Reader(source(tmp_path, csv_columns="x,y", **settings)))
    assert named == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]
    (tmp_path / "one.csv").write_text('n,m\n1,"two\nlines"\n')
    whole = source(tmp_path, csv_newlines_in_values="true", files_grow="false", split_bytes=2)
    assert everything(Reader(whole)) == [{"n": 1, "m": "two\nlines"}]


def test_avro_with_logical_types_and_nulls(tmp_path: Path) -> None:
    kinds = {
        "when": {"type": "long", "logicalType": "timestamp-millis"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        "tags": {"type": "array", "items": "string"},
        "more": ["null", {"type": "record", "name": "M", "fields": [{"name": "x", "type": "int"}]}],
        "kind": {"type": "enum", "name": "K", "symbols": ["A", "B"]},
    }
    schema = {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in kinds.items()]}
    when = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    rows: list[dict[str, Any]] = [
        {"when": when, "price": decimal.Decimal("1.25"), "tags": ["x"], "more": {"x": 1}, "kind": "A"},
        {"when": when, "price": decimal.Decimal("-3.00"), "tags": [], "more": None, "kind": "B"},
    ]
    with (tmp_path / "one.avro").open("wb") as file:
        fastavro.writer(file, schema, rows, codec="deflate")
    assert everything(Reader(source(tmp_path))) == rows


def test_a_half_written_file_is_waited_for(tmp_path: Path) -> None:
    for suffix in ("parquet", "avro"):
        whole = tmp_path / f"whole.{suffix}"
        WRITERS[suffix](whole, range(100))
        data = whole.read_bytes()
        whole.unlink()
        half = tmp_path / f"half.{suffix}"
        half.write_bytes(data[:20])
        reader = Reader(source(half))
        assert reader.rows() == []
        half.write_bytes(data[: len(data) // 2])
        some = reader.rows()
        half.write_bytes(data)
        assert [row["n"] for row in some + everything(reader)] == list(range(100))


@pytest.mark.parametrize("change", ["truncated", "replaced", "written again"])
def test_a_changed_file_is_an_error_or_is_read_again(tmp_path: Path, change: str) -> None:
    path = tmp_path / ("one.parquet" if change == "written again" else "one.json")
    write = write_parquet if change == "written again" else write_json
    write(path, range(10))
    reader = Reader(source(tmp_path))
    assert len(everything(reader)) == 10
    write(path, {"truncated": range(5), "replaced": range(100, 130), "written again": range(50, 55)}[change])
    os.utime(path, (1, 2))
    with pytest.raises(SourceChangedError, match=r"on\.change=reread"):
        reader.rows()
    again = everything(Reader(source(tmp_path, on_change="reread"), reader.offsets))
    assert [row["n"] for row in again] == {
        "truncated": list(range(5)), "replaced": list(range(100, 130)), "written again": list(range(50, 55))
    }[change]  # fmt: skip


@pytest.mark.parametrize("action", ["delete", "move"])
def test_a_file_goes_only_after_its_offsets_are_stored(tmp_path: Path, action: str) -> None:
    inbox, read = tmp_path / "in", tmp_path / "read"
    inbox.mkdir()
    path = inbox / "one.csv"
    write_csv(path, range(10))
    connector = source(inbox, after_read=action, move_to=read)
    slices = connector.slices(SourceOffsets())
    assert connector.slices(SourceOffsets()) == slices
    assert path.exists()
    reader = Reader(connector)
    assert len(everything(reader)) == 10
    assert reader.rows() == []
    assert not path.exists()
    assert (read / "one.csv").exists() == (action == "move")
    write_csv(path, range(10, 15))
    later = Reader(source(inbox, after_read=action, move_to=read), reader.offsets)
    assert [row["n"] for row in everything(later)] == list(range(10, 15))
    assert later.rows() == []
    assert not path.exists()
    assert (read / "one.csv.1").exists() == (action == "move")


def test_a_file_that_is_still_written_is_not_taken_for_complete(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("a\n")
    reader = Reader(source(tmp_path, after_read="delete", files_idle_ms=3_600_000))
    assert reader.rows() == []
    os.utime(path, (1, 2))
    assert reader.rows() == ["a"]


def test_parts_end_where_the_next_one_begins() -> None:
    assert plan_parts(7, {}) == [FilePart(0, 7, None)]
    assert plan_parts(7, {100: 120}) == [FilePart(0, 7, 100), FilePart(100, 120, None)]
    assert plan_parts(7, {0: 30, 100: 120}) == [FilePart(0, 30, 100), FilePart(100, 120, None)]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"after_read": "move"}, "directory"),
        ({"csv_types": "n:money"}, "column:type"),
        ({"csv_newlines_in_values": "true"}, r"files\.grow=false"),
        ({"storage_options": "x"}, "JSON object"),
        ({"path": "nothing://x"}, "nothing"),
        ({"split_bytes": "0"}, r"split\.bytes"),
        ({"format": "xml"}, "format"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        source(**{"path": "/tmp", **settings})
