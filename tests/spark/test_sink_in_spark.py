"""Sink inside Spark: columns, checkpoints, early errors, failed attempts."""

from __future__ import annotations

import datetime
import re
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from moldau import Admin, Consumer, Producer, TopicPartition
from moldau.client.errors import MoldauError
from moldau.testing import Broker
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

DEADLINE_S = 200
PARTITIONS = 3
EVERY_COLUMN = (
    "key BINARY, value STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, timestamp TIMESTAMP, partition INT, "
    "topic STRING"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"transaction.two.phase.commit.enable": True, "auto.create.topics.enable": False}) as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    return new_topic(broker, "out")


def new_topic(broker: Broker, readable: str) -> str:
    name = f"{readable}-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, partitions=PARTITIONS)
    return name


def records(broker: Broker, topic: str, isolation: str = "read_committed") -> list[Any]:
    """All records of the topic, by partition and offset."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    found: list[Any] = []
    with Consumer({"bootstrap.servers": broker.bootstrap_servers, "isolation.level": isolation}) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += consumer.poll(timeout=1)
    return sorted(found, key=lambda record: (record.partition, record.offset))


def written_numbers(broker: Broker, topic: str, isolation: str = "read_committed") -> list[int]:
    return sorted(int(record.value) for record in records(broker, topic, isolation))


def wait_until_no_transaction_is_open(broker: Broker) -> None:
    """Every transaction ends long before its time-out. A failed attempt may still be aborting its transaction."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        wait_until(lambda: not admin.list_transactions(states=["Ongoing"]), "no transaction is open", DEADLINE_S)


def fill(broker: Broker, topic: str, first: int, last: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(first, last):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


def write(frame: DataFrame, broker: Broker, mode: str = "append", **options: str) -> None:
    writer = frame.write.format("moldau").mode(mode).option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer.options(**options).save()


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).selectExpr("CAST(id AS STRING) AS value")


def read_stream(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    reader = spark.readStream.format("moldau").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return reader.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="40").load()


def drain(frame: DataFrame, broker: Broker, checkpoint: str, **options: str) -> list[int]:
    """Write all available rows. Returns the number of rows of each batch."""
    writer = frame.writeStream.format("moldau").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer = writer.options(checkpointLocation=checkpoint, **options).trigger(availableNow=True)
    query = writer.start()
    try:
        assert query.awaitTermination(DEADLINE_S), f"not done after {DEADLINE_S} s"
    finally:
        query.stop()
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_every_column_of_a_row_is_in_its_record(spark: SparkSession, broker: Broker) -> None:
    one, other = new_topic(broker, "one"), new_topic(broker, "other")
    when = datetime.datetime(2024, 2, 29, 12, 30, 15, 250_000, datetime.UTC)
    rows = [
        (b"k", "v", [("h", b"1"), ("h", None)], when, 2, one),
        (None, "no key", None, when, 1, other),
        (b"", None, [], when, 0, one),
    ]
    write(spark.createDataFrame(rows, EVERY_COLUMN), broker)

    def seen(topic: str) -> list[tuple[Any, ...]]:
        found = records(broker, topic)
        return [(one.partition, one.key, one.value, list(one.headers), one.timestamp) for one in found]

    timestamp = int(when.timestamp() * 1000)
    assert seen(one) == [
        (0, b"", None, [], timestamp),
        (2, b"k", b"v", [("h", b"1"), ("h", None)], timestamp),
    ]
    assert seen(other) == [(1, None, b"no key", [], timestamp)]
    wait_until_no_transaction_is_open(broker)


def test_the_topic_option_has_precedence_over_the_column(spark: SparkSession, broker: Broker, topic: str) -> None:
    write(spark.createDataFrame([("v", "elsewhere")], "Value STRING, Topic STRING"), broker, topic=topic)
    assert [record.value for record in records(broker, topic)] == [b"v"]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_query_continues_from_its_checkpoint_and_writes_every_input_once(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str, delivery: str
) -> None:
    source = new_topic(broker, "in")
    changed = read_stream(spark, broker, source).selectExpr("CONCAT('1', CAST(value AS STRING)) AS value")
    fill(broker, source, 100, 160)
    assert sum(drain(changed, broker, checkpoint, topic=topic, delivery=delivery)) == 60
    fill(broker, source, 160, 200)
    assert sum(drain(changed, broker, checkpoint, topic=topic, delivery=delivery)) == 40
    assert written_numbers(broker, topic) == list(range(1100, 1200))
    wait_until_no_transaction_is_open(broker)


