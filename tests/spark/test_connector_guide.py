"""Options and rules of Spark's Kafka connector: the same query in both formats has the same result.

The cases follow the connector's guide. Where that is enough, the tests call our readers and writers as Spark does, but
without Spark, because each query of Spark starts Python processes. Deliberate differences are listed in docs/spark.md,
under "Differences", and tested at the end of this file. Cases that vary another case run with `make soak` only.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.datasource import CaseInsensitiveDict

from moldau import Consumer, TopicPartition
from moldau.client.errors import MoldauError
from moldau.spark.batch import batch_reader
from moldau.spark.rows import row_schema
from moldau.spark.source import MoldauSource
from tests.spark import topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("connector", "_clients")

DEADLINE_S = 200
# Recent enough that retention does not delete the records.
EARLY_MS = int(time.time() * 1000) - 3_600_000
LATE_MS = EARLY_MS + 600_000
Options = dict[str, str]

FAST_RETRIES = {"fetchOffset.retryIntervalMs": "10"}
"""The connector looks up offsets three times, one second apart, before it refuses a read."""


class Shop:
    """Two topics with records of two timestamps, and one topic whose first records are deleted."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._names = {place: f"guide-{uuid.uuid4().hex}" for place in ("ONE", "TWO", "CUT")}
        one, two, cut = self._names.values()
        for name, partitions in ((one, 2), (two, 1), (cut, 1)):
            topics.create(bootstrap, name, partitions)
        for partition in range(2):
            topics.send(bootstrap, one, [b"early"] * 3, partition=partition, timestamp=EARLY_MS, key=b"k")
        headers = [("h", b"1"), ("h", None)]
        topics.send(bootstrap, one, [b"late", None], partition=0, timestamp=LATE_MS, headers=headers)
        topics.send(bootstrap, two, [b"two"], timestamp=LATE_MS)
        topics.send(bootstrap, cut, [b"gone"] * 4)
        topics.cut(bootstrap, cut, before=3)

    def options(self, options: Options) -> Options:
        """Fill in the names of the topics and the broker's address; options with an empty value are removed."""
        filled = {"kafka.bootstrap.servers": self.bootstrap, **FAST_RETRIES, **options}
        for place, name in self._names.items():
            filled = {option: text.replace(place, name) for option, text in filled.items()}
        return {option: text for option, text in filled.items() if text}


@pytest.fixture(scope="module")
def shop(bootstrap: str) -> Shop:
    return Shop(bootstrap)


def offsets(**of_topics: Any) -> str:
    return json.dumps(of_topics)


ONLY_IN_SOAK = {
    "several topics",
    "all by name",
    "from times of partitions",
    "up to times of partitions",
    "tasks of two records",
    "options in any case",
    "settings of the consumer",
    "retries of look-ups",
    "a batch from -1",
    "a batch up to -2",
    "the consumer's enable.auto.commit",
    "the consumer's interceptor.classes",
    "the consumer's value.deserializer",
    "a topic of another type",
    "a partition of another type",
    "a serializer for values",
}
"""Cases that vary a case that every run has."""


@pytest.fixture
def case(request: pytest.FixtureRequest, soak: bool) -> str:
    name: str = request.param
    if name in ONLY_IN_SOAK and not soak:
        pytest.skip("with make soak: varies another case")
    return name


