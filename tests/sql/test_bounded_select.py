"""Bounded SELECT: a topic, or a declared relation, as of now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moldau.sql.catalogue import Catalogue
from moldau.sql.errors import SqlError
from moldau.sql.parser import parse
from moldau.sql.session import SqlSession
from moldau.sql.statements import ReadBound
from tests.support.process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sql = Callable[[str], Any]
Records = Callable[..., None]


def test_a_topic_is_a_table_without_a_declaration(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"id": 1, "city": "Prague"}, "a"), ({"id": 2, "city": None}, "b")])
    assert sql(f"SELECT key, id, city FROM {name} ORDER BY id") == [
        {"key": "a", "id": 1, "city": "Prague"},
        {"key": "b", "id": 2, "city": None},
    ]
    assert sql(f"SELECT count(*) AS n FROM {name.upper()} WHERE offset > 0") == [{"n": 1}]


def test_an_unknown_relation_is_named_with_its_place_and_the_nearest_name(
    sql: Sql, records: Records, name: str
) -> None:
    records(name, [({"id": 1}, "a")])
    with pytest.raises(SqlError) as raised:
        sql(f"SELECT 1;\nSELECT *\n  FROM {name}x")
    assert (raised.value.line, raised.value.column) == (3, 8)
    assert raised.value.hint == f"did you mean {name}?"


def test_a_table_is_the_latest_row_of_each_key(sql: Sql, session: SqlSession, records: Records, name: str) -> None:
    rows = [
        ({"v": 1}, "a", 0),
        ({"v": 2}, "b", 1),
        ({"v": 3}, "a", 0),
        (None, "b", 1),
        ({"v": 4}, None, 1),
        ("x", "c", 0),
    ]
    records(name, rows, partitions=2)
    sql(f"CREATE TABLE {name} (k STRING PRIMARY KEY, v INT) WITH (topic='{name}')")
    expected = [{"k": "a", "v": 3}, {"k": "c", "v": None}]
    assert sql(f"SELECT * FROM {name} ORDER BY k") == expected
    by_tasks = session.relations.batch(session.relations.find(name), local=False)
    assert [row.asDict() for row in by_tasks.select("k", "v").orderBy("k").collect()] == expected


def test_time_travel_reads_up_to_an_offset_or_a_time(sql: Sql, records: Records, name: str) -> None:
    rows = [({"v": number}, "k", number % 2, 1_000_000 * (number + 1)) for number in range(6)]
    records(name, rows, partitions=2)
    sql(f"CREATE TABLE {name}_t (k STRING PRIMARY KEY, v INT) WITH (topic='{name}')")

    def values(place: str, of: str = name) -> list[int]:
        return sorted(row["v"] for row in sql(f"SELECT v FROM {of} {place}"))

    assert values("AT OFFSET 0") == []
    assert values("AT OFFSET 2") == [0, 1, 2, 3]
    assert values("AT OFFSET 99") == [0, 1, 2, 3, 4, 5]
    assert values("AT OFFSET 1 PARTITION 0") == [0, 1, 3, 5]
    assert values("AT TIMESTAMP '1970-01-01 00:50:00'") == [0, 1]
    assert values("AT TIMESTAMP '1970-01-01 00:50:00.001'") == [0, 1, 2]
    assert values("AT TIMESTAMP '3000000'") == [0, 1]
    assert values("AT OFFSET 2", f"{name}_t") == [2, 3]
    with pytest.raises(SqlError, match="is not a timestamp"):
        sql(f"SELECT * FROM {name} AT TIMESTAMP 'soon'")
    with pytest.raises(SqlError, match="has no partition 7"):
        sql(f"SELECT * FROM {name} AT OFFSET 1 PARTITION 7")
    joined = f"SELECT a.v FROM {name}_t AT OFFSET 1 a JOIN {name} b ON a.v = b.v ORDER BY 1"
    assert [row["v"] for row in sql(joined)] == [0, 1]


def test_a_limit_reads_the_first_records_only(
    sql: Sql, session: SqlSession, records: Records, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records(name, (({"id": number}, None) for number in range(5000)), partitions=2)
    read = []
    original = session.relations.records
    monkeypatch.setattr(
        session.relations, "records", lambda span, columns=(): read.append(span) or original(span, columns)
    )
    session.relations.find(name)
    read.clear()
    assert len(sql(f"SELECT * FROM {name} LIMIT 10")) == 10
    assert [span.offsets for span in read] == [1000]
    read.clear()
    assert len(sql(f"SELECT id FROM {name} WHERE id % 2000 = 1999 LIMIT 3")) == 2
    assert [span.offsets for span in read] == [1000, 5000], "too few rows in the first records: all are read"
    read.clear()
    assert sql(f"SELECT max(id) AS m FROM {name} LIMIT 1") == [{"m": 4999}]
    assert sql(f"SELECT id FROM {name} ORDER BY id DESC LIMIT 1") == [{"id": 4999}]
    assert [span.offsets for span in read] == [1000, 5000, 5000], "an aggregate and an order need all records"


def test_a_query_sees_only_what_is_committed(
    sql: Sql, client_settings: dict[str, str], records: Records, name: str
) -> None:
    from moldau import Producer

    records(name, [({"v": 1}, None)])
    with Producer({**client_settings, "transactional.id": name}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name, b'{"v": 2}')
        producer.flush()
        assert sql(f"SELECT v FROM {name}") == [{"v": 1}]
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(name, b'{"v": 3}')
        producer.commit_transaction()
    assert sql(f"SELECT v FROM {name} ORDER BY v") == [{"v": 1}, {"v": 3}]


def test_a_relation_of_with_is_not_looked_up(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"v": 1}, None), ({"v": 2}, None)])
    text = f"WITH {name} AS (SELECT v + 1 AS w FROM {name}), o AS (SELECT w FROM {name}) SELECT sum(w) AS s FROM o"
    assert sql(text) == [{"s": 5}]
    assert sql(f"SELECT v FROM {name} WHERE v IN (SELECT max(v) FROM {name})") == [{"v": 2}]
    assert sql("SELECT 1 AS one") == [{"one": 1}]
    assert sql("VALUES (1), (2)") == [{"col1": 1}, {"col1": 2}]


def test_topics_that_differ_in_case_only(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"v": 1}, None)])
    records(name.upper(), [({"v": 2}, None)])
    assert sql(f"SELECT v FROM {name}") == [{"v": 1}]
    assert sql(f"SELECT v FROM {name.upper()}") == [{"v": 2}]
    with pytest.raises(SqlError, match="differ in case only"):
        sql(f"SELECT v FROM {name.capitalize()}")


def test_a_topic_that_is_gone_is_named(sql: Sql, session: SqlSession, name: str) -> None:
    sql(f"CREATE STREAM {name} (v INT) WITH (topic='{name}.gone', partitions=1)")
    session.relations.lookup.delete(f"{name}.gone")
    with pytest.raises(SqlError, match=f"topic '{name}.gone' of stream {name} does not exist"):
        sql(f"SELECT * FROM {name}")


def test_a_star_of_a_join_shows_the_declared_columns(sql: Sql, records: Records, name: str) -> None:
    records(name, [({"v": 1, "w": 2}, "a")])
    sql(f"CREATE STREAM {name}_s (k STRING KEY, v INT) WITH (topic='{name}')")
    star = f"SELECT * FROM {name}_s a JOIN {name}_s b ON a.v = b.v AND a.offset = b.offset"
    assert [list(row) for row in (sql(star),)] and sql(f"SELECT a.*, b.v + 1 AS n FROM {name}_s a, {name}_s b") == [
        {"k": "a", "v": 1, "n": 2}
    ]
    assert sql(f"SELECT to_json(struct(*)) AS j, count(*) OVER () AS n FROM {name}_s") == [
        {"j": '{"k":"a","v":1}', "n": 1}
    ]
    assert sql(f"SELECT * EXCEPT (k) FROM {name}_s") == [{"v": 1}]


def test_a_broker_that_is_away_is_an_error_in_plain_words(spark: SparkSession, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        settings = {"bootstrap.servers": broker.bootstrap, "default.api.timeout.ms": 2000, "request.timeout.ms": 1000}
        with Catalogue({"bootstrap.servers": broker.bootstrap}, timeout_s=2) as catalogue:
            session = SqlSession(settings, catalogue=catalogue, spark=spark)
            broker.kill()
            with pytest.raises(SqlError) as raised:
                session.execute(parse("SELECT 1;\n SELECT * FROM orders")[1])
            assert broker.bootstrap in str(raised.value) or "cannot be read" in str(raised.value)
            assert (raised.value.line, raised.value.column) == (2, 2)
            assert "\n" not in str(raised.value) and "Traceback" not in str(raised.value)
            session.close()


def test_a_table_as_a_stream_gives_every_change(
    session: SqlSession, sql: Sql, records: Records, name: str, tmp_path: Path
) -> None:
    records(name, [({"v": 0}, "z"), ({"v": 1}, "a"), (None, "a"), ("bad", "b"), ({"v": 2}, None)])
    sql(f"CREATE TABLE {name} (k STRING PRIMARY KEY, v INT) WITH (topic='{name}')")
    stream = session.relations.stream(session.relations.find(name), ReadBound(offset=1))
    writer = stream.select("k", "v", "_deleted").writeStream.format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    found = {tuple(row) for row in session.spark.table(name).collect()}
    assert found == {("a", None, True), ("a", 1, False), ("b", None, False)}
    observed = [one for report in query.recentProgress for one in report["observedMetrics"].values()]
    assert sum(one["bad_records"] for one in observed) == 1
    session.spark.catalog.dropTempView(name)