def test_a_repeated_batch_is_written_once_or_twice_with_at_least_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """The driver died after its commit, before Spark had recorded it: the commit file is missing."""
    source = new_topic(broker, "in")
    fill(broker, source, 0, 30)
    seen = {}
    for delivery in ("exactly_once", "at_least_once"):
        topic, checkpoint = new_topic(broker, delivery), tmp_path / delivery
        frame = read_stream(spark, broker, source).select("value")
        drain(frame, broker, str(checkpoint), topic=topic, delivery=delivery)
        (checkpoint / "commits" / "0").unlink()
        drain(frame, broker, str(checkpoint), topic=topic, delivery=delivery)
        seen[delivery] = written_numbers(broker, topic)
    assert seen["exactly_once"] == list(range(30))
    assert seen["at_least_once"] == sorted([*range(30), *range(30)])
    wait_until_no_transaction_is_open(broker)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (["CAST(id AS STRING) AS key"], "there is no column 'value' to write; the columns are key"),
        (["id AS value"], "column 'value' has the type bigint; CAST it to string or binary"),
        (["'v' AS value", "id AS Key"], "column 'Key' has the type bigint; CAST it to string or binary"),
        (["'v' AS value", "id AS partition"], "column 'partition' has the type bigint; CAST it to int"),
        (["'v' AS value", "'now' AS timestamp"], "column 'timestamp' has the type string; CAST it to timestamp"),
        (
            ["'v' AS value", "map('a', 'b') AS headers"],
            "column 'headers' has the type map<string,string>; CAST it to arr",
        ),
        (["'v' AS value", "7 AS topic"], "column 'topic' has the type int; CAST it to string"),
        (["'v' AS value", "7 AS price"], "column 'price' cannot be written to a topic"),
    ],
)
def test_the_error_of_a_wrong_column_names_it(
    spark: SparkSession, broker: Broker, topic: str, columns: list[str], complaint: str
) -> None:
    refused(spark.range(3).selectExpr(*columns), broker, complaint, topic=topic)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "no topic to write to: set the option topic, or add a column topic"),
        ({"topic": "not-there"}, "option topic: there is no topic 'not-there'"),
        (
            {"topic": "TOPIC", "mode": "overwrite"},
            "a topic cannot be overwritten, only appended to: use mode('append')",
        ),
        ({"topic": "TOPIC", "delivery": "twice"}, "option delivery: 'twice' is not one of exactly_once, at_least_once"),
        ({"topic": "TOPIC", "delivry": "at_least_once"}, "option delivry: unknown; did you mean delivery?"),
        ({"topic": "TOPIC", "kafka.linger.mss": "5"}, "linger.mss"),
        ({"topic": "TOPIC", "kafka.linger.ms": "soon"}, "linger.ms"),
        ({"topic": "TOPIC", "kafka.acks": "0"}, "option kafka.acks: not supported in Spark"),
        ({"topic": "TOPIC", "transactionTimeoutMs": "0"}, "option transactionTimeoutMs: '0' is not a whole number"),
        (
            {"topic": "TOPIC", "transactionTimeoutMs": "900000000"},
            "option transactionTimeoutMs: 900000000 is greater than",
        ),
    ],
)
def test_the_error_of_a_wrong_option_names_it(
    spark: SparkSession, broker: Broker, topic: str, options: dict[str, str], complaint: str
) -> None:
    given = {name: topic if value == "TOPIC" else value for name, value in options.items()}
    refused(numbers(spark, 3), broker, complaint, **given)


def refused(frame: DataFrame, broker: Broker, complaint: str, mode: str = "append", **options: str) -> None:
    """Creating a writer fails with this message. Spark creates it in another process each time."""
    from pyspark.sql.datasource import CaseInsensitiveDict

    from moldau.spark.source import MoldauSource

    given = CaseInsensitiveDict({"kafka.bootstrap.servers": broker.bootstrap_servers, **options})
    with pytest.raises(MoldauError, match=re.escape(complaint)):
        MoldauSource(given).writer(frame.schema, overwrite=mode == "overwrite")


