"""Formats of keys and values: what records become, what cannot be read, and what is written back."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from moldau.sql.parser import parse
from moldau.sql.results import ResultRows
from moldau.sql.session import SqlSession

Sql = Callable[[str], Any]
Records = Callable[..., None]


def rows_and_notes(session: SqlSession, text: str) -> tuple[list[tuple[Any, ...]], list[str]]:
    (statement,) = parse(text)
    result = session.execute(statement)
    assert isinstance(result, ResultRows)
    rows = list(result.rows)
    return rows, list(result.notes)


def test_json_that_does_not_fit_is_null_and_counted(sql: Sql, session: SqlSession, records: Records, name: str) -> None:
    values = [
        '{"id": 1, "n": {"a": [1, 2]}}',
        "{broken",
        '{"id": "x", "n": null}',
        "[1]",
        "",
        None,
        b"\xff\xfe",
        '{"id": 4}',
    ]
    records(name, [(value, "k") for value in values])
    sql(f"CREATE STREAM {name} (id INT, n STRUCT<a: ARRAY<INT>>) WITH (topic='{name}')")
    rows, notes = rows_and_notes(session, f"SELECT offset, id, n.a, value IS NULL FROM {name} ORDER BY offset")
    assert [row[:3] for row in rows] == [
        (0, 1, [1, 2]),
        *((offset, None, None) for offset in range(1, 7)),
        (7, 4, None),
    ]
    assert [row[3] for row in rows] == [False] * 5 + [True, False, False]
    assert notes == [f"5 records do not fit the columns of {name} (json); what cannot be read is NULL"]
    # Spark's own tasks read the same, and count the same.
    declaration = session.relations.find(name)
    frame = session.relations.batch(declaration, local=False)
    assert [tuple(row) for row in frame.select("offset", "id").orderBy("offset").collect()] == [row[:2] for row in rows]


def test_fields_with_the_names_of_record_columns_win(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"key": 5, "Timestamp": "x", "a.b": 1, "c d": 2}, "k")])
    assert sql(f"SELECT key, _key, timestamp, year(_timestamp) > 2000 AS y, `a.b`, `c d` FROM {name}") == [
        {"key": 5, "_key": "k", "timestamp": "x", "y": True, "a.b": 1, "c d": 2}
    ]


def test_columns_of_a_changed_schema_are_merged(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"a": 1}, None)])
    assert sql(f"SELECT a FROM {name}") == [{"a": 1}]
    records(name, [({"a": 1.5, "b": "x"}, None)])
    assert sql(f"SELECT a, b FROM {name} ORDER BY a") == [{"a": 1.0, "b": None}, {"a": 1.5, "b": "x"}]
    records(name, [({"a": "text"}, None)])
    assert [row["a"] for row in sql(f"SELECT a FROM {name} ORDER BY offset")] == ["1", "1.5", "text"]


def test_an_empty_topic_and_one_without_json_have_key_and_value(sql: Sql, records: Records, name: str) -> None:
    topic = f"{name}.with-dots"
    records(topic, [], partitions=3)
    assert sql(f"SELECT count(*) AS n, max(value) AS v FROM `{topic}`") == [{"n": 0, "v": None}]
    records(topic, [("just text", "k")])
    assert sql(f"SELECT key, value FROM `{topic}`") == [{"key": "k", "value": "just text"}]
    described = sql(f"DESCRIBE `{topic}`")
    assert [row["name"] for row in described] == ["key", "value", "timestamp", "partition", "offset", "headers"]
    # Dots need no backticks: Spark takes them for a catalogue, and the session knows better.
    plain = f"{name}.plain"
    records(plain, [({"a": 1}, None)])
    assert sql(f"SELECT p.a, p.* EXCEPT (timestamp, headers) FROM {plain} AS p WHERE a = 1") == [
        {"a": 1, "key": None, "partition": 0, "offset": 0, "value": '{"a": 1}'}
    ]


def test_csv_string_and_bytes(sql: Sql, session: SqlSession, records: Records, name: str) -> None:
    records(f"{name}c", [("1;a b;2.5", None), ("x;y;z", None), ("3;;", None)])
    sql(f"CREATE STREAM {name}c (i INT, s STRING, d DOUBLE) WITH (topic='{name}c', format='csv', value_delimiter=';')")
    rows, notes = rows_and_notes(session, f"SELECT * FROM {name}c ORDER BY offset")
    assert rows == [(1, "a b", 2.5), (None, "y", None), (3, None, None)]
    assert notes == [f"1 record does not fit the columns of {name}c (csv); what cannot be read is NULL"]
    records(f"{name}s", [("12", None), ("x", None), (None, None)])
    sql(f"CREATE STREAM {name}s (n INT) WITH (topic='{name}s', format='string')")
    assert [row["n"] for row in sql(f"SELECT * FROM {name}s ORDER BY offset")] == [12, None, None]
    sql(f"CREATE STREAM {name}b (raw BINARY) WITH (topic='{name}s', format='bytes')")
    assert sql(f"SELECT hex(raw) AS h FROM {name}b WHERE offset = 0") == [{"h": "3132"}]


@pytest.mark.parametrize(
    ("key_format", "kind", "keys", "expected"),
    [
        ("int", "INT", [struct.pack(">i", -5), b"123", None], [-5, None, None]),
        ("long", "BIGINT", [struct.pack(">q", -(2**62)), struct.pack(">i", 1)], [-(2**62), None]),
        (
            "double",
            "DOUBLE",
            [struct.pack(">d", one) for one in (-0.1, 1e300, 5e-324, 0.0)],
            [-0.1, 1e300, 5e-324, 0.0],
        ),
        ("json", "STRING", ['"a"', '{"k": "b"}', "null"], ["a", "b", None]),
        ("json", "INT", ["7", '{"k": 8}', "x"], [7, 8, None]),
        ("string", "INT", ["7", "x", ""], [7, None, None]),
        ("bytes", "BINARY", [b"\x00\xff"], [b"\x00\xff"]),
    ],
)
def test_key_formats(
    sql: Sql,
    session: SqlSession,
    records: Records,
    name: str,
    key_format: str,
    kind: str,
    keys: list[Any],
    expected: Any,
) -> None:
    records(name, [({"v": 1}, key) for key in keys])
    sql(f"CREATE STREAM {name} (k {kind} KEY, v INT) WITH (topic='{name}', key_format='{key_format}')")
    found = [row["k"] for row in sql(f"SELECT k FROM {name} ORDER BY offset")]
    assert [bytes(one) if isinstance(one, bytearray) else one for one in found] == expected
    if key_format == "double":
        sql(f"INSERT INTO {name} VALUES (0.1, 1)")
        written = list(session.relations.records(session.relations.span(session.relations.find(name))))
        assert written[-1].column("key").to_pylist()[-1] == struct.pack(">d", 0.1)
    elif key_format in ("int", "long"):
        sql(f"INSERT INTO {name} VALUES (-2, 1)")
        assert sql(f"SELECT k FROM {name} ORDER BY offset DESC LIMIT 1") == [{"k": -2}]


def test_several_key_columns_are_a_json_object(sql: Sql, records: Records, name: str) -> None:
    sql(f"CREATE TABLE {name} (a INT PRIMARY KEY, b STRING PRIMARY KEY, v DOUBLE) WITH (partitions=1)")
    sql(f"INSERT INTO {name} VALUES (1, 'x', 1), (1, 'y', 2), (1, 'x', 3)")
    assert sql(f"SELECT a, b, v, key FROM {name} ORDER BY b") == [
        {"a": 1, "b": "x", "v": 3.0, "key": '{"a":1,"b":"x"}'},
        {"a": 1, "b": "y", "v": 2.0, "key": '{"a":1,"b":"y"}'},
    ]


def test_the_event_time_is_taken_from_a_column(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"ms": 1000, "text": "31.12.2025 10:00"}, None), ({"ms": 2**60, "text": "x"}, None)])
    sql(f"CREATE STREAM {name}m (ms BIGINT) WITH (topic='{name}', timestamp='MS')")
    sql(
        f"CREATE STREAM {name}t (text STRING) "
        f"WITH (topic='{name}', timestamp='text', timestamp_format='dd.MM.yyyy HH:mm')"
    )
    times = f"SELECT date_format(timestamp, 'yyyy-MM-dd HH:mm:ss') AS t FROM {name}"
    assert [row["t"] for row in sql(f"{times}m ORDER BY offset")] == ["1970-01-01 00:00:01", None]
    assert [row["t"] for row in sql(f"{times}t ORDER BY offset")] == ["2025-12-31 10:00:00", None]
    windowed = sql(f"SELECT count(*) AS n FROM {name}m WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY ms")
    assert [row["n"] for row in windowed] == [1]


def test_a_declaration_without_columns_takes_those_of_the_records(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"id": 1, "v": "a"}, "1"), ({"id": 1, "v": "b"}, "1"), (None, "2")])
    sql(f"CREATE TABLE {name} WITH (topic='{name}', key='id')")
    assert sql(f"SELECT * FROM {name}") == [{"id": "1", "v": "b"}]
