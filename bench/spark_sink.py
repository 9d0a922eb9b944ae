"""Spark sink: a topic copied by a stream, exactly once, at least once, and with Spark's own connector.

Each run is a query with `availableNow` over the same records, read by our source, from start to end: one large
micro-batch, and one commit. Source and target are on our broker; the records have 100 bytes. The variants alternate, so
that other load on the machine affects all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench import kcat, spark_session
from bench.harness import Broker, Context, Row, median, settle, spread
from bench.produce import LARGE, PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_OF_AT_LEAST_ONCE = 0.8
LEAST_OF_CONNECTOR = 1.0
SOURCE = "rows"

WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "exactly once": ("moldau", {"delivery": "exactly_once"}),
    "at least once": ("moldau", {"delivery": "at_least_once"}),
    "Spark's own": ("kafka", {}),
}


def run(context: Context) -> Iterator[Row]:
    rows = context.sized(4_000_000, 1_000_000)
    lines = context.lines(rows)
    jars = spark_session.connector_jars()
    ways = {name: way for name, way in WAYS.items() if jars or way[0] == "moldau"}
    with context.broker("transaction.two.phase.commit.enable=true") as broker, context.scratch("spark") as directory:
        broker.create_topic(SOURCE, PARTITIONS)
        kcat.produce(broker.address, SOURCE, lines, LARGE.settings)
        settle()
        with spark_session.session(directory, jars) as spark:
            rates: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(context.repeats + 1):
                for place, (name, (format_, options)) in enumerate(ways.items()):
                    target = f"out-{turn}-{place}"
                    broker.create_topic(target, PARTITIONS)
                    took = _copy(spark, broker, format_, {**options, "topic": target}, directory / target)
                    if turn:  # the first turn is a warm-up for the JVM's compiler
                        rates[name].append(rows / took)
                        context.say(f"{name}: {rates[name][-1]:,.0f} rows/s")
    yield from _rows(rates)


def _rows(rates: dict[str, list[float]]) -> Iterator[Row]:
    once, least = rates["exactly once"], rates["at least once"]
    note = f"{median(once):,.0f} ({spread(once)}) against {median(least):,.0f} rows/s ({spread(least)})"
    ratio = median(once) / median(least)
    yield Row("Spark sink: exactly once", ratio, "x at least once", LEAST_OF_AT_LEAST_ONCE, at_least=True, note=note)
    if theirs := rates.get("Spark's own"):
        note = f"exactly once against its at least once: {median(theirs):,.0f} rows/s ({spread(theirs)})"
        ratio = median(once) / median(theirs)
        yield Row("Spark sink beside Spark's own", ratio, "x", LEAST_OF_CONNECTOR, at_least=True, note=note)


def _copy(spark: SparkSession, broker: Broker, format_: str, options: dict[str, str], checkpoint: Path) -> float:
    """Seconds to copy the whole source topic."""
    reader = spark.readStream.format("moldau").option("kafka.bootstrap.servers", broker.address)
    rows = reader.option("subscribe", SOURCE).option("startingOffsets", "earliest").load().select("key", "value")
    writer = rows.writeStream.format(format_).option("kafka.bootstrap.servers", broker.address).options(**options)
    began = time.perf_counter()
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return time.perf_counter() - began
