"""Source inside Spark: planning, checkpoints, triggers, and Arrow through the JVM."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moldau.client.data_types import TopicPartition
from moldau.spark import from_moldau, lag
from tests.spark import topics
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

DEADLINE_S = 200.0
NewTopic = Callable[..., str]


def numbers(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def read(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    return spark.read.format("moldau").option("kafka.bootstrap.servers", bootstrap).options(**options).load()


def read_stream(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    return spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap).options(**options).load()


def drain(frame: DataFrame, checkpoint: str, into: str, **trigger: Any) -> StreamingQuery:
    """Write all available records into Parquet files, which Spark writes exactly once."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    query = writer.trigger(**(trigger or {"availableNow": True})).start(into)
    assert query.awaitTermination(int(DEADLINE_S))
    return query


def written(spark: SparkSession, into: str) -> list[int]:
    return sorted(int(row.value) for row in spark.read.parquet(into).select("value").collect())


def test_two_hundred_partitions_with_skew_are_read_to_the_last_record(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(200)
    topics.send(bootstrap, topic, numbers(0, 20_000), partition=7)
    for partition, first in enumerate(range(20_000, 20_400, 10), start=100):
        topics.send(bootstrap, topic, numbers(first, first + 10), partition=partition)
    frame = read(spark, bootstrap, subscribe=topic, maxPartitions="8", maxRecordsPerPartition="5000")
    assert frame.rdd.getNumPartitions() == 8
    summary = frame.selectExpr("count(1)", "sum(cast(cast(value AS STRING) AS LONG))", "max(offset)").first()
    assert summary is not None
    assert tuple(summary)[:2] == (20_400, sum(range(20_400)))
    assert summary[2] >= 19_999


def test_the_source_is_available_in_sql_and_rows_are_decoded(spark: SparkSession, bootstrap: str, topic: str) -> None:
    orders = [json.dumps({"id": number, "amount": number / 2}).encode() for number in range(10)]
    topics.send(bootstrap, topic, [*orders, b"no JSON"], key=b"k", headers=[("h", b"1")])
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING moldau OPTIONS (`kafka.bootstrap.servers` '{bootstrap}', "
        f"subscribe '{topic}', includeHeaders 'true', startingOffsets '{json.dumps({topic: {'0': 4}})}')"
    )
    decoded = from_moldau(spark.table("orders"), "id LONG, amount DOUBLE").select("offset", "key", "value.*", "headers")
    rows = decoded.orderBy("offset").collect()
    assert [(row.offset, row.key, row.id, row.amount) for row in rows] == [
        *((number, "k", number, number / 2) for number in range(4, 10)),
        (10, "k", None, None),
    ]
    assert rows[0].headers[0].asDict() == {"key": "h", "value": bytearray(b"1")}


def test_filters_are_pushed_down_if_spark_and_the_option_allow_it(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    for partition in range(3):
        topics.send(bootstrap, topic, numbers(0, 10), partition=partition)
    condition = "partition = 1 AND offset >= 4 AND value != '5'"
    assert read(spark, bootstrap, subscribe=topic).filter(condition).count() == 5
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        plain = read(spark, bootstrap, subscribe=topic).filter(condition)
        pushed = read(spark, bootstrap, subscribe=topic, pushFilters="true").filter(condition)
        assert plain.count() == pushed.count() == 5
        assert (plain.rdd.getNumPartitions(), pushed.rdd.getNumPartitions()) == (3, 1)
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_the_error_of_wrong_options_names_the_option(spark: SparkSession, bootstrap: str, topic: str) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="option startingOffsets: 'first' is not JSON"):
        read(spark, bootstrap, subscribe=topic, startingOffsets="first").count()
    with pytest.raises(PySparkException, match="the schema asks for 'value STRING'"):
        spark.read.format("moldau").schema("value STRING").options(
            **{"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
        ).load().count()


def frames(error: BaseException) -> set[str]:
    """The functions of our code that appear in Spark's error."""
    return set(re.findall(r'File "[^"]*/moldau/[^"]*", line \d+, in (\w+)', str(error)))


def test_spark_shows_the_message_of_an_error_without_our_stack(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, checkpoint: str, tmp_path: Path
) -> None:
    arrows, orders = new_topic(), new_topic()
    topics.send(bootstrap, arrows, numbers(0, 10))
    with pytest.raises(Exception, match="option startingOffsets: 'first' is not JSON") as when_planned:
        read(spark, bootstrap, subscribe=arrows, startingOffsets="first").count()
    lost = json.dumps({arrows: {"0": 20}})
    with pytest.raises(Exception, match="but the option asks for offset 20") as when_read:
        read(spark, bootstrap, subscribe=arrows, startingOffsets=lost).count()
    without_topic = read(spark, bootstrap, subscribe=arrows).selectExpr("value", "CAST(NULL AS STRING) AS topic")
    with pytest.raises(Exception, match="10 of 10 rows have no topic") as when_written:
        without_topic.write.format("moldau").mode("append").option("kafka.bootstrap.servers", bootstrap).save()

    drain(read_stream(spark, bootstrap, subscribe=arrows, startingOffsets="earliest"), checkpoint, str(tmp_path / "a"))
    with pytest.raises(Exception, match=f"the checkpoint belongs to a query on '{arrows}'") as when_streamed:
        drain(read_stream(spark, bootstrap, subscribe=orders), checkpoint, str(tmp_path / "a"))
    for raised in (when_planned, when_read, when_written, when_streamed):
        assert frames(raised.value) <= {"called_by_spark", "_iterated"}, raised.value
        assert "During handling" not in str(raised.value) and "direct cause" not in str(raised.value)


def test_a_query_continues_from_its_checkpoint_through_changes_of_its_topic(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, checkpoint: str, tmp_path: Path
) -> None:
    """More records, more partitions, a repeated batch, and finally another topic with the same name."""
    topic, into = new_topic(2), str(tmp_path / "rows")
    topics.send(bootstrap, topic, numbers(0, 100), partition=0)
    topics.send(bootstrap, topic, numbers(100, 110), partition=1)
    first = drain(
        read_stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="50"),
        checkpoint,
        into,
    )
    assert written(spark, into) == list(range(110))
    assert [progress.numInputRows for progress in first.recentProgress if progress.numInputRows] == [50, 50, 10]

    # The last batch was not committed when the driver died. It is run again, and its files count once.
    done = sorted(Path(checkpoint, "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    done[-1].unlink()
    topics.grow(bootstrap, topic, 3)
    topics.send(bootstrap, topic, numbers(110, 120), partition=2)
    drain(read_stream(spark, bootstrap, subscribe=topic), checkpoint, into, once=True)
    drain(read_stream(spark, bootstrap, subscribe=topic), checkpoint, into)
    assert written(spark, into) == list(range(120))

    topics.replace(bootstrap, topic)
    topics.send(bootstrap, topic, numbers(120, 300))
    broken = read_stream(spark, bootstrap, subscribe=topic).writeStream.format("noop")
    shutil.copytree(checkpoint, checkpoint + "-copy")
    failing = broken.option("checkpointLocation", checkpoint + "-copy").trigger(availableNow=True).start()
    with pytest.raises(Exception, match="deleted and created again"):
        failing.awaitTermination(int(DEADLINE_S))
    drain(read_stream(spark, bootstrap, subscribe=topic, failOnDataLoss="false"), checkpoint, into)
    assert written(spark, into) == list(range(300))


def test_a_running_query_follows_the_topic_and_shows_its_lag(
    spark: SparkSession, bootstrap: str, unused_name: Callable[[], str], checkpoint: str
) -> None:
    name = unused_name()
    topics.create(bootstrap, f"{name}.a")
    frame = read_stream(
        spark, bootstrap, subscribePattern=f"{name}\\..*", commitGroupId=name, startingOffsets="earliest"
    )
    table = f"rows_{abs(hash(name))}"
    query = (
        frame.writeStream.format("memory")
        .queryName(table)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        topics.send(bootstrap, f"{name}.a", numbers(0, 10))
        wait_until(lambda: spark.table(table).count() == 10, "ten rows are in the table", DEADLINE_S)
        topics.create(bootstrap, f"{name}.b")
        topics.send(bootstrap, f"{name}.b", numbers(10, 15))
        wait_until(lambda: spark.table(table).count() == 15, "fifteen rows are in the table", DEADLINE_S)
        # Spark reports a finished batch to the source when it plans the next one.
        wait_until(lambda: topics.committed(bootstrap, name, f"{name}.a") == 10, "the commit", DEADLINE_S)
        progress = wait_until(lambda: next((one for one in query.recentProgress[::-1] if one.numInputRows), None))
        assert lag(progress) == {TopicPartition(f"{name}.a", 0): 0, TopicPartition(f"{name}.b", 0): 0}
        assert query.exception() is None
    finally:
        query.stop()
