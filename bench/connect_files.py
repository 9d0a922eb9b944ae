"""Connect: lines of a file to a topic, and a topic to Parquet, beside bare Spark and Apache Kafka Connect.

All write to or read from the same broker, one after the other, with the same 100-byte lines. Ours and Apache's workers
are warm: each has run a connector of the same class before. A source has finished when all records are in the topic; a
sink when its group has committed the last offset. Bare Spark is a batch job over the same data in `local[2]`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import kcat, spark_session
from bench.harness import Broker, Context, Row, free_port, median, settle, spread
from bench.produce import LARGE
from tests.compat.apache_kafka.jars import JarsUnavailableError
from tests.compat.kafka_connect.worker import KafkaConnect, connect_jars
from tests.support.connect_worker import ConnectWorker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_OF_SPARK = 0.5
LEAST_OF_KAFKA_CONNECT = 2.0
PARTITIONS = 2
WARM_ROWS = 50_000
POLL_S = 0.02
TIMEOUT_S = 300.0
JVM_FLAGS = ("-server", "-XX:+UseG1GC", "-Xms256m", "-Xmx2g")
"""The flags of Kafka Connect's start script."""
STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"

Put = Callable[[str, Mapping[str, str]], None]
_numbers = itertools.count()


def run(context: Context) -> Iterator[Row]:
    rows = context.sized(4_000_000, 1_000_000)
    lines, warm = context.lines(rows), context.lines(WARM_ROWS)
    settings = ("transaction.two.phase.commit.enable=true",)
    with context.broker(*settings) as broker, context.scratch("connect") as directory:
        broker.create_topic("lines", PARTITIONS)
        kcat.produce(broker.address, "lines", lines, LARGE.settings)
        broker.create_topic("warm", PARTITIONS)
        kcat.produce(broker.address, "warm", warm, LARGE.settings)
        settle()
        to_topic: dict[str, list[float]] = {"ours": [], "spark": [], "kafka": []}
        to_files: dict[str, list[float]] = {"ours": [], "spark": [], "kafka": []}
        _measure_ours(context, broker, directory, (lines, warm), rows, to_topic["ours"], to_files["ours"])
        _measure_spark(context, broker, directory, lines, rows, to_topic["spark"], to_files["spark"])
        _measure_kafka(context, broker, directory, (lines, warm), rows, to_topic["kafka"], to_files["kafka"])
    yield from _compared("Connect: file to topic", to_topic)
    yield from _compared("Connect: topic to Parquet", to_files)


def _compared(what: str, rates: dict[str, list[float]]) -> Iterator[Row]:
    ours = rates["ours"]
    beside = (("bare Spark", "spark", LEAST_OF_SPARK), ("Apache's file connectors", "kafka", LEAST_OF_KAFKA_CONNECT))
    for label, name, least in beside:
        if theirs := rates[name]:
            note = f"{median(ours):,.0f} ({spread(ours)}) against {median(theirs):,.0f} rows/s ({spread(theirs)})"
            yield Row(f"{what}, {label}", median(ours) / median(theirs), "x", least, at_least=True, note=note)


def _measure_ours(
    context: Context,
    broker: Broker,
    directory: Path,
    files: tuple[Path, Path],
    rows: int,
    to_topic: list[float],
    to_files: list[float],
) -> None:
    lines, warm = files
    with ConnectWorker(broker.address, free_port(), STRINGS) as worker:
        _source(broker, worker.put, warm, WARM_ROWS)
        _sink(broker, worker.put, "warm", WARM_ROWS, _parquet(directory))
        for _ in range(context.repeats):
            to_topic.append(rows / _source(broker, worker.put, lines, rows))
            to_files.append(rows / _sink(broker, worker.put, "lines", rows, _parquet(directory)))
            context.say(f"ours: {to_topic[-1]:,.0f} rows/s to a topic, {to_files[-1]:,.0f} to Parquet")


