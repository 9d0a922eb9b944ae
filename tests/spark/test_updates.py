"""Aggregates in update mode: `write_updates` inside Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moldau import Admin, Consumer, TopicPartition
from moldau.client.errors import ConfigurationError
from moldau.spark import write_updates
from tests.spark import topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEADLINE_S = 200


def totals(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """The sum of each key."""
    reader = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap)
    rows = reader.options(subscribe=topic, startingOffsets="earliest").load()
    numbers = rows.selectExpr("CAST(key AS STRING) AS key", "CAST(CAST(value AS STRING) AS LONG) AS number")
    return numbers.groupBy("key").agg({"number": "sum"}).selectExpr("key", "CAST(`sum(number)` AS STRING) AS value")


def drain(frame: DataFrame, bootstrap: str, topic: str, checkpoint: str, **options: str) -> None:
    writer = write_updates(frame, {"kafka.bootstrap.servers": bootstrap, "topic": topic, **options})
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(DEADLINE_S), f"not done after {DEADLINE_S} s"


def committed(bootstrap: str, topic: str) -> list[tuple[str, int]]:
    place = TopicPartition(topic, 0)
    found: list[Any] = []
    with Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets(place)[place]
        while consumer.position(place) < end:
            found += consumer.poll(timeout=1)
    return sorted((record.key.decode(), int(record.value)) for record in found)


def test_each_batch_writes_the_sums_that_changed_once_also_when_it_is_run_again(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], checkpoint: str
) -> None:
    source, into = new_topic(), new_topic()
    frame = totals(spark, bootstrap, source)
    topics.send(bootstrap, source, [b"1", b"2"], key=b"a")
    topics.send(bootstrap, source, [b"10"], key=b"b")
    drain(frame, bootstrap, into, checkpoint)
    assert committed(bootstrap, into) == [("a", 3), ("b", 10)]
    topics.send(bootstrap, source, [b"3"], key=b"a")
    drain(frame, bootstrap, into, checkpoint)
    assert committed(bootstrap, into) == [("a", 3), ("a", 6), ("b", 10)]
    # The driver died after the commit, before Spark had recorded it: Spark runs the batch again.
    Path(checkpoint, "commits", "1").unlink()
    topics.send(bootstrap, source, [b"5"], key=b"b")
    drain(frame, bootstrap, into, checkpoint)
    assert committed(bootstrap, into) == [("a", 3), ("a", 6), ("b", 10), ("b", 15)]


def test_a_query_whose_tasks_fail_leaves_no_visible_records_and_no_open_transaction(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], checkpoint: str
) -> None:
    source, into = new_topic(), new_topic()
    topics.send(bootstrap, source, [b"1"], key=b"a")
    topics.send(bootstrap, source, [b"-1"], key=b"b")
    frame = totals(spark, bootstrap, source)
    broken = frame.selectExpr("key", "IF(value = '-1', raise_error('as the test wants it'), value) AS value")
    with pytest.raises(Exception, match="as the test wants it"):
        drain(broken, bootstrap, into, checkpoint)
    query = json.loads(Path(checkpoint, "metadata").read_text())["id"]
    with Admin(bootstrap_servers=bootstrap) as admin:
        assert [one.id for one in admin.list_transactions(states=["Ongoing"]) if query in one.id] == []
    assert committed(bootstrap, into) == []
    drain(frame, bootstrap, into, checkpoint)
    assert committed(bootstrap, into) == [("a", 1), ("b", -1)]


def test_a_wrong_column_or_option_is_reported_before_the_query_starts(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    frame = totals(spark, bootstrap, topic)
    with pytest.raises(ConfigurationError, match="no topic to write to"):
        write_updates(frame, {"kafka.bootstrap.servers": bootstrap})
    with pytest.raises(ConfigurationError, match="column 'sum' cannot be written to a topic"):
        write_updates(frame.selectExpr("value", "key AS sum"), {"kafka.bootstrap.servers": bootstrap, "topic": topic})
