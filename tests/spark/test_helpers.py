"""Helpers of `moldau.spark` inside Spark: JSON in and out, keyed state, deduplication, upserts, progress."""

from __future__ import annotations

import io
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from pyspark.sql import Row
from rich.console import Console

from moldau import Consumer, Producer, TopicPartition
from moldau.client.errors import ConfigurationError
from moldau.spark import (
    KeyedProcessor,
    KeyState,
    deduplicate,
    from_topic,
    keyed_state,
    show_progress,
    to_topic,
    upsert_batch,
)
from moldau.spark.progress_view import progress_line, progress_of, progress_table
from moldau.testing import Broker
from tests.support.databases import PASSWORD, USER, PostgreSQLServer
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEADLINE_S = 200
ONCE = {"availableNow": True}
BEGIN_MS = 1_700_000_000_000


def send(bootstrap: str, topic: str, rows: Iterable[tuple[str | None, Any, int]]) -> None:
    """Write (key, JSON value, milliseconds after BEGIN_MS)."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for key, value, after_ms in rows:
            data = None if value is None else json.dumps(value).encode()
            producer.send(topic, data, key=key and key.encode(), timestamp=BEGIN_MS + after_ms)


def read(bootstrap: str, topic: str) -> list[Any]:
    place = TopicPartition(topic, 0)
    found: list[Any] = []
    with Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets(place)[place]
        while consumer.position(place) < end:
            found += consumer.poll(timeout=1)
    return found


def drained(frame: DataFrame, bootstrap: str, topic: str, checkpoint: str, **arguments: Any) -> None:
    query = to_topic(frame, topic, bootstrap_servers=bootstrap, checkpoint=checkpoint, trigger=ONCE, **arguments)
    assert query is not None
    assert query.awaitTermination(DEADLINE_S)


# -- from_topic and to_topic -------------------------------------------------------------------------------------------


def test_json_comes_out_as_it_went_in_with_keys_times_and_headers(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    at = datetime(2026, 1, 1, 12, 0, 0, 5_000, UTC)
    rows: DataFrame = spark.createDataFrame(
        [(1, "a", 2.5, at, False), (2, "b", None, at, False), (3, "c", 1.0, at, True)],
        "id LONG, customer STRING, amount DOUBLE, at TIMESTAMP, gone BOOLEAN",
    )
    to_topic(
        rows,
        topic,
        bootstrap_servers=bootstrap,
        key="customer",
        timestamp="at",
        headers={"source": "test"},
        deleted="gone",
    )
    found = {record.key: record for record in read(bootstrap, topic)}
    assert found[b"a"].value == b'{"id":1,"customer":"a","amount":2.5}'
    assert found[b"b"].value == b'{"id":2,"customer":"b","amount":null}'
    assert found[b"c"].value is None
    assert list(found[b"a"].headers) == [("source", b"test")]
    assert found[b"a"].timestamp == int(at.timestamp() * 1000)
    frame = from_topic(
        spark,
        topic,
        "id LONG, customer STRING, amount DOUBLE",
        bootstrap_servers=bootstrap,
        streaming=False,
        headers=True,
    )
    assert frame.columns == ["id", "customer", "amount", "key", "timestamp", "partition", "offset", "headers"]
    again = {row.key: row for row in frame.collect()}
    assert again["a"][:3] == (1, "a", 2.5)
    assert (again["a"].timestamp.astimezone(UTC), again["a"].headers[0].value) == (at, b"test")
    assert again["c"][:3] == (None, None, None)


def test_keys_of_several_columns_and_fields_with_the_names_of_record_columns(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    rows = spark.createDataFrame([("k", 7, "x")], "key STRING, `off set` INT, value STRING")
    to_topic(rows, topic, bootstrap_servers=bootstrap, key=["key", "off set"])
    (record,) = read(bootstrap, topic)
    assert json.loads(record.key) == {"key": "k", "off set": 7}
    frame = from_topic(
        spark,
        topic,
        "key STRING, `off set` INT, value STRING",
        bootstrap_servers=bootstrap,
        key="`off set` INT",
        streaming=False,
    )
    assert frame.columns == ["key", "off set", "value", "_key", "timestamp", "partition", "offset"]
    (row,) = frame.collect()
    assert (row.key, row["off set"], row.value, row._key["off set"]) == ("k", 7, "x", 7)
    text = from_topic(spark, [topic], bootstrap_servers=bootstrap, streaming=False)
    assert json.loads(text.collect()[0].value)["key"] == "k"


def test_wrong_arguments_are_reported_before_anything_is_written(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    rows = spark.createDataFrame([("k", 7)], "key STRING, number INT")
    stream = from_topic(spark, topic, bootstrap_servers=bootstrap)
    for match, write in (
        ("no column 'other'; it has key, number", lambda: to_topic(rows, topic, key="other")),
        ("this frame is not one", lambda: to_topic(rows, topic, checkpoint="/tmp/x")),
        ("a stream needs checkpoint", lambda: to_topic(stream, topic)),
        ("no column is left", lambda: to_topic(rows.select("key"), topic, headers="key")),
        ("deduplicate is for streams", lambda: deduplicate(rows, "key")),
        ("timers='later' is not known", lambda: keyed_state(stream, Counts(), **{**COUNTS, "timers": "later"})),
        ("upserts into 'oracle' are not supported", lambda: upsert_batch("oracle://x", "t", key="key")),
        ("needs the name of a table", lambda: upsert_batch("sqlite:///x", key="key")),
    ):
        with pytest.raises(ConfigurationError, match=match):
            write()
    assert read(bootstrap, topic) == []


# -- keyed state -------------------------------------------------------------------------------------------------------


class Counts(KeyedProcessor):
    """Numbers the rows of each key. Ten seconds of event time after the last row, it says how many there were."""

    def on_rows(self, key: Any, rows: Iterator[Row], state: KeyState) -> Iterable[dict[str, Any]]:
        found = state.get()
        number = 0 if found is None else found.number
        last = datetime.min.replace(tzinfo=UTC)
        for row in sorted(rows, key=lambda row: row.offset):
            number += 1
            last = max(last, row.timestamp)
            yield {"key": key, "number": number}
        for timer in state.timers():
            state.cancel_timer(timer)
        state.set(number=number)
        state.set_timer(last + timedelta(seconds=10))

    def on_timer(self, key: Any, at: datetime, state: KeyState) -> Iterable[tuple[Any, ...]]:
        found = state.get()
        assert found is not None
        assert found.unused is None
        assert state.now >= at
        state.clear()
        yield (key, found.number, at)


COUNTS: dict[str, Any] = {
    "key": "key",
    "state": "number INT, unused STRING",
    "schema": "key STRING, number INT, silent TIMESTAMP",
    "timers": "event",
}


def test_state_and_event_timers_of_keys_continue_after_a_restart(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], checkpoint: str
) -> None:
    source, into = new_topic(), new_topic()
    options = {"maxOffsetsPerTrigger": "2"}
    events = from_topic(spark, source, "id INT", bootstrap_servers=bootstrap, options=options)
    counted = keyed_state(events.withWatermark("timestamp", "1 second"), Counts(), **COUNTS)
    send(bootstrap, source, [("a", {"id": 1}, 0), ("b", {"id": 2}, 1_000), ("a", {"id": 3}, 2_000)])
    drained(counted, bootstrap, into, checkpoint)
    # The timer of a is moved to 13 s, that of b stays at 11 s; the watermark passes them with the last record.
    send(bootstrap, source, [("a", {"id": 4}, 3_000), ("clock", {}, 12_500), ("clock", {}, 30_000)])
    drained(counted, bootstrap, into, checkpoint)
    rows = [json.loads(record.value) for record in read(bootstrap, into)]
    numbers = sorted((row["key"], row["number"]) for row in rows if row["silent"] is None and row["key"] != "clock")
    assert numbers == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    silent = {row["key"]: (row["number"], row["silent"]) for row in rows if row["silent"] is not None}
    at = datetime.fromtimestamp(BEGIN_MS / 1e3, UTC)
    for key, number, after_s in (("a", 3, 13), ("b", 1, 11)):
        count, time = silent[key]
        assert (count, datetime.fromisoformat(time)) == (number, at + timedelta(seconds=after_s))
    assert sum(row["silent"] is not None and row["key"] != "clock" for row in rows) == 2


class Reminder(KeyedProcessor):
    """Says hello some moments after the first row of a key."""

    def on_rows(self, key: Any, rows: Iterator[Row], state: KeyState) -> Iterable[dict[str, Any]]:
        if state.get() is None:
            state.set(name=next(rows).name)
            state.set_timer(state.now + timedelta(milliseconds=100))
        return []

    def on_timer(self, key: Any, at: datetime, state: KeyState) -> Iterable[Row]:
        found = state.get()
        assert found is not None
        yield Row(region=key[0], hello=found.name)


def test_timers_of_the_clock_expire_without_new_rows(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], checkpoint: str
) -> None:
    source, into = new_topic(), new_topic()
    send(bootstrap, source, [("a", {"region": "eu", "number": 1, "name": "ann"}, 0)])
    people = from_topic(spark, source, "region STRING, number INT, name STRING", bootstrap_servers=bootstrap)
    hello = keyed_state(
        people, Reminder(), key=["region", "number"], state="name STRING", schema="hello STRING, region STRING"
    )
    query = to_topic(hello, into, bootstrap_servers=bootstrap, checkpoint=checkpoint)
    assert query is not None
    try:
        (record,) = wait_until(lambda: read(bootstrap, into), "the timer has expired", DEADLINE_S)
    finally:
        query.stop()
    assert json.loads(record.value) == {"hello": "ann", "region": "eu"}


# -- deduplicate -------------------------------------------------------------------------------------------------------


def test_a_key_is_seen_once_within_the_time_also_over_restarts(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], checkpoint: str
) -> None:
    source, into = new_topic(), new_topic()
    options = {"maxOffsetsPerTrigger": "2"}
    events = from_topic(spark, source, "id STRING, n INT", bootstrap_servers=bootstrap, options=options)
    once = deduplicate(events, "id", "10 seconds").select("id", "n")
    send(bootstrap, source, [(None, {"id": "a", "n": 1}, 0), (None, {"id": "a", "n": 2}, 0)])
    drained(once, bootstrap, into, checkpoint)
    # Two records per batch. The second batch moves the watermark, the third one ends with the removal of old keys.
    later = [("a", 5_000), ("b", 60_000), ("c", 61_000), ("c", 61_000), ("a", 62_000)]
    send(bootstrap, source, [(None, {"id": key, "n": 3}, after_ms) for key, after_ms in later])
    drained(once, bootstrap, into, checkpoint)
    found = [json.loads(record.value) for record in read(bootstrap, into)]
    assert [one["id"] for one in found] == ["a", "b", "c", "a"]
    assert found[0]["n"] in (1, 2)


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_of_queries_is_shown_until_they_end(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], checkpoint: str
) -> None:
    source, into = new_topic(), new_topic()
    send(bootstrap, source, [("a", {"id": 1}, 0)] * 3)
    frame = from_topic(spark, source, "id INT", bootstrap_servers=bootstrap).select("id")
    query = to_topic(
        frame, into, bootstrap_servers=bootstrap, checkpoint=checkpoint, trigger=ONCE, query_name="copy-of-ids"
    )
    assert query is not None
    text = io.StringIO()
    show_progress(query, refresh_s=0.2, console=Console(file=text, width=200))
    lines = text.getvalue().splitlines()
    assert lines[-1].startswith("copy-of-ids: ended, batch 0, 3 rows, ")
    assert "lag 0" in lines[-1]
    found = progress_of(query)
    assert (found.state, found.batch, found.rows, found.lag) == ("ended", 0, 3, 0)
    assert progress_line(found) == lines[-1]
    live = io.StringIO()
    console = Console(file=live, width=200, force_terminal=True)
    show_progress([query], console=console)
    console.print(progress_table([found]))
    assert "copy-of-ids" in live.getvalue()


# -- the page ----------------------------------------------------------------------------------------------------------


def test_every_example_of_the_page_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import moldau.spark

    monkeypatch.setattr(moldau.spark, "session", lambda: spark)
    page = Path(__file__).resolve().parents[2] / "docs" / "spark-helpers.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 5
    with Broker({"num.partitions": 1}) as broker:
        program = "\n".join(blocks).replace("localhost:9092", broker.bootstrap_servers)
        exec(compile(program.replace("/var/checkpoints", str(tmp_path)), "examples", "exec"), {"__name__": "page"})
        spending = [json.loads(record.value) for record in read(broker.bootstrap_servers, "spending")]
    assert sorted((row["customer"], row["total"], row["closed"]) for row in spending) == [
        ("ann", 20.0, False),
        ("bob", 5.0, False),
    ]
    rows = database_rows(tmp_path / "shop.db", "totals")
    assert [(customer, total) for customer, total, _offset in rows] == [("ann", 20.0), ("bob", 5.0)]


# -- upserts -----------------------------------------------------------------------------------------------------------


def database_rows(path: Path, table: str = "people") -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as database:
        found = database.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
    database.close()
    return found


def test_a_batch_that_is_run_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    upsert = upsert_batch(f"sqlite://{path}", "people", key="id", order_by="version", deleted="gone", query="q")

    def batch(number: int, rows: list[tuple[Any, ...]]) -> None:
        upsert(spark.createDataFrame(rows, "id INT, name STRING, version INT, gone BOOLEAN"), number)

    batch(0, [(1, "old", 1, False), (1, "new", 2, None), (2, "two", 1, False)])
    assert database_rows(path) == [(1, "new", 2), (2, "two", 1)]
    batch(0, [(1, "again", 3, False)])
    assert database_rows(path) == [(1, "new", 2), (2, "two", 1)]
    batch(1, [(1, "gone", 4, True), (3, "three", 1, False), (9, "never", 1, True)])
    assert database_rows(path) == [(2, "two", 1), (3, "three", 1)]
    batch(0, [(2, "a driver that woke up late", 1, False)])
    assert database_rows(path) == [(2, "two", 1), (3, "three", 1)]
    assert database_rows(path, "moldau_batches") == [("q", "people", 1)]


def test_rows_that_cannot_be_upserted_leave_the_target_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    upsert = upsert_batch(f"sqlite://{path}", "people", key=["id"], query="q")
    upsert(spark.createDataFrame([(1, "one")], "id INT, name STRING"), 0)
    with pytest.raises(ConfigurationError, match=r"several rows with the key \{'id': 2\}; .* order_by"):
        upsert(spark.createDataFrame([(2, "a"), (2, "b")], "id INT, name STRING"), 1)
    with pytest.raises(ConfigurationError, match="no column id"):
        upsert(spark.createDataFrame([("a",)], "name STRING"), 1)
    with pytest.raises(Exception, match=r"batch 1 was not written to table people: .*no column named other"):
        upsert(spark.createDataFrame([(2, "a")], "id INT, other STRING"), 1)
    upsert(spark.createDataFrame([(2, "two")], "id INT, name STRING"), 1)
    assert database_rows(path) == [(1, "one"), (2, "two")]


def test_upserts_into_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "people"
    upsert = upsert_batch(f"delta://{path}", key="id", deleted="gone", query="q")
    schema = "id INT, name STRING, gone BOOLEAN"
    upsert(spark.createDataFrame([(1, "one", False), (2, "two", False)], schema), 0)
    upsert(spark.createDataFrame([(1, "uno", False), (2, "two", True), (3, "three", None), (4, "x", True)], schema), 1)
    upsert(spark.createDataFrame([(1, "again", False)], schema), 1)
    found = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    assert sorted((row["id"], row["name"]) for row in found) == [(1, "uno"), (3, "three")]


def test_upserts_into_postgresql(spark: SparkSession) -> None:
    if (reason := PostgreSQLServer.missing()) is not None:
        pytest.skip(reason)
    server = PostgreSQLServer()
    try:
        server.create()
        server.start()
        address = f"postgresql://{USER}:{quote(PASSWORD)}@127.0.0.1:{server.port}/postgres"
        upsert = upsert_batch(address, "people", key=["id", "part"], deleted="gone", query="q")
        schema = "id INT, part STRING, name STRING, at TIMESTAMP, gone BOOLEAN"
        at = datetime(2026, 1, 1, tzinfo=UTC)
        first = [(1, "a", "one", at, False), (1, "b", "two", None, False), (2, "a", "gone", at, False)]
        upsert(spark.createDataFrame(first, schema), 0)
        upsert(spark.createDataFrame([(1, "a", "uno", at, None), (2, "a", "x", at, True)], schema), 1)
        upsert(spark.createDataFrame([(1, "a", "again", at, False)], schema), 1)
        found = server.rows("postgres", "SELECT id, part, name FROM people ORDER BY 1, 2")
        assert found == [(1, "a", "uno"), (1, "b", "two")]
        with pytest.raises(Exception, match="batch 2 was not written to table people") as refused:
            upsert(spark.createDataFrame([(1, "a", 7.5, None)], "id INT, part STRING, other DOUBLE, gone BOOLEAN"), 2)
        assert PASSWORD not in str(refused.value)
        upsert(spark.createDataFrame([], schema), 2)
        assert server.rows("postgres", "SELECT query, target, batch FROM moldau_batches") == [("q", "people", 2)]
    finally:
        server.remove()
