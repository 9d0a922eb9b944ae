"""Streaming SQL beside Kafka Streams 4.3: a word count and a windowed count, exactly once, on the same broker.

Spark's trigger and Kafka Streams' commit.interval.ms are both one second. The topic is full before; the clock runs from
the start of the query in a warm session, or from the moment Kafka Streams says that it runs, until all records are
committed. Then single records follow: the time from the acknowledgement until a reader of committed records has the
count.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import spark_session
from bench.harness import Broker, Context, Row, median, percentile, settle, spread
from bench.sql_queries import SqlRun
from moldau import Admin, Consumer, Producer
from moldau.client.data_types import TopicPartition
from moldau.sql.server.server_session import spark_settings
from tests.compat.apache_kafka.jars import JarsUnavailableError, KafkaJars, fetch_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent / "kafka_streams"
LEAST = 1.0
PARTITIONS = 2
WORDS_PER_LINE = 10
VOCABULARY = 1_000
KEYS = 1_000
TIMEOUT_S = 600.0
POLL_S = 0.05
LATENCY_PAUSE_S = 0.05
SELECTS = {
    "words": "SELECT word, count(*) AS n FROM (SELECT explode(split(value, ' ')) AS word FROM {topic}) GROUP BY word",
    "windows": "SELECT key, count(*) AS n FROM {topic} WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY key",
}
TITLES = {"words": "word count", "windows": "windowed count"}


@dataclass
class Found:
    rates: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)


def run(context: Context) -> Iterator[Row]:
    try:
        jars = fetch_jars(HERE / "pom.xml")
    except JarsUnavailableError as reason:
        context.say(f"Kafka Streams cannot be had: {reason}")
        return
    with context.broker("transaction.two.phase.commit.enable=true") as broker, context.scratch("streams") as home:
        classes = _compiled(jars, home)
        counts = {"words": context.sized(1_000_000, 200_000), "windows": context.sized(4_000_000, 1_000_000)}
        for what, rows in counts.items():
            broker.create_topic(what, PARTITIONS)
            _fill(broker, what, rows)
        settle()
        ours = {what: Found() for what in counts}
        theirs = {what: Found() for what in counts}
        repeats = max(context.repeats // 2, 1)
        with spark_session.session(home, settings=spark_settings({"spark.master": "local[2]"})) as spark:
            _ours(spark, broker, home, "words", 0, Found(), "warm")
            for turn in range(repeats):
                for what, rows in counts.items():
                    _ours(spark, broker, home, what, rows, ours[what], str(turn))
                    context.say(f"ours, {what}: {ours[what].rates[-1]:,.0f} rows/s")
        for turn in range(repeats):
            for what, rows in counts.items():
                _kafka_streams(jars, classes, broker, home, what, rows, theirs[what], str(turn))
                context.say(f"Kafka Streams, {what}: {theirs[what].rates[-1]:,.0f} rows/s")
    for what in counts:
        yield _row(TITLES[what], ours[what], theirs[what])


def _row(title: str, ours: Found, theirs: Found) -> Row:
    note = (
        f"{median(ours.rates):,.0f} ({spread(ours.rates)}) against {median(theirs.rates):,.0f} rows/s "
        f"({spread(theirs.rates)}); p99 {percentile(ours.latencies, 0.99):.2f} s against "
        f"{percentile(theirs.latencies, 0.99):.2f} s"
    )
    ratio = median(ours.rates) / median(theirs.rates)
    return Row(f"SQL: {title}, Kafka Streams", ratio, "x", LEAST, at_least=True, note=note)


def _fill(broker: Broker, topic: str, rows: int) -> None:
    """Deterministic records: lines of words, and keys."""
    randomness = random.Random(7)
    words = [f"word{n}" for n in range(VOCABULARY)]
    lines = [" ".join(randomness.choices(words, k=WORDS_PER_LINE)).encode() for _ in range(1_000)]
    keys = [f"key{n}".encode() for n in range(KEYS)]
    with Producer(bootstrap_servers=broker.address, linger_ms=20, batch_size=500_000) as producer:
        for number in range(rows):
            key = None if topic == "words" else keys[number % KEYS]
            producer.send(topic, lines[number % len(lines)], key, partition=number % PARTITIONS)


def _ours(spark: SparkSession, broker: Broker, home: Path, what: str, rows: int, found: Found, turn: str) -> None:
    target = f"ours-{what}-{turn}"
    with SqlRun(spark, broker, SELECTS[what].format(topic=what), target, home / target, 1_000) as query:
        began = time.perf_counter()
        query.wait_for_rows(max(rows, 1))
        if not rows:
            return
        found.rates.append(rows / (time.perf_counter() - began))
        found.latencies += _latencies(broker, what, target)


def _compiled(jars: KafkaJars, home: Path) -> Path:
    classes = home / "classes"
    subprocess.run(
        ["javac", "-cp", f"{jars.directory}/*", "-d", str(classes), str(HERE / "StreamsCounts.java")], check=True
    )
    return classes


def _kafka_streams(
    jars: KafkaJars, classes: Path, broker: Broker, home: Path, what: str, rows: int, found: Found, turn: str
) -> None:
    target = group = f"streams-{what}-{turn}"
    broker.create_topic(target, PARTITIONS)
    class_path = f"{classes}:{jars.directory}/*"
    flags = ["-Xmx2g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command = ["java", *flags, "-cp", class_path, "StreamsCounts", broker.address, what, what, target, group]
    process = subprocess.Popen([*command, str(home / target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        while "RUNNING" not in process.stdout.readline():
            assert process.poll() is None, "Kafka Streams has ended"
        began = time.perf_counter()
        _wait(lambda: _committed(broker, group, what) >= rows)
        found.rates.append(rows / (time.perf_counter() - began))
        found.latencies += _latencies(broker, what, target)
    finally:
        process.stdin.close()
        process.wait(60)


def _committed(broker: Broker, group: str, topic: str) -> int:
    with Admin(bootstrap_servers=broker.address) as admin:
        offsets: Mapping[TopicPartition, Any] = admin.list_group_offsets(group)
        return sum(one.offset for partition, one in offsets.items() if partition.topic == topic)


def _latencies(broker: Broker, source: str, target: str, count: int = 40) -> list[float]:
    """Seconds from the acknowledgement of a record of a new key or word until its count can be read."""
    found = []
    settings = {"bootstrap.servers": broker.address, "isolation.level": "read_committed"}
    partitions = [TopicPartition(target, index) for index in range(PARTITIONS)]
    with Consumer(settings) as consumer, Producer(bootstrap_servers=broker.address, linger_ms=0) as producer:
        consumer.assign(partitions)
        consumer.seek_to_end(*partitions)
        for partition in partitions:
            consumer.position(partition)
        for number in range(count):
            text = f"late{number}-{target}".encode()
            producer.send(source, text, text).result()
            began = time.perf_counter()
            while not any(text in (record.key or b"") for record in consumer.poll(timeout=1.0)):
                assert time.perf_counter() - began < TIMEOUT_S, "the count does not arrive"
            found.append(time.perf_counter() - began)
            time.sleep(LATENCY_PAUSE_S)
    return found


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not done():
        assert time.monotonic() < deadline, "the records were not counted"
        time.sleep(POLL_S)