def _measure_kafka(
    context: Context,
    broker: Broker,
    directory: Path,
    files: tuple[Path, Path],
    rows: int,
    to_topic: list[float],
    to_files: list[float],
) -> None:
    lines, warm = files
    try:
        jars = connect_jars(JVM_FLAGS)
    except JarsUnavailableError:
        return
    home = directory / "kafka-connect"
    home.mkdir()
    topics = {f"{kind}.storage.topic": f"kafka-{kind}" for kind in ("config", "offset", "status")}
    with KafkaConnect(jars, home, broker.address, {"group.id": "kafka-connect", **topics}) as worker:

        def put(name: str, config: Mapping[str, str]) -> None:
            status, body = worker.request("PUT", f"/connectors/{name}/config", dict(config))
            assert status in (200, 201), body

        _source(broker, put, warm, WARM_ROWS)
        _sink(broker, put, "warm", WARM_ROWS, _text_file(directory))
        for _ in range(context.repeats):
            to_topic.append(rows / _source(broker, put, lines, rows))
            to_files.append(rows / _sink(broker, put, "lines", rows, _text_file(directory)))
            context.say(f"Kafka Connect: {to_topic[-1]:,.0f} rows/s to a topic, {to_files[-1]:,.0f} to a file")


def _parquet(directory: Path) -> dict[str, str]:
    path = directory / f"parquet-{next(_numbers)}"
    # Without a schedule the sink does not wait for more records to fill its last file, as the other two do not.
    schedule = {"rotate.schedule.interval.ms": "0"}
    return {
        "connector.class": "FileSink",
        "format": "parquet",
        "path": str(path),
        "tasks.max": str(PARTITIONS),
        **schedule,
    }


def _text_file(directory: Path) -> dict[str, str]:
    return {"connector.class": FILE_SINK, "file": str(directory / f"text-{next(_numbers)}"), "tasks.max": "1"}


def _source(broker: Broker, put: Put, file: Path, rows: int) -> float:
    """Seconds until every line of the file is in a new topic."""
    name = f"bench-{next(_numbers)}"
    broker.create_topic(name, PARTITIONS)
    began = time.perf_counter()
    put(name, {"connector.class": FILE_SOURCE, "file": str(file), "topic": name, "tasks.max": "1"})
    _wait(lambda: _records(broker, name) >= rows)
    return time.perf_counter() - began


def _sink(broker: Broker, put: Put, topic: str, rows: int, target: Mapping[str, str]) -> float:
    """Seconds until the group of a new sink has committed every record of the topic."""
    name = f"bench-{next(_numbers)}"
    began = time.perf_counter()
    put(name, {**target, "topics": topic})
    _wait(lambda: _committed(broker, f"connect-{name}") >= rows)
    return time.perf_counter() - began


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < deadline, "the connector has not finished"
        time.sleep(POLL_S)


def _records(broker: Broker, topic: str) -> int:
    """The offsets that a reader of committed records can reach. A few of them are markers of transactions."""
    from moldau import Consumer
    from moldau.client.data_types import TopicPartition

    partitions = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    with Consumer(bootstrap_servers=broker.address, isolation_level="read_committed") as consumer:
        return sum(consumer.end_offsets(*partitions).values())


def _committed(broker: Broker, group: str) -> int:
    from moldau import Admin

    with Admin(bootstrap_servers=broker.address) as admin:
        return sum(one.offset for one in admin.list_group_offsets(group).values())


def _measure_spark(
    context: Context,
    broker: Broker,
    directory: Path,
    lines: Path,
    rows: int,
    to_topic: list[float],
    to_files: list[float],
) -> None:
    with spark_session.session(directory) as spark:
        for turn in range(context.repeats + 1):
            name = f"spark-{turn}"
            broker.create_topic(name, PARTITIONS)
            first = rows / _timed(partial(_spark_to_topic, spark, broker, lines, name))
            second = rows / _timed(partial(_spark_to_files, spark, broker, directory / name))
            if turn:  # the first turn is a warm-up for the JVM's compiler
                to_topic.append(first)
                to_files.append(second)
                context.say(f"bare Spark: {first:,.0f} rows/s to a topic, {second:,.0f} to Parquet")


def _timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _spark_to_topic(spark: SparkSession, broker: Broker, lines: Path, topic: str) -> None:
    writer = spark.read.text(str(lines)).write.format("moldau").mode("append")
    writer.option("kafka.bootstrap.servers", broker.address).option("topic", topic).save()


def _spark_to_files(spark: SparkSession, broker: Broker, directory: Path) -> None:
    reader = spark.read.format("moldau").option("kafka.bootstrap.servers", broker.address)
    reader.option("subscribe", "lines").load().selectExpr("CAST(value AS STRING) AS value").write.parquet(
        str(directory)
    )