READS: dict[str, Options] = {
    "one topic": {"subscribe": "ONE"},
    "several topics": {"subscribe": "ONE, TWO"},
    "a pattern": {"subscribePattern": "(ONE|TW.*|TWO)"},
    "partitions": {"assign": offsets(ONE=[1], TWO=[0])},
    "headers": {"subscribe": "ONE", "includeHeaders": "true"},
    "all by name": {"subscribe": "ONE", "startingOffsets": "earliest", "endingOffsets": "latest"},
    "offsets": {
        "subscribe": "ONE,TWO",
        "startingOffsets": offsets(ONE={"0": 1, "1": -2}, TWO={"0": -2}),
        "endingOffsets": offsets(ONE={"0": 4, "1": -1}, TWO={"0": -1}),
    },
    "from a time": {"subscribe": "TWO", "startingTimestamp": str(EARLY_MS + 1)},
    "from a time, else the latest": {
        "subscribe": "ONE",
        "startingTimestamp": str(EARLY_MS + 1),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "from times of partitions": {
        "subscribe": "ONE",
        "startingOffsetsByTimestamp": offsets(ONE={"0": LATE_MS, "1": EARLY_MS}),
    },
    "up to a time": {"subscribe": "ONE", "endingTimestamp": str(LATE_MS)},
    "up to times of partitions": {
        "subscribe": "ONE",
        "endingOffsetsByTimestamp": offsets(ONE={"0": LATE_MS, "1": EARLY_MS}),
    },
    "a time goes before offsets": {
        "subscribe": "TWO",
        "startingTimestamp": "1",
        "startingOffsets": offsets(TWO={"0": 1}),
    },
    "more tasks than partitions": {"subscribe": "ONE", "minPartitions": "5"},
    "tasks of two records": {"subscribe": "ONE", "maxRecordsPerPartition": "2"},
    "options in any case": {"SUBSCRIBE": "ONE", "STARTINGOFFSETS": "EARLIEST"},
    "a consumer group": {"subscribe": "ONE", "kafka.group.id": "mine", "groupIdPrefix": "prefix"},
    "settings of the consumer": {
        "subscribe": "ONE",
        "kafka.max.poll.records": "1",
        "kafkaConsumer.pollTimeoutMs": "60000",
    },
    "retries of look-ups": {"subscribe": "ONE", "fetchOffset.numRetries": "5", "fetchOffset.retryIntervalMs": "20"},
    "lost records that are accepted": {
        "subscribe": "CUT",
        "startingOffsets": offsets(CUT={"0": 0}),
        "failOnDataLoss": "false",
    },
}

WRONG_READS: dict[str, Options] = {
    "from a time after the last record of a partition": {"subscribe": "ONE", "startingTimestamp": str(EARLY_MS + 1)},
    "lost records": {"subscribe": "CUT", "startingOffsets": offsets(CUT={"0": 0})},
    "no broker": {"subscribe": "ONE", "kafka.bootstrap.servers": ""},
    "no topic": {},
    "two ways to name topics": {"subscribe": "ONE", "subscribePattern": "ONE"},
    "no such topic": {"subscribe": "ONE-not-there"},
    "a batch from the latest": {"subscribe": "ONE", "startingOffsets": "latest"},
    "a batch from -1": {"subscribe": "TWO", "startingOffsets": offsets(TWO={"0": -1})},
    "a batch up to the earliest": {"subscribe": "ONE", "endingOffsets": "earliest"},
    "a batch up to -2": {"subscribe": "TWO", "endingOffsets": offsets(TWO={"0": -2})},
    "a partition forgotten": {"subscribe": "ONE", "startingOffsets": offsets(ONE={"0": 1})},
    "a partition too many": {"subscribe": "TWO", "startingOffsets": offsets(TWO={"0": 1, "1": 1})},
    "no JSON": {"subscribe": "ONE", "startingOffsets": "first"},
    **{
        f"the consumer's {setting}": {"subscribe": "ONE", f"kafka.{setting}": value}
        for setting, value in (
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
            ("interceptor.classes", "x"),
            ("key.deserializer", "x"),
            ("value.deserializer", "x"),
        )
    },
}


def read_by_connector(spark: SparkSession, options: Options) -> list[tuple[Any, ...]]:
    rows = spark.read.format("kafka").options(**options).load().collect()
    return in_order(row.asDict(recursive=True) for row in rows)


def read_by_us(options: Options) -> list[tuple[Any, ...]]:
    reader = batch_reader(options, row_schema(headers=options.get("includeHeaders") == "true"))
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return in_order(row for batch in batches for row in batch.to_pylist())


def in_order(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows in a comparable form: the connector returns timestamps in this machine's zone, our reader in UTC."""
    comparable = [tuple((row | {"timestamp": row["timestamp"].timestamp()}).items()) for row in rows]
    return sorted(
        comparable, key=lambda row: [value for name, value in row if name in ("topic", "partition", "offset")]
    )


@pytest.mark.parametrize("case", READS, indirect=True)
def test_a_read_has_the_same_rows(spark: SparkSession, shop: Shop, case: str) -> None:
    options = shop.options(READS[case])
    theirs = read_by_connector(spark, options)
    assert read_by_us(options) == theirs
    assert theirs


@pytest.mark.parametrize("case", WRONG_READS, indirect=True)
def test_a_wrong_read_is_refused_by_both(spark: SparkSession, shop: Shop, case: str) -> None:
    options = shop.options(WRONG_READS[case])
    with pytest.raises((PySparkException, Py4JJavaError)):
        read_by_connector(spark, options)
    with pytest.raises(MoldauError):
        read_by_us(options)


# Writing --------------------------------------------------------------------------------------------------------------

COLUMNS = "key STRING, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT, topic STRING"
FORMATS = ("kafka", "moldau")


def unused() -> str:
    return f"guide-{uuid.uuid4().hex}"


def write(frame: DataFrame, name: str, bootstrap: str, **options: str) -> None:
    options = {"kafka.bootstrap.servers": bootstrap, **options}
    frame.write.format(name).mode("append").options(**options).save()


def records(bootstrap: str, topic: str, partitions: int = 1) -> list[Any]:
    places = [TopicPartition(topic, number) for number in range(partitions)]
    found: list[Any] = []
    with Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(*places)
        while any(consumer.position(one) < ends[one] for one in places):
            found += consumer.poll(timeout=1)
    rows = [(one.partition, one.key or b"", one.value or b"", list(one.headers), one.key is None) for one in found]
    return sorted(rows, key=lambda row: row[:3])


def test_rows_become_the_same_records_in_the_same_partitions_and_missing_topics_are_created(
    spark: SparkSession, bootstrap: str
) -> None:
    seen = []
    for name in FORMATS:
        there, by_column, by_option = unused(), unused(), unused()
        topics.create(bootstrap, there, 3)
        rows = [(f"key {number}", b"%d" % number, None, None, there) for number in range(20)]
        rows += [("with headers", b"", [("h", b"1"), ("h", None)], 2, there), (None, None, [], 1, there)]
        rows += [(None, b"new topic", None, None, by_column)]
        write(spark.createDataFrame(rows, COLUMNS), name, bootstrap)
        write(spark.createDataFrame(rows[:2], COLUMNS), name, bootstrap, topic=by_option)
        seen.append((records(bootstrap, there, 3), records(bootstrap, by_column), records(bootstrap, by_option)))
    assert seen[0] == seen[1]
    assert [len(part) for part in seen[0]] == [22, 1, 2]


WRONG_WRITES: dict[str, tuple[str, list[str], Options]] = {
    "no value": ("append", ["'k' AS key"], {"topic": "ONE"}),
    "a value of another type": ("append", ["id AS value"], {"topic": "ONE"}),
    "a key of another type": ("append", ["'v' AS value", "id AS key"], {"topic": "ONE"}),
    "a topic of another type": ("append", ["'v' AS value", "id AS topic"], {}),
    "a partition of another type": ("append", ["'v' AS value", "'0' AS partition"], {"topic": "ONE"}),
    "headers of another type": ("append", ["'v' AS value", "map('a', 'b') AS headers"], {"topic": "ONE"}),
    "no topic": ("append", ["'v' AS value"], {}),
    "no broker": ("append", ["'v' AS value"], {"topic": "ONE", "kafka.bootstrap.servers": ""}),
    "overwrite": ("overwrite", ["'v' AS value"], {"topic": "ONE"}),
    "a serializer for keys": ("append", ["'v' AS value"], {"topic": "ONE", "kafka.key.serializer": "x"}),
    "a serializer for values": ("append", ["'v' AS value"], {"topic": "ONE", "kafka.value.serializer": "x"}),
}


@pytest.mark.parametrize("case", WRONG_WRITES, indirect=True)
def test_a_wrong_write_is_refused_by_both(spark: SparkSession, shop: Shop, case: str) -> None:
    mode, columns, given = WRONG_WRITES[case]
    frame, options = spark.range(1).selectExpr(*columns), shop.options(given)
    with pytest.raises((PySparkException, Py4JJavaError)):
        frame.write.format("kafka").mode(mode).options(**options).save()
    with pytest.raises(MoldauError):
        MoldauSource(CaseInsensitiveDict(options)).writer(frame.schema, overwrite=mode == "overwrite")


# Streams --------------------------------------------------------------------------------------------------------------


def stream(spark: SparkSession, name: str, options: Options) -> DataFrame:
    return spark.readStream.format(name).options(**options).load()


def run(writer: Any, name: str, bootstrap: str, topic: str, checkpoint: Path) -> Any:
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "checkpointLocation": str(checkpoint)}
    query = writer.format(name).options(**options).trigger(availableNow=True).start()
    assert query.awaitTermination(DEADLINE_S), f"not done after {DEADLINE_S} s"
    return query


def test_a_stream_has_the_same_batches_and_output_modes(
    spark: SparkSession, shop: Shop, tmp_path: Path, soak: bool
) -> None:
    start = {"subscribe": "ONE", "startingOffsets": offsets(ONE={"0": 2, "1": -2}), "maxOffsetsPerTrigger": "2"}
    seen = []
    for name in FORMATS:
        copy, counts = unused(), unused()
        rows = stream(spark, name, shop.options(start))
        counted_rows = rows if soak else stream(spark, name, shop.options(start | {"maxOffsetsPerTrigger": ""}))
        query = run(rows.select("key", "value").writeStream, name, shop.bootstrap, copy, tmp_path / f"{name}-copy")
        progress = [one for one in query.recentProgress if one.numInputRows]
        ends = [json.loads(one.sources[0].endOffset) for one in progress]
        batches = [
            (one.numInputRows, {key: at for key, at in end.items() if key[0] != "@"})
            for one, end in zip(progress, ends, strict=True)
        ]
        counted = (
            counted_rows.groupBy("partition")
            .count()
            .selectExpr("CAST(partition AS STRING) AS key", "CAST(count AS STRING) AS value")
        )
        run(counted.writeStream.outputMode("complete"), name, shop.bootstrap, counts, tmp_path / f"{name}-counts")
        seen.append((batches, records(shop.bootstrap, copy), records(shop.bootstrap, counts)))
    assert seen[0] == seen[1]
    assert [rows for rows, _ in seen[0][0]] == [2, 2, 2]


# Differences: docs/spark.md has the list ------------------------------------------------------------------------------


def test_update_mode_is_refused_by_spark_and_not_by_its_connector(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    everything = shop.options({"subscribe": "ONE", "startingOffsets": "earliest"})
    counts = [
        stream(spark, name, everything)
        .groupBy("partition")
        .count()
        .selectExpr("CAST(count AS STRING) AS value")
        .writeStream
        for name in FORMATS
    ]
    run(counts[0].outputMode("update"), "kafka", shop.bootstrap, unused(), tmp_path / "kafka")
    with pytest.raises(Exception, match="moldau does not support Update mode"):
        run(counts[1].outputMode("update"), "moldau", shop.bootstrap, unused(), tmp_path / "moldau")


def test_only_the_connector_accepts_the_default_save_mode_other_columns_and_acks(
    spark: SparkSession, shop: Shop
) -> None:
    topic = unused()
    frame = spark.range(1).selectExpr("'v' AS value", "id AS price")
    options = {"kafka.bootstrap.servers": shop.bootstrap, "topic": topic}
    frame.write.format("kafka").options(**options, **{"kafka.acks": "1"}).save()
    assert len(records(shop.bootstrap, topic)) == 1
    with pytest.raises(PySparkException, match="ErrorIfExists"):
        frame.select("value").write.format("moldau").options(**options).save()
    with pytest.raises(MoldauError, match="column 'price' cannot be written"):
        MoldauSource(CaseInsensitiveDict(options)).writer(frame.schema, overwrite=False)
    acks, only_value = CaseInsensitiveDict({**options, "kafka.acks": "1"}), frame.select("value").schema
    with pytest.raises(MoldauError, match=re.escape("option kafka.acks: not supported in Spark")):
        MoldauSource(acks).writer(only_value, overwrite=False)