def test_spark_creates_the_writer_before_any_data_moves_and_shows_its_errors(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    from pyspark.errors import PySparkException

    complaint = re.escape("column 'price' cannot be written to a topic")
    with pytest.raises(PySparkException, match=complaint) as of_the_column:
        write(spark.range(3).selectExpr("'v' AS value", "7 AS price"), broker, topic=topic)
    complaint = re.escape("a topic cannot be overwritten, only appended to: use mode('append')")
    with pytest.raises(PySparkException, match=complaint) as of_the_option:
        write(numbers(spark, 3), broker, mode="overwrite", topic=topic)
    for refusal in (of_the_column, of_the_option):
        assert "failed 3 times" not in str(refusal.value), "a task was run before the error"
    assert records(broker, topic, "read_uncommitted") == []
    wait_until_no_transaction_is_open(broker)


def test_a_streaming_query_with_a_wrong_column_or_option_is_refused(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str
) -> None:
    source = new_topic(broker, "in")
    fill(broker, source, 0, 3)
    frame = read_stream(spark, broker, source)
    with pytest.raises(Exception, match="column 'offset' cannot be written to a topic"):
        drain(frame.select("value", "offset"), broker, checkpoint, topic=topic)
    with pytest.raises(Exception, match="option topic: there is no topic 'not-there'"):
        drain(frame.select("value"), broker, checkpoint, topic="not-there")
    assert records(broker, topic, "read_uncommitted") == []
    wait_until_no_transaction_is_open(broker)


def failing_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on, and raise after the first row in the first attempt of the first task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        yield batch
        if (context.partitionId(), context.attemptNumber()) == (0, 0):
            raise ValueError("as the test wants it")


def test_an_attempt_that_fails_leaves_no_visible_records_and_no_open_transaction(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str
) -> None:
    frame = numbers(spark, 500).repartition(2).mapInArrow(failing_at_first, "value STRING")
    write(frame, broker, topic=topic)
    assert written_numbers(broker, topic) == list(range(500))
    wait_until_no_transaction_is_open(broker)

    streamed, source = new_topic(broker, "streamed"), new_topic(broker, "in")
    fill(broker, source, 0, 30)
    values = read_stream(spark, broker, source).selectExpr("CAST(value AS STRING) AS value")
    drain(values.mapInArrow(failing_at_first, "value STRING"), broker, checkpoint, topic=streamed)
    assert written_numbers(broker, streamed) == list(range(30))
    wait_until_no_transaction_is_open(broker)


def killed_at_first(bootstrap: str, note: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Pass rows on, and kill the writing process in the first attempt, after it has begun."""

    def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import psutil
        from pyspark import TaskContext

        from moldau import Admin

        context = TaskContext.get()
        assert context is not None
        for place, batch in enumerate(batches):
            yield batch
            # The end of a batch stays in buffers between the processes until later rows follow.
            if context.attemptNumber() > 0 or place != 4:
                continue
            with Admin(bootstrap_servers=bootstrap) as admin:
                deadline = time.monotonic() + 60
                while not admin.list_transactions(states=["Ongoing"]):
                    assert time.monotonic() < deadline, "the writer has written nothing"
            # Spark's JVM has daemons, which have workers. This process is one of the workers, and another one is the
            # writer.
            spark = psutil.Process(os.getppid()).parent()
            for worker in [worker for daemon in spark.children() for worker in daemon.children()]:
                if worker.pid != os.getpid():
                    worker.kill()
            note.touch()

    return mapped


def test_an_attempt_that_is_killed_leaves_no_visible_records_and_no_open_transaction(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    note = tmp_path / "killed"
    values = numbers(spark, 500).selectExpr("CONCAT(value, REPEAT(' ', 10000)) AS value").coalesce(1)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    try:
        killing = killed_at_first(broker.bootstrap_servers, note)
        write(values.mapInArrow(killing, "value STRING"), broker, topic=topic)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert note.exists()
    assert written_numbers(broker, topic) == list(range(500))
    wait_until_no_transaction_is_open(broker)


def test_a_write_whose_tasks_all_fail_leaves_no_visible_records_and_no_open_transaction(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    frame = numbers(spark, 500).selectExpr("IF(value = '499', raise_error('as the test wants it'), value) AS value")
    with pytest.raises(Exception, match="as the test wants it"):
        write(frame, broker, topic=topic)
    assert records(broker, topic) == []
    wait_until_no_transaction_is_open(broker)
