"""Formats, directories and rotation of the file sinks: files that other readers understand, and nothing outside."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from moldau.client.data_types import TopicPartition
from moldau.connect.config_def import ConfigError
from moldau.connect.connector import SinkCommit, SinkSlice, SinkTask
from moldau.connect.connectors import file_sink
from moldau.connect.connectors.file_sink import FileSink, HdfsSink
from moldau.connect.connectors.path_format import PathFormat
from moldau.connect.converters import converter
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch, ValueColumn
from tests.connect.connectors.support import created, created_from, sink_batch, typed

A = TopicPartition("a", 3)
MIDNIGHT = 1_769_814_000_000  # 2026-01-31 00:00 in Prague, the day before in UTC

PERSON = pa.struct(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("born", pa.date32()),
        pa.field("seen", pa.timestamp("ms", tz="UTC")),
        pa.field("balance", pa.decimal128(10, 2)),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("home", pa.struct([pa.field("city", pa.string())])),
    ]
)
PEOPLE: list[dict[str, Any]] = [
    {
        "id": 1,
        "name": "Bedřich",
        "born": datetime.date(1824, 3, 2),
        "seen": datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC),
        "balance": decimal.Decimal("12.50"),
        "tags": ["a", "b"],
        "home": {"city": "Litomyšl"},
    },
    {"id": 2, "name": None, "born": None, "seen": None, "balance": None, "tags": None, "home": None},
]


def written(connector: FileSink, *batches: ConnectBatch, source: TopicPartition = A) -> None:
    connector.start()
    part = SinkSlice(source, 0, sum(batch.num_rows for batch in batches))
    message = connector.write(part, iter(batches), SinkTask("test", 1, 0, 0))
    connector.commit(SinkCommit("test", 1, [part], [message]))


def sink(root: Path, **settings: Any) -> FileSink:
    return created(FileSink, path=root, **settings)


def files(root: Path) -> list[str]:
    found = (path for path in root.rglob("*") if path.is_file() and "_moldau" not in path.parts)
    return sorted(str(path.relative_to(root)) for path in found)


def schemaless(*texts: str) -> ValueColumn:
    json_converter = converter("org.apache.kafka.connect.json.JsonConverter", {"schemas.enable": "false"}, is_key=False)
    (column,) = json_converter.to_batches(pa.array([text.encode() for text in texts], pa.binary()), "a")
    return column


def test_parquet_keeps_all_types(tmp_path: Path) -> None:
    written(sink(tmp_path), sink_batch(A, 0, typed(PEOPLE, PERSON)))
    assert files(tmp_path) == ["a/partition=3/a+3+0000000000.snappy.parquet"]
    table = pq.read_table(tmp_path / files(tmp_path)[0], partitioning=None)
    assert table.to_pylist() == PEOPLE
    assert table.schema.field("balance").type == pa.decimal128(10, 2)
    assert ds.dataset(tmp_path, partitioning="hive").to_table(columns=["id"]).num_rows == 2


def test_avro_is_read_by_other_readers(tmp_path: Path) -> None:
    written(sink(tmp_path, format="avro", avro_codec="deflate"), sink_batch(A, 0, typed(PEOPLE, PERSON)))
    with (tmp_path / "a/partition=3/a+3+0000000000.avro").open("rb") as file:
        assert list(fastavro.reader(file)) == PEOPLE


def test_json_lines_are_those_of_the_json_converter(tmp_path: Path) -> None:
    texts = ['{"n": 1, "x": null}', '{"m": [1, {"y": "ž"}]}', '"text"', "[1, null]"]
    batches = [sink_batch(A, offset, schemaless(text)) for offset, text in enumerate(texts)]
    written(sink(tmp_path, format="json", compression="gzip"), *batches)
    with gzip.open(tmp_path / "a/partition=3/a+3+0000000000.json.gz", "rt") as file:
        assert [json.loads(line) for line in file] == [json.loads(text) for text in texts]


def test_csv_has_a_header_and_refuses_nested_values(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("n", pa.int64()), pa.field("text", pa.string())])
    written(sink(tmp_path, format="csv"), sink_batch(A, 0, typed([{"n": 1, "text": 'a"b\n,c'}], kind)))
    parse = pacsv.ParseOptions(newlines_in_values=True)
    table = pacsv.read_csv(tmp_path / "a/partition=3/a+3+0000000000.csv", parse_options=parse)
    assert table.to_pylist() == [{"n": 1, "text": 'a"b\n,c'}]
    with pytest.raises(DataError, match="tags, home"):
        written(sink(tmp_path / "x", format="csv"), sink_batch(A, 0, typed(PEOPLE, PERSON)))


def test_text_and_bytes(tmp_path: Path) -> None:
    written(sink(tmp_path / "t", format="text"), sink_batch(A, 0, typed(["x", "ž"], pa.string())))
    assert (tmp_path / "t/a/partition=3/a+3+0000000000.txt").read_text() == "x\nž\n"
    raw = sink(tmp_path / "b", format="bytes", format_bytearray_separator="--")
    written(raw, sink_batch(A, 0, typed([b"\x00\xff", b""], pa.binary())))
    assert (tmp_path / "b/a/partition=3/a+3+0000000000.bin").read_bytes() == b"\x00\xff----"
    with pytest.raises(DataError, match="ByteArrayConverter"):
        written(sink(tmp_path / "c", format="bytes"), sink_batch(A, 0, typed([1], pa.int64())))


def test_a_new_schema_begins_a_new_file(tmp_path: Path) -> None:
    old, new = (pa.struct([pa.field(name, pa.int64()) for name in names]) for names in (["x"], ["x", "y"]))
    batches = [
        sink_batch(A, 0, typed([{"x": 1}], old)),
        sink_batch(A, 1, typed([{"x": 2}], old)),
        sink_batch(A, 2, typed([{"x": 3, "y": 4}], new)),
    ]
    written(sink(tmp_path), *batches)
    tables = [pq.read_table(tmp_path / name, partitioning=None).to_pylist() for name in files(tmp_path)]
    assert tables == [[{"x": 1}, {"x": 2}], [{"x": 3, "y": 4}]]
    assert files(tmp_path)[1].endswith("a+3+0000000002.snappy.parquet")


def test_schemaless_values_share_a_file_if_their_types_fit(tmp_path: Path) -> None:
    batches = [
        sink_batch(A, 0, schemaless('{"n": 1}')),
        sink_batch(A, 1, schemaless('{"n": 2.5, "m": "x"}')),
        sink_batch(A, 2, schemaless('{"n": "text"}')),
    ]
    written(sink(tmp_path), *batches)
    tables = [pq.read_table(tmp_path / name, partitioning=None).to_pylist() for name in files(tmp_path)]
    assert tables == [[{"n": 1.0, "m": None}, {"n": 2.5, "m": "x"}], [{"n": "text"}]]


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_records_without_a_value(tmp_path: Path, form: str) -> None:
    kind = pa.struct([pa.field("n", pa.int64())])
    batch = sink_batch(A, 0, ValueColumn.of(pa.array([{"n": 1}, None, {"n": 2}], kind), optional=True))
    with pytest.raises(DataError, match=r"a-3 at offset 1 .* behavior\.on\.null\.values"):
        written(sink(tmp_path / "fail", format=form), batch)
    written(sink(tmp_path, format=form, behavior_on_null_values="ignore"), batch)
    (path,) = files(tmp_path)
    assert ds.dataset(tmp_path / path, format=form).to_table().column("n").to_pylist() == [1, 2]


# -- directories -------------------------------------------------------------------------------------------------------


def test_directories_by_field_do_not_leave_the_target(tmp_path: Path) -> None:
    kind = pa.struct([pa.field("c", pa.string()), pa.field("at", pa.struct([pa.field("n", pa.int32())]))])
    rows = [
        {"c": "CZ", "at": {"n": 1}},
        {"c": "../../x", "at": {"n": 1}},
        {"c": None, "at": {"n": 2}},
        {"c": "CZ", "at": {"n": 1}},
        {"c": "", "at": {"n": 2}},
    ]
    written(
        sink(tmp_path / "in", partitioner="field", partition_field_name="c,at.n"), sink_batch(A, 0, typed(rows, kind))
    )
    assert files(tmp_path / "in") == [
        "a/c=..%2F..%2Fx/at.n=1/a+3+0000000001.snappy.parquet",
        "a/c=CZ/at.n=1/a+3+0000000000.snappy.parquet",
        "a/c=__HIVE_DEFAULT_PARTITION__/at.n=2/a+3+0000000002.snappy.parquet",
    ]
    assert files(tmp_path) == [f"in/{name}" for name in files(tmp_path / "in")]
    with pytest.raises(DataError, match="no field nope"):
        written(
            sink(tmp_path / "x", partitioner="field", partition_field_name="nope"), sink_batch(A, 0, typed(rows, kind))
        )


def test_a_topic_that_a_transform_chose_does_not_leave_the_target(tmp_path: Path) -> None:
    for number, topic in enumerate(("..", "../../up", "/etc/x")):
        written(sink(tmp_path / "in" / str(number)), sink_batch(A, 0, typed(["x"], pa.string()), topic=topic))
    assert all(name.startswith("in/") for name in files(tmp_path))
    assert files(tmp_path / "in" / "0") == ["%2E%2E/partition=3/a+3+0000000000.snappy.parquet"]


def test_two_topics_in_one_directory_do_not_overwrite_each_other(tmp_path: Path) -> None:
    connector = sink(tmp_path, partitioner="none")
    connector.start()
    parts = [SinkSlice(TopicPartition(topic, 0), 0, 1) for topic in ("a", "b")]
    batches = [sink_batch(part.partition, 0, typed([part.partition.topic], pa.string()), topic="c") for part in parts]
    messages = [
        connector.write(part, iter([batch]), SinkTask("test", 1, index, 0))
        for index, (part, batch) in enumerate(zip(parts, batches, strict=True))
    ]
    connector.commit(SinkCommit("test", 1, parts, messages))
    assert files(tmp_path) == ["c/a+0+0000000000.snappy.parquet", "c/b+0+0000000000.snappy.parquet"]


@pytest.mark.parametrize(
    ("settings", "directory"),
    [
        ({"partitioner": "daily", "timezone": "Europe/Prague"}, "year=2026/month=01/day=31"),
        ({"partitioner": "daily"}, "year=2026/month=01/day=30"),
        ({"partitioner": "hourly"}, "year=2026/month=01/day=30/hour=23"),
        ({"partitioner": "time", "path_format": "'dt'=YYYYMMdd-HHmmss"}, "dt=20260130-230000"),
        (
            {"partitioner": "time", "path_format": "'at'=HH-mm", "partition_duration_ms": 900_000},
            "at=23-00",
        ),
    ],
)
def test_directories_by_time(tmp_path: Path, settings: dict[str, Any], directory: str) -> None:
    batch = sink_batch(A, 0, typed(["x"], pa.string()), times=[MIDNIGHT])
    written(sink(tmp_path, timestamp_extractor="Record", **settings), batch)
    assert files(tmp_path) == [f"a/{directory}/a+3+0000000000.snappy.parquet"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (MIDNIGHT, pa.int64()),
        (datetime.datetime(2026, 1, 30, 23, tzinfo=datetime.UTC), pa.timestamp("ms", tz="UTC")),
        ("2026-01-30T23:00:00Z", pa.string()),
        ("2026-01-30 23:00:00", pa.string()),
    ],
)
def test_the_time_of_a_field(tmp_path: Path, value: Any, kind: pa.DataType) -> None:
    batch = sink_batch(A, 0, typed([{"t": {"at": value}}], pa.struct([("t", pa.struct([("at", kind)]))])), times=[0])
    settings = {"timestamp_extractor": "RecordField", "timestamp_field": "t.at"}
    written(sink(tmp_path, partitioner="hourly", **settings), batch)
    assert files(tmp_path) == ["a/year=2026/month=01/day=30/hour=23/a+3+0000000000.snappy.parquet"]


def test_the_time_of_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: MIDNIGHT / 1000)
    written(sink(tmp_path, partitioner="daily"), sink_batch(A, 0, typed(["x"], pa.string()), times=[0]))
    assert files(tmp_path) == ["a/year=2026/month=01/day=30/a+3+0000000000.snappy.parquet"]


@pytest.mark.parametrize("pattern", ["MMM", "'open", "'only text'", "'..'/YYYY", "/YYYY", "EEE", "YYYY z"])
def test_a_path_format_that_is_not_supported_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=re.escape(pattern)):
        PathFormat(pattern)


def test_times_before_1970_and_quotes() -> None:
    assert PathFormat("'it''s' yy D").directory(-1) == "it's 69 365"


# -- rotation ----------------------------------------------------------------------------------------------------------


def test_records_wait_for_a_full_file_but_not_for_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now = 10.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    connector = sink(tmp_path, flush_size=100, rotate_schedule_interval_ms=5000)
    assert connector.due([SinkSlice(A, 0, 99)]) == []
    assert connector.due([SinkSlice(A, 0, 250)]) == [SinkSlice(A, 0, 200)]
    assert connector.due([SinkSlice(A, 200, 250)]) == []
    now += 4.9
    assert connector.due([SinkSlice(A, 200, 260)]) == []
    now += 0.2
    assert connector.due([SinkSlice(A, 200, 270)]) == [SinkSlice(A, 200, 270)]
    patient = sink(tmp_path, flush_size=100, rotate_schedule_interval_ms=-1)
    patient.due([SinkSlice(A, 0, 99)])
    now += 1e9
    assert patient.due([SinkSlice(A, 0, 99)]) == []


def test_a_younger_record_begins_a_new_file(tmp_path: Path) -> None:
    minute = 60_000
    times = [0, minute - 1, minute, minute + 5, 3 * minute, 2 * minute]
    written(
        sink(tmp_path, rotate_interval_ms=minute),
        sink_batch(A, 0, typed([str(one) for one in times], pa.string()), times=times),
    )
    found = [pq.read_table(tmp_path / name, partitioning=None).column("value").to_pylist() for name in files(tmp_path)]
    assert found == [["0", "59999"], ["60000", "60005"], ["180000", "120000"]]


def test_the_number_of_open_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sink, "MAX_OPEN_FILES", 3)
    kind = pa.struct([pa.field("c", pa.int64())])
    batches = [sink_batch(A, 10 * n, typed([{"c": one} for one in range(10)], kind)) for n in range(2)]
    written(sink(tmp_path, partitioner="field", partition_field_name="c"), *batches)
    assert len(files(tmp_path)) == 20


# -- settings ----------------------------------------------------------------------------------------------------------


def test_the_settings_of_confluents_hdfs_sink(tmp_path: Path) -> None:
    settings = {
        "hdfs.url": f"file://{tmp_path}",
        "flush.size": 2,
        "format.class": "io.confluent.connect.hdfs.parquet.ParquetFormat",
        "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
        "path.format": "'year'=YYYY",
        "locale": "en-US",
        "timezone": "UTC",
        "timestamp.extractor": "Record",
    }
    written(created_from(HdfsSink, settings), sink_batch(A, 0, typed(["x", "y", "z"], pa.string())))
    assert files(tmp_path) == [
        "topics/a/year=2026/a+3+0000000000+0000000001.snappy.parquet",
        "topics/a/year=2026/a+3+0000000002+0000000002.snappy.parquet",
    ]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"path": "hdfs://namenode/x"}, "exactly once"),
        ({"path": ""}, "path"),
        ({"format": "orc"}, "format"),
        ({"partitioner": "field"}, r"fields to partition"),
        ({"partitioner": "time"}, r"year"),
        ({"path_format": "MMMM"}, "not supported"),
        ({"timezone": "Mars/Base"}, "no such time zone"),
        ({"timestamp_extractor": "Oracle"}, "RecordField"),
        ({"storage_options": "[1]"}, "JSON object"),
        ({"flush_size": "0"}, "at least 1"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        created(FileSink, **{"path": "/tmp", **settings})


def test_secrets_of_the_store_are_not_shown() -> None:
    connector = created(FileSink, path="/tmp", storage_options='{"key": "k", "secret": "hidden-secret"}')
    assert "hidden-secret" not in repr(connector.plan)
