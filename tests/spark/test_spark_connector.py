"""Spark's own Kafka connector against the broker, in batches and as a stream, compared with our source."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEADLINE_S = 200

pytestmark = pytest.mark.usefixtures("connector")


def reading(reader: Any, name: str, bootstrap: str, topic: str, **options: str) -> DataFrame:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true", **options}
    frame: DataFrame = reader.format(name).options(**options).load()
    return frame


def test_rows_of_our_source_are_those_of_sparks_own_connector(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    topics.send(bootstrap, topic, [b"a", None, b""], key=b"k", headers=[("h", b"1"), ("i", None)])
    # Newer than the retention time, since the broker may delete old segments at any moment.
    yesterday_ms = int(time.time() * 1000) - 86_400_000
    topics.send(bootstrap, topic, [b"b"] * 100, timestamp=yesterday_ms, **{"compression.type": "lz4"})
    topics.transaction(bootstrap, topic, [b"yes"], commit=True, transactional_id=topic)
    topics.transaction(bootstrap, topic, [b"no"], commit=False, transactional_id=topic)
    for isolation in ("read_committed", "read_uncommitted"):
        options = {"kafka.isolation.level": isolation}
        ours = reading(spark.read, "moldau", bootstrap, topic, **options)
        theirs = reading(spark.read, "kafka", bootstrap, topic, **options)
        assert ours.schema == theirs.schema
        order = ("partition", "offset")
        assert ours.orderBy(*order).collect() == theirs.orderBy(*order).collect()


def test_sparks_own_connector_writes_and_streams_and_our_source_continues_its_checkpoint(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], checkpoint: str, tmp_path: Path
) -> None:
    source, copy, into = new_topic(2), new_topic(), str(tmp_path / "rows")
    target = {"kafka.bootstrap.servers": bootstrap, "topic": source}

    def write(first: int, last: int) -> None:
        frame = spark.range(first, last).selectExpr("cast(id AS STRING) AS key", "cast(id AS STRING) AS value")
        frame.write.format("kafka").options(**target).save()

    def drain(name: str) -> None:
        frame = reading(spark.readStream, name, bootstrap, source, startingOffsets="earliest")
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        assert writer.trigger(availableNow=True).start(into).awaitTermination(DEADLINE_S)

    def written() -> list[int]:
        return sorted(int(row.value) for row in spark.read.parquet(into).collect())

    write(0, 50)
    drain("kafka")
    assert written() == list(range(50))
    write(50, 80)
    drain("moldau")
    assert written() == list(range(80))

    stream = reading(spark.readStream, "kafka", bootstrap, source, startingOffsets="earliest").select("key", "value")
    writer = stream.writeStream.format("kafka").options(**{**target, "topic": copy})
    query = writer.option("checkpointLocation", f"{checkpoint}-copy").trigger(availableNow=True).start()
    assert query.awaitTermination(DEADLINE_S)
    assert sorted(int(row.value) for row in reading(spark.read, "moldau", bootstrap, copy).collect()) == list(range(80))
