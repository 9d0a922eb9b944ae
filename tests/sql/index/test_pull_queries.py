"""Pull queries: which SELECT an index answers, and that the answer is the one that Spark gives for the whole table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moldau import Producer, RecordMetadata
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.index.pull_queries import PullQueries
from moldau.sql.queries import QueryDefinition
from moldau.sql.query_shape import shape_of
from moldau.sql.results import ResultRows
from moldau.sql.spark_text import spark_text
from moldau.sql.statements import QueryText, ReadBound
from moldau.sql.tables.frames import decoded
from moldau.sql.tables.record_columns import hidden_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = "CREATE TABLE … AS SELECT …"
CUSTOMERS = (
    ColumnDeclaration("customer", "STRING", is_key=True),
    ColumnDeclaration("Total", "DOUBLE"),
    ColumnDeclaration("orders", "INT"),
    ColumnDeclaration("last", "TIMESTAMP"),
    ColumnDeclaration("active", "BOOLEAN"),
    ColumnDeclaration("tags", "ARRAY<STRING>"),
)
FLAT = tuple(column for column in CUSTOMERS if column.name != "tags")
WINDOWS = (
    ColumnDeclaration("shop", "STRING", is_key=True),
    ColumnDeclaration("area", "INT", is_key=True),
    ColumnDeclaration("window_start", "TIMESTAMP", is_key=True),
    ColumnDeclaration("count", "BIGINT"),
)


class Tables:
    """Tables with an index, and what Spark says about their topics."""

    def __init__(self, spark: SparkSession, bootstrap: str, directory: str, new_topic: Callable[..., str]) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.pulls = PullQueries(spark, {"bootstrap.servers": bootstrap}, directory)
        self._new_topic = new_topic
        self._tables: list[Declaration] = []
        self._scan_session = spark.newSession()

    def add(
        self,
        name: str,
        columns: tuple[ColumnDeclaration, ...],
        records: list[tuple[bytes, bytes | None]],
        **fields: Any,
    ) -> Declaration:
        topic = self._new_topic(2, {"cleanup.policy": "compact"})
        table = Declaration(name, RelationKind.TABLE, topic, columns, **{"text": TEXT, **fields})
        self._tables.append(table)
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            sent = [producer.send(topic, value, key=key).result() for key, value in records]
        latest = {key: (value, at) for (key, value), at in zip(records, sent, strict=True)}
        raw = [(key, value, at) for key, (value, at) in latest.items() if value is not None]
        self._scan_view(table, raw)
        assert self.pulls.open(QueryDefinition(f"q-{name}", f"id-{name}", TEXT, table, ()))
        return table

    def _scan_view(self, table: Declaration, raw: list[tuple[bytes, bytes, RecordMetadata]]) -> None:
        rows = [
            (key, value, at.partition, at.offset, datetime.fromtimestamp(at.timestamp / 1e3, UTC))
            for key, value, at in raw
        ]
        frame = self._scan_session.createDataFrame(
            rows, "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP"
        )
        whole = frame.selectExpr("*", "CAST(NULL AS array<struct<key:string,value:binary>>) AS headers")
        decoded(whole, table).createOrReplaceTempView(table.name)

    def pulled(self, text: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]] | None:
        found = self.pulls.answer(QueryText(text), timeout_s=60)
        return None if found is None else shown(found)

    def scanned(self, text: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """The same query by Spark, on the whole tables."""
        session = self._scan_session
        hidden = {table.name.lower(): hidden_columns(table) for table in self._tables}
        query = QueryText(text)
        rewritten = spark_text(query, shape_of(session, text), lambda name: hidden[name.lower()])
        frame = session.sql(rewritten.text)
        columns = [(one.name, one.dataType.simpleString()) for one in frame.schema.fields]
        return columns, sorted((tuple(row) for row in frame.collect()), key=repr)


def shown(found: ResultRows) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
    return [(one.name, one.type) for one in found.columns], sorted(found.rows, key=repr)


def row(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.fixture(scope="module")
def topics_of_module(bootstrap: str) -> Callable[..., str]:
    from uuid import uuid4

    from moldau import Admin
    from moldau.client.admin import NewTopic

    def create(partitions: int, configs: dict[str, str]) -> str:
        name = f"pull-{uuid4().hex[:12]}"
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(NewTopic(name, partitions, configs=configs))
        return name

    return create


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession,
    bootstrap: str,
    tmp_path_factory: pytest.TempPathFactory,
    topics_of_module: Callable[..., str],
) -> Iterator[Tables]:
    made = Tables(spark, bootstrap, str(tmp_path_factory.mktemp("index")), topics_of_module)
    flat: list[tuple[bytes, bytes | None]] = [
        (b"a", row(Total=1, orders=1)),
        (b"b", row(Total=2.5, orders=-7, last="2026-01-01T10:00:00.000Z", active=True)),
        (b"a", row(Total=3, orders=2, last="1999-12-31T23:59:59.999999Z", active=False, other=[1])),
        (b"gone", row(Total=1)),
        (b"gone", None),
        (b"bad", b"not JSON"),
        (b"text", row(Total="4", orders="5", last="2026-01-01 10:00:00", active="true")),
        (b"large", row(Total=1e300, orders=1 << 40, last="1200-01-01T00:00:00Z")),
        (b"odd", b'{"Total": NaN, "orders": 1.0, "Total2": 1, "active": null}'),
        ("ä'b\"c".encode(), row(orders=9)),
        (b"[1, 2]", row(orders=10)),
        (b"\xff", row(orders=11)),
        (b"", row(orders=12)),
    ]
    made.add("flat", FLAT, flat)
    made.add("nested", CUSTOMERS, [(b"a", row(Total=1, tags=["x", "y"])), (b"b", row(tags=None))])
    made.add(
        "numbers",
        (ColumnDeclaration("id", "INT", is_key=True), ColumnDeclaration("name", "STRING")),
        [
            (b"7", row(name="seven")),
            (b"07", row(name="zero seven")),
            (b" 8 ", row(name="eight")),
            (b"x", row(name="x")),
        ],
    )
    made.add(
        "windows",
        WINDOWS,
        [
            (row(shop="s", area=1, window_start="2026-01-01T00:00:00.000Z"), row(count=1)),
            (row(shop="s", area=1, window_start="2026-01-01T00:01:00.000Z"), row(count=2)),
            (row(area=1, shop="s", window_start="2026-01-01T00:02:00.000Z"), row(count=3)),
            (row(shop="s", area=2, window_start="2026-01-01T00:00:00.000Z"), row(count=4)),
            (row(shop="t", area=1, window_start=None), row(count=5)),
            (b"no object", row(count=6)),
        ],
        key_format="json",
    )
    yield made
    made.pulls.close_all()


ANSWERED = [
    "SELECT * FROM flat WHERE customer = 'a'",
    "select * from FLAT where CUSTOMER = 'b'",
    "SELECT Total, total AS t, CUSTOMER, `orders`, partition, offset FROM flat WHERE 'a' = customer",
    "SELECT f.* FROM flat AS f WHERE f.customer IN ('a', 'b', 'a', 'missing')",
    "SELECT flat.orders FROM flat WHERE flat.customer = 'gone'",
    *(f"SELECT * FROM flat WHERE customer = '{key}'" for key in ("bad", "text", "large", "odd", "[1, 2]", "")),
    "SELECT orders FROM flat WHERE customer = 'ä\\'b\"c'",
    "SELECT orders + 1, upper(customer) AS u FROM flat WHERE customer = 'a'",
    "SELECT orders, key, value, timestamp FROM flat WHERE customer = 'a'",
    "SELECT * EXCEPT (last) FROM flat WHERE customer = 'a'",
    "SELECT orders FROM flat WHERE customer IN ('a', 'b') AND orders > 0 ORDER BY orders LIMIT 1",
    "SELECT orders FROM flat WHERE customer = 'a' AND customer = 'b'",
    "SELECT orders FROM flat WHERE customer = 'a' AND (orders = 1 OR orders = 2)",
    "SELECT count(*), max(orders) FROM flat WHERE customer IN ('a', 'missing')",
    "SELECT customer, count(*) AS n FROM flat WHERE customer IN ('a', 'b') GROUP BY customer HAVING count(*) > 0",
    "SELECT DISTINCT active FROM flat WHERE customer IN ('a', 'b')",
    "SELECT 1 AS one FROM flat WHERE customer = 'a'",
    "SELECT * FROM nested WHERE customer = 'a'",
    "SELECT tags[0], Total FROM nested WHERE customer IN ('a', 'b')",
    "SELECT * FROM numbers WHERE id = 7",
    "SELECT * FROM numbers WHERE id IN (7, 8, -1)",
    "SELECT * FROM windows WHERE shop = 's' AND area = 1",
    "SELECT window_start, count FROM windows WHERE area IN (1, 2) AND shop IN ('s', 't')",
    "SELECT count FROM windows WHERE shop = 's' AND area = 1 AND window_start = TIMESTAMP '2026-01-01 00:01:00'",
    "SELECT count FROM windows WHERE shop = 's' AND area = 1 AND window_start >= '2026-01-01T00:01:00Z'",
]


@pytest.mark.parametrize("text", ANSWERED)
def test_an_answer_by_key_is_that_of_a_scan(tables: Tables, text: str) -> None:
    assert repr(tables.pulled(text)) == repr(tables.scanned(text))  # NaN is not equal to itself


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM flat",
        "SELECT * FROM flat WHERE orders = 1",
        "SELECT * FROM flat WHERE customer = 'a' OR orders = 1",
        "SELECT * FROM flat WHERE NOT customer = 'a'",
        "SELECT * FROM flat WHERE customer <> 'a'",
        "SELECT * FROM flat WHERE customer = NULL",
        "SELECT * FROM flat WHERE customer = 7",
        "SELECT * FROM flat WHERE customer = orders",
        "SELECT * FROM flat WHERE customer LIKE 'a'",
        "SELECT * FROM flat WHERE lower(customer) = 'a'",
        "SELECT * FROM flat WHERE customer = lower('A')",
        "SELECT * FROM flat WHERE customer IN (SELECT customer FROM flat)",
        "SELECT * FROM flat WHERE customer = 'a' AND orders = (SELECT max(orders) FROM flat)",
        "SELECT *, (SELECT count(*) FROM flat) FROM flat WHERE customer = 'a'",
        "SELECT * FROM flat WHERE customer = 'a' AND EXISTS (SELECT 1 FROM nested)",
        "SELECT * FROM (SELECT * FROM flat) WHERE customer = 'a'",
        "WITH x AS (SELECT * FROM flat) SELECT * FROM x WHERE customer = 'a'",
        "SELECT * FROM flat JOIN nested USING (customer) WHERE customer = 'a'",
        "SELECT * FROM flat, nested WHERE flat.customer = 'a'",
        "SELECT * FROM flat WHERE customer = 'a' UNION ALL SELECT * FROM flat WHERE customer = 'b'",
        "SELECT * FROM numbers WHERE id = '7'",
        "SELECT * FROM numbers WHERE id = 7.0",
        "SELECT * FROM windows WHERE shop = 's'",
        "SELECT * FROM windows WHERE shop = 's' AND area + 0 = 1",
        "SELECT headers FROM flat WHERE customer = 'a'",
        "SELECT unknown FROM flat WHERE customer = 'a'",
        "SELECT other.orders FROM flat WHERE customer = 'a'",
        "SELECT * FROM flat WHERE other.customer = 'a'",
        "SELECT * FROM another WHERE customer = 'a'",
        "SELECT * FROM shop.flat WHERE customer = 'a'",
        "SELECT FROM flat WHERE",
        "SELECT * FROM range(3) WHERE id = 1",
        "SELECT 1",
        f"SELECT * FROM flat WHERE customer IN ({', '.join(repr(str(n)) for n in range(1_001))})",
    ],
)
def test_a_query_that_an_index_cannot_answer_is_left_to_a_scan(tables: Tables, text: str) -> None:
    assert tables.pulled(text) is None


def test_continuous_queries_and_time_travel_are_left_to_others(tables: Tables) -> None:
    text = "SELECT * FROM flat WHERE customer = 'a'"
    for query in (
        QueryText(text, continuous=True),
        QueryText(text, as_of={"flat": ReadBound(offset=1)}),
        QueryText(text, limit=1),
    ):
        assert tables.pulls.answer(query) is None


def test_a_stream_and_a_table_without_a_comparable_key_have_no_index(tables: Tables) -> None:
    stream = Declaration("s", RelationKind.STREAM, "s", FLAT)
    keyless = Declaration("t", RelationKind.TABLE, "t", (ColumnDeclaration("a", "INT"),))
    times = Declaration("t", RelationKind.TABLE, "t", (ColumnDeclaration("a", "TIMESTAMP", is_key=True),))
    binary = Declaration("t", RelationKind.TABLE, "t", FLAT, key_format="bytes")
    for target in (stream, keyless, times, binary):
        assert not tables.pulls.open(QueryDefinition("q", "other", TEXT, target, ()))


def test_an_index_lives_as_long_as_a_query_that_writes_its_table(
    spark: SparkSession, bootstrap: str, tmp_path: Path, new_topic: Callable[..., str]
) -> None:
    tables = Tables(spark, bootstrap, str(tmp_path), new_topic)
    table = tables.add("totals", FLAT, [(b"a", row(orders=1))])
    assert tables.pulls.open(QueryDefinition("second", "second", TEXT, table, ()))
    text = "SELECT orders FROM totals WHERE customer = 'a'"
    tables.pulls.close("id-totals")
    assert tables.pulled(text) == ([("orders", "int")], [(1,)])
    assert list(tmp_path.glob("*/index/*"))
    tables.pulls.close("second", remove=True)
    assert tables.pulled(text) is None
    assert list(tmp_path.glob("*/*")) == []
    tables.pulls.close("second")
