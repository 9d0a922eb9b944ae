"""Spark source: rows per second compared with Spark's own connector, an empty micro-batch, and a large plan."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bench import kcat, spark_session
from bench.harness import Broker, Context, Row, median, percentile, settle, spread
from bench.produce import LARGE, PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_RATIO = 1.5
LEAST_ROWS = 2_000_000
MOST_IDLE_MS = 50.0
MOST_PLANNING_S = 1.0
MANY_PARTITIONS = 1_000
IDLE_TRIGGERS = 100
IDLE_TIMEOUT_S = 120.0
IDLE_POLL_S = 0.5
TOPIC = "rows"


def run(context: Context) -> Iterator[Row]:
    rows = context.sized(4_000_000, 2_000_000)
    lines = context.lines(rows)
    jars = spark_session.connector_jars()
    with context.broker() as broker, context.scratch("spark") as directory:
        broker.create_topic(TOPIC, PARTITIONS)
        kcat.produce(broker.address, TOPIC, lines, LARGE.settings)
        broker.create_topic("many", MANY_PARTITIONS)
        settle()
        with spark_session.session(directory, jars) as spark:
            yield from _rates(context, spark, broker, rows, with_connector=bool(jars))
            yield _idle(spark, broker, str(directory / "idle"))
        yield _planning(context, broker)


def _rates(context: Context, spark: SparkSession, broker: Broker, rows: int, *, with_connector: bool) -> Iterator[Row]:
    formats = ["moldau", "kafka"] if with_connector else ["moldau"]
    rates: dict[str, list[float]] = {name: [] for name in formats}
    for name in formats:
        _read(spark, broker, name)  # warm-up for the JVM's compiler
    for _ in range(context.repeats):
        for name in formats:
            rates[name].append(rows / _read(spark, broker, name))
            context.say(f"format({name!r}): {rates[name][-1]:,.0f} rows/s")
    ours = median(rates["moldau"])
    note = f"{rows:,} records of 100 bytes, local[2], {spread(rates['moldau'])}"
    yield Row("Spark source: rows read", ours, "rows/s", LEAST_ROWS, at_least=True, note=note)
    if with_connector:
        theirs = median(rates["kafka"])
        note = f"{ours:,.0f} against {theirs:,.0f} rows/s ({spread(rates['kafka'])})"
        yield Row("Spark source beside Spark's own", ours / theirs, "x", LEAST_RATIO, at_least=True, note=note)


def _read(spark: SparkSession, broker: Broker, name: str) -> float:
    """Seconds from a whole topic to a sink that discards every row."""
    reader = spark.read.format(name).option("kafka.bootstrap.servers", broker.address).option("subscribe", TOPIC)
    began = time.perf_counter()
    reader.load().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def _idle(spark: SparkSession, broker: Broker, checkpoint: str) -> Row:
    reader = spark.readStream.format("moldau").option("kafka.bootstrap.servers", broker.address)
    writer = reader.option("subscribe", TOPIC).load().writeStream.format("noop")
    query = writer.option("checkpointLocation", checkpoint).start()
    took: list[float] = []
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while len(took) < IDLE_TRIGGERS:
        assert time.monotonic() < deadline, f"{len(took)} triggers in {IDLE_TIMEOUT_S} s"
        time.sleep(IDLE_POLL_S)
        took = [float(one.durationMs["triggerExecution"]) for one in query.recentProgress if one.batchId > 0]
    query.stop()
    note = f"median of {len(took)} triggers without data; 99 of 100 within {percentile(took, 0.99):.0f} ms"
    return Row("Spark source: an empty micro-batch", median(took), "ms", MOST_IDLE_MS, note=note)


def _planning(context: Context, broker: Broker) -> Row:
    from moldau.spark.batch import batch_reader
    from moldau.spark.rows import row_schema

    options = {"kafka.bootstrap.servers": broker.address, "subscribe": "many"}
    took = []
    for _ in range(context.repeats):
        began = time.perf_counter()
        batch_reader(options, row_schema(headers=False)).partitions()
        took.append(time.perf_counter() - began)
    note = f"from nothing to ranges, clients opened and closed; {spread(took)}"
    return Row(f"Spark source: {MANY_PARTITIONS:,} partitions planned", median(took), "s", MOST_PLANNING_S, note=note)
