"""Statements that declare, list, describe, write and print relations, and their errors with the place in the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from moldau.sql.errors import SqlError
from moldau.sql.results import Notice
from moldau.sql.session import SqlSession

Sql = Callable[[str], Any]
Records = Callable[..., None]


def refused(sql: Sql, text: str) -> SqlError:
    with pytest.raises(SqlError) as raised:
        sql(text)
    assert not re.search(r"org\.apache|java\.|Traceback|\bat [\w.]+\(", str(raised.value)), str(raised.value)
    return raised.value


def test_a_stream_is_declared_described_queried_and_dropped(sql: Sql, records: Records, name: str) -> None:
    records(f"{name}-topic", [({"id": 1, "at": 1000, "amount": 2.5, "extra": True}, "7")])
    created = sql(
        f"CREATE STREAM {name} (k INT KEY, id BIGINT, at BIGINT, amount DOUBLE) "
        f"WITH (topic='{name}-topic', timestamp='at')"
    )
    assert isinstance(created, Notice) and created.warnings == ()
    assert sql(f"SELECT * FROM {name}") == [{"k": 7, "id": 1, "at": 1000, "amount": 2.5}]
    row = sql(f"SELECT *, key, `timestamp` = timestamp_millis(at) AS timed, offset FROM {name} s WHERE s.partition = 0")
    assert row == [{"k": 7, "id": 1, "at": 1000, "amount": 2.5, "key": "7", "timed": True, "offset": 0}]
    described = {row["name"]: row for row in sql(f"DESCRIBE {name} EXTENDED")}
    assert described["k"]["comment"] == "key" and described["at"]["comment"] == "event time"
    assert described["offset"]["type"] == "bigint"
    assert described["records"]["type"].startswith("1 ") and described["partitions"]["type"] == "1"
    assert any('"amount": 2.5' in row["type"] for row in described.values())
    assert name in [row["name"] for row in sql("SHOW STREAMS")]
    assert name not in [row["name"] for row in sql("SHOW TABLES")]
    topics = {row["topic"]: row for row in sql("SHOW TOPICS")}
    assert topics[f"{name}-topic"] == {
        "topic": f"{name}-topic",
        "partitions": 1,
        "records": 1,
        "declared": f"STREAM {name}",
    }
    assert "is a STREAM, not a TABLE" in str(refused(sql, f"DROP TABLE {name}"))
    assert "still exists" in sql(f"DROP STREAM {name}").text
    assert "nothing was changed" in sql(f"DROP STREAM IF EXISTS {name}").text
    assert refused(sql, f"DROP STREAM {name}").message == f"there is no stream {name}"


def test_dropping_with_delete_topic_deletes_it(sql: Sql, name: str) -> None:
    sql(f"CREATE STREAM {name} (id INT) WITH (topic='{name}.x', partitions=2)")
    sql(f"CREATE STREAM {name}_2 (id INT) WITH (topic='{name}.x')")
    assert "is also that of" in str(refused(sql, f"DROP STREAM {name} DELETE TOPIC"))
    sql(f"DROP STREAM {name}_2; DROP STREAM {name} DELETE TOPIC")
    assert f"{name}.x" not in {row["topic"] for row in sql("SHOW TOPICS")}


def test_declarations_that_cannot_be_read_are_refused(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"id": 1}, "a")])
    on = f"WITH (topic='{name}'"
    cases = {
        f"CREATE TABLE {name} (id INT, v INT) {on})": "no key column",
        f"CREATE TABLE {name} {on})": "no key column",
        f"CREATE STREAM {name} (id INT) {on}, format='avro')": "needs a schema registry",
        f"CREATE STREAM {name} (id INT) {on}, format='jsn')": "did you mean json?",
        f"CREATE STREAM {name} (id INT) {on}, timestamp='idd')": "did you mean id?",
        f"CREATE STREAM {name} (id BOOLEAN) {on}, timestamp='id')": "cannot be the event time",
        f"CREATE STREAM {name} (a INT, b INT) {on}, format='string')": "has one value column",
        f"CREATE STREAM {name} (a INT) {on}, format='bytes')": "must be BINARY",
        f"CREATE STREAM {name} (a STRING KEY, b INT) {on}, key_format='int')": "declare a INT KEY",
        f"CREATE STREAM {name} (a STRING KEY, b INT) {on}, key_format='none')": "key columns are declared",
        f"CREATE STREAM {name} (a STRING) {on}, partitions=7)": "exists with 1 partition, not 7",
        f"CREATE STREAM {name} (a STRING) WITH (topic='{name}s')": f"did you mean {name}?",
    }
    for text, expected in cases.items():
        error = refused(sql, text)
        assert expected in str(error), (text, str(error))
        assert error.line == 1
    assert name not in [row["name"] for row in sql("SHOW STREAMS")]


def test_an_existing_declaration_is_kept_unless_it_is_replaced(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"id": 1}, "a")])
    sql(f"CREATE STREAM {name} (id INT) WITH (topic='{name}')")
    assert "exists" in str(refused(sql, f"CREATE STREAM {name} (id INT) WITH (topic='{name}')"))
    assert "nothing was changed" in sql(f"CREATE STREAM IF NOT EXISTS {name} (b INT) WITH (topic='{name}')").text
    warned = sql(f"CREATE OR REPLACE STREAM {name} (ID STRING) WITH (topic='{name}')")
    assert warned.warnings == ("column ID is in none of the last 1 records; did you mean id?",)


def test_inserted_values_are_keyed_and_typed(sql: Sql, name: str, session: SqlSession) -> None:
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, city STRING, tags ARRAY<STRING>) WITH (partitions=2)")
    assert sql(f"INSERT INTO {name} VALUES (1, 'Pra' || 'gue', array('a')), (2, NULL, array('b'))").text.startswith(
        "2 "
    )
    sql(f"INSERT INTO {name} (city, id) VALUES ('Wien', 1)")
    assert sql(f"SELECT * FROM {name} ORDER BY id") == [
        {"id": 1, "city": "Wien", "tags": None},
        {"id": 2, "city": None, "tags": ["b"]},
    ]
    sql(f"INSERT INTO {name} (id) VALUES (2)")
    assert [row["id"] for row in sql(f"SELECT id FROM {name}")] == [1]
    assert sql(f"SELECT count(*) AS n FROM `{name}` AT OFFSET 0") == [{"n": 0}]
    cases = {
        f"INSERT INTO {name} VALUES (1)": "the rows have 1 values",
        f"INSERT INTO {name} (id, ctiy) VALUES (1, 'x')": "did you mean city?",
        f"INSERT INTO {name} (city) VALUES ('x')": "cannot be NULL",
        f"INSERT INTO {name} (id) VALUES (NULL)": "cannot be NULL",
        f"INSERT INTO {name} (id) VALUES (1.5)": "1.5 is not a value of type INT",
        f"INSERT INTO {name} (id) VALUES ('x')": "'x' is not a value of type INT",
    }
    for text, expected in cases.items():
        assert expected in str(refused(sql, text)), text
    error = refused(sql, f"INSERT INTO {name} (id)\n  VALUES (1), (foo)")
    assert (error.line, error.column) == (2, 16), str(error)


def test_values_can_be_inserted_into_a_topic_without_a_declaration(sql: Sql, records: Records, name: str) -> None:
    records(name, [])
    sql(f"INSERT INTO {name} (key, value) VALUES ('a', 'not json')")
    assert sql(f"SELECT key, value FROM {name}") == [{"key": "a", "value": "not json"}]
    other = f"{name}_json"
    records(other, [({"id": 1, "x": 2}, "a")])
    sql(f"INSERT INTO {other} (key, id) VALUES ('b', 5)")
    assert sql(f"SELECT key, id, x, value FROM {other} WHERE offset = 1") == [
        {"key": "b", "id": 5, "x": None, "value": '{"id":5}'}
    ]


def test_settings_are_set_shown_and_unset(sql: Sql, session: SqlSession) -> None:
    assert session.relations.auto_offset_reset == "earliest"
    sql("SET 'auto.offset.reset' = 'latest'; SET spark.sql.ansi.enabled = false")
    try:
        shown = {row["name"]: row["value"] for row in sql("SHOW SETTINGS")}
        assert shown["auto.offset.reset"] == "latest" and shown["spark.sql.ansi.enabled"] == "false"
        assert sql("SELECT 1 / 0 AS x") == [{"x": None}]
        assert session.relations.auto_offset_reset == "latest"
    finally:
        sql("UNSET 'auto.offset.reset'; UNSET spark.sql.ansi.enabled")
    assert session.relations.auto_offset_reset == "earliest"
    assert "division by zero" in str(refused(sql, "SELECT 1 / 0 AS x"))
    assert "did you mean auto.offset.reset?" in str(refused(sql, "SET auto.offset.rset = 'latest'"))
    assert "did you mean spark.sql.ansi.enabled?" in str(refused(sql, "SET spark.sql.ansi.enable = true"))
    assert "earliest or latest" in str(refused(sql, "SET auto.offset.reset = 'newest'"))
    assert "cannot be changed" in str(refused(sql, "SET spark.sql.warehouse.dir = '/tmp'"))


def test_functions_are_listed(sql: Sql) -> None:
    names = {row["function"] for row in sql("SHOW FUNCTIONS")}
    assert {"sum", "window", "upper"} <= names


def test_records_are_printed_as_they_are(sql: Sql, records: Records, name: str) -> None:
    records(name, [(b"\xff\x00", "a"), (None, "b"), ("text", None)])
    printed = [change.row for change in sql(f"PRINT {name} FROM BEGINNING LIMIT 3")]
    assert [row[1:5] for row in printed] == [(0, 0, "a", "0xff00"), (0, 1, "b", None), (0, 2, None, "text")]
    stopped = sql(f"PRINT {name}")
    stopped.stop()
    assert list(stopped) == []
    assert f"did you mean {name}?" in str(refused(sql, f"PRINT {name}x"))


def test_a_query_is_explained_in_the_terms_of_sql(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"id": 1}, "a")])
    text = "\n".join(row["plan"] for row in sql(f"EXPLAIN SELECT id FROM {name} LIMIT 3"))
    assert f"Reads STREAM {name} (not declared; columns inferred): topic {name}, 1 partition(s), 1 offsets" in text
    assert "growing steps" in text and "== Physical Plan ==" in text
    assert "there is no query" in str(refused(sql, f"EXPLAIN {name}"))


@pytest.mark.parametrize(
    ("query", "message", "place"),
    [
        ("SELECT idd FROM {t}", "there is no column 'idd'; did you mean id?", (1, 8)),
        ("SELECT id\nFROM {t} WHERE\n  nmae > 1", "there is no column 'nmae'", (3, 3)),
        ("SELECT o.x FROM {t}", "there is no field 'x'; the fields are", (1, 8)),
        ("SELECT summ(id) FROM {t}", "there is no function 'summ'; did you mean sum?", (1, 8)),
        ("SELECT id,, 1 FROM {t}", "syntax error at ','", (1, 11)),
        ("SELECT id FROM {t} WHERE id =", "the statement is not complete", None),
        ("SELECT id FROM my-topic", "the name my-topic needs backticks; write `my-topic`", None),
        ("SELECT id / 0 FROM {t}", "division by zero", (1, 8)),
        ("SELECT *, id / 0 FROM {t}", "division by zero", (1, 11)),
        ("SELECT CAST(name AS INT) FROM {t}", "'x' is not a value of type INT", (1, 8)),
        ("SELECT count(*), id FROM {t}", "need a GROUP BY", (1, 1)),
        ("SELECT name FROM {t} GROUP BY id", "neither in GROUP BY nor in an aggregate", None),
        ("SELECT id FROM {t} a JOIN {t} b ON a.id = b.id", "column 'id' is ambiguous", (1, 8)),
        ("SELECT * FROM {t} WHERE id", "Filter expression", None),
    ],
)
def test_errors_of_queries_have_their_place(
    sql: Sql, records: Records, broken: str, query: str, message: str, place: tuple[int, int] | None
) -> None:
    error = refused(sql, query.format(t=broken))
    assert message in str(error)
    if place is not None:
        assert (error.line, error.column) == place, str(error)


@pytest.fixture(scope="module")
def broken(session: SqlSession, client_settings: dict[str, str]) -> str:
    """A declared stream with one record, for queries that are wrong."""
    from moldau.sql.parser import parse

    name = "declared_for_wrong_queries"
    for statement in parse(
        f"CREATE STREAM {name} (id INT, name STRING, o STRUCT<a: INT>) WITH (partitions=1);"
        f"INSERT INTO {name} VALUES (1, 'x', named_struct('a', 1))"
    ):
        session.execute(statement)
    return name
