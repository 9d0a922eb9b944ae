"""CREATE … AS SELECT, INSERT INTO … SELECT, PAUSE, RESUME, TERMINATE: what they write to the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau import ConfigResource
from moldau.sql.errors import SqlError
from moldau.sql.queries import QueryState, QueryStatus, WantedState
from moldau.sql.session import SqlSession

Sql = Callable[[str], Any]
Records = Callable[..., None]


@pytest.fixture
def orders(sql: Sql, name: str) -> str:
    sql(f"CREATE STREAM {name} (id STRING KEY, city STRING, amount DOUBLE) WITH (partitions=3)")
    return name


def test_a_query_declares_its_target_and_creates_the_topic(sql: Sql, session: SqlSession, orders: str) -> None:
    target = f"{orders}_by_city"
    sql("SET 'auto.offset.reset' = 'latest'")
    try:
        notice = sql(f"CREATE TABLE {target} AS SELECT city, sum(amount) AS total FROM {orders} GROUP BY city")
    finally:
        sql("UNSET 'auto.offset.reset'")
    assert "moldau sql serve" in " ".join(notice.warnings)
    declared = session.catalogue.declarations[target]
    assert [(one.name, one.type, one.is_key) for one in declared.columns] == [
        ("city", "STRING", True),
        ("total", "DOUBLE", False),
    ]
    definition = session.catalogue.queries[target]
    assert definition.target == declared and declared.query == target
    assert definition.settings == {"auto.offset.reset": "latest"}
    assert [one.name for one in definition.sources] == [orders]
    topic = session.relations.lookup.topic(target)
    assert topic is not None and topic.partitions == 3
    (config,) = session.relations.lookup.admin.describe_configs([ConfigResource.topic(target)]).values()
    assert config["cleanup.policy"].value == "compact"
    assert sql(f"SELECT * FROM {target}") == []
    shown = {row["name"]: row for row in sql("SHOW QUERIES")}
    assert shown[target]["state"] == "WAITING" and shown[target]["target"] == target
    assert any("WAITING" in row["plan"] for row in sql(f"EXPLAIN {target}"))
    details = {row["name"]: row["type"] for row in sql(f"DESCRIBE {target} EXTENDED")}
    assert details["written by"] == target and details["query state"] == "WAITING"

    with pytest.raises(SqlError, match="exists"):
        sql(f"CREATE TABLE {target} AS SELECT city, count(*) AS n FROM {orders} GROUP BY city")
    with pytest.raises(SqlError, match="is written by query"):
        sql(f"INSERT INTO {target} VALUES ('x', 1)")
    with pytest.raises(SqlError, match="TERMINATE"):
        sql(f"DROP TABLE {target}")

    sql(f"PAUSE {target}")
    assert session.catalogue.queries[target].wanted is WantedState.PAUSED
    assert {row["name"]: row["state"] for row in sql("SHOW QUERIES")}[target] == "PAUSED"
    sql(f"RESUME {target}")
    assert session.catalogue.queries[target].wanted is WantedState.RUNNING
    now_ms = session.catalogue.queries[target].created_ms
    status = QueryStatus(target, definition.id, QueryState.RUNNING, "http://s", rows=5, lag=2, reported_ms=now_ms)
    session.catalogue.report([status])
    assert {row["name"]: (row["rows"], row["lag"]) for row in sql("SHOW QUERIES")}[target] == (5, 2)
    sql(f"TERMINATE {target}; DROP TABLE {target} DELETE TOPIC")
    assert target not in session.catalogue.queries and target not in session.catalogue.declarations


def test_queries_that_do_not_fit_their_target_are_refused(sql: Sql, session: SqlSession, orders: str) -> None:
    other = f"{orders}_other"
    sql(f"CREATE STREAM {other} (city STRING KEY, amount DOUBLE) WITH (partitions=1)")
    cases = {
        f"CREATE STREAM {orders}_x AS SELECT city, count(*) AS n FROM {orders} GROUP BY city": "write CREATE TABLE",
        f"CREATE TABLE {orders}_x AS SELECT city FROM {orders}": "write CREATE STREAM",
        f"CREATE TABLE {orders}_x AS SELECT count(*) AS n FROM {orders}": "add a key",
        f"CREATE STREAM {orders}_x WITH (key='ctiy') AS SELECT city FROM {orders}": "did you mean city?",
        f"CREATE STREAM {orders}_x WITH (topic='{orders}') AS SELECT city FROM {orders}": "would never end",
        f"CREATE STREAM {orders}_x AS SELECT city, upper(city) AS CITY FROM {orders}": "two columns",
        f"CREATE STREAM {orders}_x AS SELECT nme FROM {orders}": "there is no column 'nme'",
        f"CREATE STREAM {orders}_x WITH (format='avro') AS SELECT city FROM {orders}": "schema registry",
        f"INSERT INTO {other} SELECT city, amount AS amuont FROM {orders}": "did you mean amount?",
        f"INSERT INTO {other} SELECT city, count(*) AS amount FROM {orders} GROUP BY city": "is a STREAM",
        f"INSERT INTO {orders} SELECT id, city, amount FROM {orders}": "would never end",
        f"INSERT INTO {orders}_none SELECT city FROM {orders}": "there is no stream, table or topic",
        f"TERMINATE {orders}_x": "there is no query",
        f"PAUSE {orders}_x": "there is no query",
    }
    for text, expected in cases.items():
        with pytest.raises(SqlError) as raised:
            sql(text)
        assert expected in str(raised.value), (text, str(raised.value))
        assert raised.value.line == 1
    assert session.relations.lookup.topic(f"{orders}_x") is None
    assert not [one for one in session.catalogue.queries if one.startswith(orders)]


def test_a_query_inserts_into_a_stream_under_a_name(sql: Sql, session: SqlSession, orders: str) -> None:
    other, query = f"{orders}_other", f"{orders}_q"
    sql(f"CREATE STREAM {other} (city STRING KEY, amount DOUBLE, note STRING) WITH (partitions=1)")
    sql(f"INSERT INTO {other} WITH (query_id='{query}') SELECT city, amount FROM {orders} WHERE amount > 1")
    definition = session.catalogue.queries[query]
    assert definition.target.name == other and definition.target.query is None
    assert definition.text.startswith("INSERT INTO")
    with pytest.raises(SqlError, match="is used by query"):
        sql(f"DROP STREAM {other} DELETE TOPIC")
    sql(f"TERMINATE {query}")
