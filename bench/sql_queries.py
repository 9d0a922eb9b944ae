"""Streaming SQL: queries from topic to topic, the first rows of a bounded query, and the start of the shell.

The queries run in one warm Spark session with the settings of `moldau sql serve` (`local[2]`), over the same JSON
records, which are all there before; the clock stops when the last micro-batch is committed. The bare copy reads and
writes keys and values as they are.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bench import spark_session
from bench.harness import Broker, Context, Row, median, percentile, settle, spread
from moldau import Consumer, Producer
from moldau.client.data_types import TopicPartition
from moldau.sql.server.server_session import spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_OF_COPY = 0.6
LEAST_WINDOWED = 500_000
MOST_FIRST_ROWS_S = 1.0
MOST_SHELL_S = 6.0
PARTITIONS = 2
KEYS = 1_000
TOPIC = "orders"
TIMEOUT_S = 300.0
POLL_S = 0.01
LATENCIES = 40
FILTER = f"SELECT id, customer, amount * 2 AS doubled FROM {TOPIC} WHERE amount > 100"
WINDOWS = f"SELECT customer, count(*) AS n FROM {TOPIC} WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY customer"


def run(context: Context) -> Iterator[Row]:
    rows = context.sized(4_000_000, 1_000_000)
    with context.broker("transaction.two.phase.commit.enable=true") as broker, context.scratch("sql") as home:
        broker.create_topic(TOPIC, PARTITIONS)
        _fill(broker, rows)
        settle()
        rates: dict[str, list[float]] = {"copy": [], "filter": [], "windows": []}
        with spark_session.session(home, settings=spark_settings({"spark.master": "local[2]"})) as spark:
            for turn in range(context.repeats + 1):
                found = {
                    "copy": rows / _copy(spark, broker, home / f"copy-{turn}", rows),
                    "filter": rows / _query(spark, broker, FILTER, home / f"filter-{turn}", rows),
                    "windows": rows / _query(spark, broker, WINDOWS, home / f"windows-{turn}", rows),
                }
                if turn:  # the first turn is a warm-up for the JVM's compiler
                    for name, rate in found.items():
                        rates[name].append(rate)
                    context.say(", ".join(f"{name} {rate:,.0f} rows/s" for name, rate in found.items()))
            latencies = _latencies(spark, broker, home / "latency")
            first_rows = _first_rows(spark, broker)
        yield from _rates(rates)
        shell = [_shell(broker) for _ in range(context.repeats)]
    note = f"{TOPIC} with {rows:,} records, {len(first_rows)} times, the first one {first_rows[0]:.2f} s"
    yield Row("SQL: first rows of SELECT … LIMIT 10", median(first_rows), "s", MOST_FIRST_ROWS_S, note=note)
    yield Row("SQL: shell, first answer after its start", median(shell), "s", MOST_SHELL_S, note=spread(shell))
    note = f"p50 {percentile(latencies, 0.5):.2f} s, {len(latencies)} single records, no trigger interval"
    yield Row("SQL: topic to topic latency, p99", percentile(latencies, 0.99), "s", None, note=note)


def _rates(rates: dict[str, list[float]]) -> Iterator[Row]:
    copy, filtered, windows = rates["copy"], rates["filter"], rates["windows"]
    note = f"{median(filtered):,.0f} ({spread(filtered)}) against {median(copy):,.0f} rows/s ({spread(copy)})"
    ratio = median(filtered) / median(copy)
    yield Row("SQL: filter and project, bare copy", ratio, "x", LEAST_OF_COPY, at_least=True, note=note)
    rate = median(windows)
    yield Row("SQL: windowed count, 1,000 keys", rate, "rows/s", LEAST_WINDOWED, at_least=True, note=spread(windows))


class SqlRun:
    """A continuous query of a server, without the server."""

    def __init__(
        self, spark: SparkSession, broker: Broker, select: str, target: str, checkpoint: Path, trigger_ms: int | None
    ) -> None:
        from moldau.sql import continuous
        from moldau.sql.catalogue import Catalogue
        from moldau.sql.declarations import ColumnDeclaration, Declaration
        from moldau.sql.parser import parse
        from moldau.sql.statements import SelectStatement
        from moldau.sql.tables.relations import Relations

        settings = {"bootstrap.servers": broker.address}
        self._catalogue = Catalogue(settings)
        self._catalogue.open()
        (statement,) = parse(f"{select} EMIT CHANGES;")
        assert isinstance(statement, SelectStatement)
        self._relations = Relations(spark, settings, self._catalogue)
        plan = continuous.plan(spark, statement.query, self._relations)
        columns = tuple(ColumnDeclaration(one.name, one.type, one.name in plan.record_key) for one in plan.columns)
        declaration = Declaration(target, plan.kind, target, columns)
        broker.create_topic(target, PARTITIONS)
        name = f"bench-{target}"
        self.began = time.perf_counter()
        self.query = continuous.start(plan, declaration, settings, str(checkpoint), name, trigger_ms=trigger_ms)

    def wait_for_rows(self, rows: int) -> None:
        wait_for_rows(self.query, rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.query.stop()
        self._relations.close()
        self._catalogue.close()


def wait_for_rows(query: Any, rows: int) -> None:
    """Return when micro-batches with so many rows are committed."""
    deadline = time.monotonic() + TIMEOUT_S
    while sum(progress["numInputRows"] for progress in query.recentProgress) < rows:
        failure = query.exception()
        if failure is not None:
            raise failure
        assert time.monotonic() < deadline, "the query does not come to the end"
        time.sleep(POLL_S)


def _fill(broker: Broker, rows: int) -> None:
    keys = [f"c{number}" for number in range(KEYS)]
    with Producer(bootstrap_servers=broker.address, linger_ms=20, batch_size=500_000) as producer:
        for number in range(rows):
            key = keys[number % KEYS]
            value = f'{{"id":{number},"customer":"{key}","amount":{number % 400}.5,"note":"a few words more"}}'
            producer.send(TOPIC, value.encode(), key.encode(), partition=number % PARTITIONS)


def _copy(spark: SparkSession, broker: Broker, checkpoint: Path, rows: int) -> float:
    target = checkpoint.name
    broker.create_topic(target, PARTITIONS)
    reader = spark.readStream.format("moldau").option("kafka.bootstrap.servers", broker.address)
    frame = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest").load().select("key", "value")
    writer = frame.writeStream.format("moldau").option("kafka.bootstrap.servers", broker.address)
    began = time.perf_counter()
    query = writer.option("topic", target).option("checkpointLocation", str(checkpoint)).start()
    wait_for_rows(query, rows)
    took = time.perf_counter() - began
    query.stop()
    return took


def _query(spark: SparkSession, broker: Broker, select: str, checkpoint: Path, rows: int) -> float:
    with SqlRun(spark, broker, select, checkpoint.name, checkpoint, None) as query:
        query.wait_for_rows(rows)
        return time.perf_counter() - query.began


def _latencies(spark: SparkSession, broker: Broker, checkpoint: Path) -> list[float]:
    """Seconds from the acknowledgement of a record until a reader of committed records has the result."""
    source, target, found = "latency-in", "latency-out", []
    broker.create_topic(source, PARTITIONS)
    partitions = [TopicPartition(target, index) for index in range(PARTITIONS)]
    settings = {"bootstrap.servers": broker.address, "isolation.level": "read_committed"}
    with Producer(bootstrap_servers=broker.address, linger_ms=0) as producer:
        producer.send(source, b'{"id": 0}').result()
        select = f"SELECT id + 1 AS next FROM `{source}`"
        with SqlRun(spark, broker, select, target, checkpoint, None), Consumer(settings) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            for number in itertools.count():
                began = time.perf_counter()
                while not consumer.poll(timeout=1.0):
                    assert time.perf_counter() - began < TIMEOUT_S, "the result does not arrive"
                if number:  # the first one waits for the query to start
                    found.append(time.perf_counter() - began)
                if number == LATENCIES:
                    return found
                time.sleep(0.05)
                producer.send(source, b'{"id": %d}' % number).result()
    raise AssertionError


def _first_rows(spark: SparkSession, broker: Broker, times: int = 10) -> list[float]:
    from moldau.sql.parser import parse
    from moldau.sql.results import ResultRows
    from moldau.sql.session import SqlSession

    found = []
    (statement,) = parse(f"SELECT * FROM {TOPIC} LIMIT 10;")
    with SqlSession({"bootstrap.servers": broker.address}, spark=spark) as session:
        for _ in range(times):
            began = time.perf_counter()
            result = session.execute(statement)
            assert isinstance(result, ResultRows)
            assert len(list(result.rows)) == 10
            found.append(time.perf_counter() - began)
    return found


def _shell(broker: Broker) -> float:
    """Seconds from the start of `moldau sql` in a terminal until the first statement, typed at once, is answered."""
    import pexpect

    began = time.perf_counter()
    command = ["-m", "moldau", "sql", "-b", broker.address]
    shell = pexpect.spawn(sys.executable, command, timeout=60, dimensions=(40, 120))
    shell.expect("sql>")
    shell.send("SELECT 40 + 2 AS answer;\r")
    shell.expect("42")
    took = time.perf_counter() - began
    shell.expect("sql>")
    shell.send("exit\r")
    shell.expect(pexpect.EOF)
    shell.close()
    return took
