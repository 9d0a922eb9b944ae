"""Bounded queries on topics compared with DuckDB on the same random rows.

Rows and queries are random: filters, projections, aggregates, joins, set operations, order and limit, with NULLs and
empty strings. Only what both engines define alike is generated: numbers stay small, fractions are multiples of 1/4, and
the place of NULLs in an order is always written.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import duckdb
import hypothesis
import pytest
from hypothesis import strategies as st

from moldau.sql.parser import parse
from moldau.sql.results import ResultRows
from moldau.sql.session import SqlSession
from moldau.sql.tables import relations as relations_module

Records = Callable[..., None]

QUERIES_PER_DATASET = 6
COLUMNS = {"i": "BIGINT", "n": "INT", "s": "STRING", "d": "DOUBLE", "b": "BOOLEAN"}
DUCKDB_TYPES = {"STRING": "VARCHAR"}

integers = st.none() | st.integers(-5, 5)
texts = st.none() | st.text(alphabet="abZ é%_'\"\\", max_size=4)
numbers = st.none() | st.integers(-40, 40).map(lambda quarter: quarter / 4)
rows = st.lists(st.tuples(integers, integers, texts, numbers, st.none() | st.booleans()), max_size=25)


def number_expressions(table: str) -> st.SearchStrategy[str]:
    base = st.sampled_from([f"{table}.i", f"{table}.n", f"{table}.d", "1", "-2", "0.5e0", f"length({table}.s)"])
    return st.recursive(
        base,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda found: f"({' '.join(found)})"),
            inner.map(lambda one: f"abs({one})"),
            st.tuples(inner, inner).map(lambda found: f"coalesce({found[0]}, {found[1]})"),
            st.tuples(conditions(table, inner), inner, inner).map(
                lambda found: f"CASE WHEN {found[0]} THEN {found[1]} ELSE {found[2]} END"
            ),
        ),
        max_leaves=3,
    )


def text_expressions(table: str) -> st.SearchStrategy[str]:
    column = f"{table}.s"
    return st.sampled_from(
        [
            column,
            f"upper({column})",
            f"{column} || 'x'",
            f"coalesce({column}, 'none')",
            f"substr({column}, 1, 2)",
            "'a'",
        ]
    )


def conditions(table: str, number: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    compared = st.tuples(number, st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), number).map(" ".join)
    column = f"{table}.s"
    others = st.sampled_from(
        [
            f"{table}.b",
            f"NOT {table}.b",
            f"{table}.n IS NULL",
            f"{table}.i IS DISTINCT FROM {table}.n",
            f"{column} LIKE 'a%'",
            f"{column} < 'b'",
            f"{column} IN ('a', 'b', '')",
            f"{table}.i BETWEEN -1 AND 3",
            f"{table}.i IN (1, 2, NULL)",
        ]
    )
    return compared | others


@st.composite
def selects(draw: st.DrawFn) -> str:
    """A query over t and u. Every number expression has a type of its own in each engine: both results are compared as
    numbers."""
    number = number_expressions("t")
    text = text_expressions("t")
    where = draw(st.none() | conditions("t", number))
    condition = "" if where is None else f" WHERE {where}"
    source = "t"
    if draw(st.booleans()):
        kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
        source = f"t {kind} u ON t.{draw(st.sampled_from('in'))} = u.i"
        number |= st.sampled_from(["u.n", "u.d"])
    if draw(st.booleans()):
        group = draw(st.sampled_from(["t.i", "t.s", "t.b", "coalesce(t.n, 0)"]))
        value = draw(st.sampled_from(["t.n", "t.d", "t.i + 1"]))
        function = draw(st.sampled_from(["sum", "min", "max", "count", "avg"]))
        having = draw(st.sampled_from(["", " HAVING count(*) > 1"]))
        distinct = "DISTINCT " if function in ("count", "sum") and draw(st.booleans()) else ""
        columns = f"{group} AS g, {function}({distinct}{value}) AS f, count(*) AS c, min(t.s) AS m"
        query, width = f"SELECT {columns} FROM {source}{condition} GROUP BY {group}{having}", 4
    else:
        distinct = draw(st.sampled_from(["", "DISTINCT "]))
        query = f"SELECT {distinct}{draw(number)} AS a, {draw(text)} AS x, t.b AS b FROM {source}{condition}"
        width = 3
        if draw(st.integers(0, 3)) == 0:
            union = draw(st.sampled_from(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]))
            query += f" {union} SELECT u.i AS a, u.s AS x, u.b AS b FROM u"
    if draw(st.booleans()):
        nulls = draw(st.sampled_from(["NULLS FIRST", "NULLS LAST"]))
        direction = draw(st.sampled_from(["ASC", "DESC"]))
        order = ", ".join(f"{at} {direction} {nulls}" for at in range(1, width + 1))
        query += f" ORDER BY {order} LIMIT {draw(st.integers(0, 8))}"
    return query


def comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers as floats: the engines choose different types for the same number."""
    return tuple(round(float(value), 9) + 0.0 if not isinstance(value, bool | str | None) else value for value in row)


def sorted_rows(found: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted((comparable(row) for row in found), key=repr)


class BothEngines:
    """The same rows in topics and in DuckDB."""

    def __init__(self, session: SqlSession, records: Records, tables: dict[str, list[tuple[Any, ...]]]) -> None:
        self._session = session
        self._names = {}
        self._duckdb = duckdb.connect()
        for table, found in tables.items():
            topic = f"{table}{uuid.uuid4().hex[:12]}"
            self._names[table] = topic
            values = [dict(zip(COLUMNS, row, strict=True)) for row in found]
            records(topic, [(value, None) for value in values], partitions=2)
            columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            self._run(f"CREATE STREAM {topic} ({columns}) WITH (topic='{topic}')")
            columns = ", ".join(f"{name} {DUCKDB_TYPES.get(kind, kind)}" for name, kind in COLUMNS.items())
            self._duckdb.execute(f"CREATE TABLE {table} ({columns})")
            if found:
                self._duckdb.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", found)

    def _run(self, text: str) -> Any:
        (statement,) = parse(text)
        return self._session.execute(statement)

    def check(self, query: str) -> None:
        expected = self._duckdb.execute(query).fetchall()
        views = ", ".join(f"{table} AS (SELECT * FROM {topic})" for table, topic in self._names.items())
        result = self._run(f"WITH {views} {query}")
        assert isinstance(result, ResultRows)
        found = list(result.rows)
        assert sorted_rows(found) == sorted_rows(expected), query
        if "ORDER BY" in query:
            assert [comparable(row) for row in found] == [comparable(row) for row in expected], query


@pytest.fixture
def engines(session: SqlSession, records: Records) -> Callable[..., BothEngines]:
    return lambda t, u: BothEngines(session, records, {"t": t, "u": u})


def test_bounded_queries_agree_with_duckdb(
    engines: Callable[..., BothEngines], count: Callable[[int, int], int]
) -> None:
    @hypothesis.settings(
        max_examples=count(5, 300),
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.reuse, hypothesis.Phase.generate],
    )
    @hypothesis.given(rows, rows, st.lists(selects(), min_size=QUERIES_PER_DATASET, max_size=QUERIES_PER_DATASET))
    def agree(t: list[Any], u: list[Any], queries: list[str]) -> None:
        both = engines(t, u)
        for query in queries:
            both.check(query)

    agree()


def test_the_tasks_of_spark_agree_with_duckdb_as_well(
    engines: Callable[..., BothEngines], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large topics are read by Spark's tasks: here all topics count as large."""
    monkeypatch.setattr(relations_module, "LOCAL_RECORDS", -1)
    t = [(at % 5 - 2, at % 3, "ab"[at % 2], at / 4, None if at % 7 == 0 else at % 2 == 0) for at in range(40)]
    u = [(at, at * 2, None, 0.5, True) for at in range(-2, 3)]
    both = engines(t, u)
    both.check("SELECT t.s AS g, sum(t.d) AS f, count(u.n) AS c FROM t LEFT JOIN u ON t.i = u.i GROUP BY t.s")
    both.check("SELECT t.i AS a, t.s AS x, t.b AS b FROM t WHERE t.d > 3 ORDER BY t.d NULLS FIRST LIMIT 5")
