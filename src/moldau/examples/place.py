"""Place of a running study: its broker, its directory, and short ways to read and write topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.examples.study import Decode, StudyError, StudyRecord, json_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Place(NamedTuple):
    """Where a study runs. The checkpoints of its queries, and stores that are not topics, are in the directory."""

    client: Mapping[str, str]
    """Settings of clients, with Kafka's names: `bootstrap.servers`, TLS, login."""
    directory: Path
    max_per_batch: int | None = None
    """The most records that a query takes from its topics at once."""

    def spark_options(self) -> dict[str, str]:
        return {f"kafka.{name}": value for name, value in self.client.items()}

    def to_json(self) -> str:
        return json.dumps({**self._asdict(), "directory": str(self.directory)})

    @classmethod
    def from_json(cls, text: str) -> Place:
        fields = json.loads(text)
        return cls(**{**fields, "directory": Path(fields["directory"])})


# -- Spark -------------------------------------------------------------------------------------------------------------


def from_topic(spark: SparkSession, place: Place, topic: str, schema: str) -> DataFrame:
    """A topic as a stream: the fields of its JSON values, and key, timestamp, partition and offset of its records."""
    frame = spark.readStream.format("moldau").options(**place.spark_options())
    frame = frame.option("subscribe", topic).option("startingOffsets", "earliest")
    if place.max_per_batch is not None:
        frame = frame.option("maxOffsetsPerTrigger", str(place.max_per_batch))
    return _parsed(frame.option("kafka.isolation.level", "read_committed").load(), schema)


def table_of_topic(spark: SparkSession, place: Place, topic: str, schema: str) -> DataFrame:
    """All records that a topic has now. A join with it reads the topic again in each micro-batch."""
    frame = spark.read.format("moldau").options(**place.spark_options()).option("subscribe", topic)
    return _parsed(frame.option("kafka.isolation.level", "read_committed").load(), schema)


def _parsed(frame: DataFrame, schema: str) -> DataFrame:
    from pyspark.sql import functions as f

    columns = [f.col(name) for name in ("timestamp", "partition", "offset")]
    value = f.from_json(f.col("value").cast("string"), schema).alias("value")
    return frame.select(f.col("key").cast("string"), value, *columns).select("key", "value.*", *columns)


def to_topic(frame: DataFrame, place: Place, topic: str, key: str) -> Any:
    """A query that writes each row exactly once: the column `key` as key, the other columns as JSON."""
    rows = as_records(frame, key).writeStream.format("moldau").options(**place.spark_options())
    return rows.option("topic", topic).queryName(topic).option("checkpointLocation", _checkpoint(place, topic))


def updates_to_topic(frame: DataFrame, place: Place, topic: str, key: str) -> Any:
    """A query that writes each changed row of an aggregate exactly once."""
    from moldau.spark import write_updates

    writer = write_updates(as_records(frame, key), {**place.spark_options(), "topic": topic})
    return writer.queryName(topic).option("checkpointLocation", _checkpoint(place, topic))


def batches_to(frame: DataFrame, place: Place, name: str, write: Callable[[DataFrame, int], None]) -> Any:
    """A query that calls `write(rows, number)` for each micro-batch. After a kill it may see the last batch again, with
    the same number and rows, so `write` has to be idempotent."""
    writer = frame.writeStream.outputMode("update").foreachBatch(write)
    return writer.queryName(name).option("checkpointLocation", _checkpoint(place, name))


def as_records(frame: DataFrame, key: str) -> DataFrame:
    from pyspark.sql import functions as f

    others = [f.col(name) for name in frame.columns if name != key]
    return frame.select(f.col(key).cast("string").alias("key"), f.to_json(f.struct(*others)).alias("value"))


def _checkpoint(place: Place, name: str) -> str:
    return str(place.directory / "checkpoints" / name)


# -- Clients -----------------------------------------------------------------------------------------------------------


@contextmanager
def topic_sender(place: Place, *, wait: bool = False) -> Iterator[Callable[[StudyRecord], None]]:
    """A function that writes a record to its topic. A record that the broker refuses is an error of the next call.
    With `wait` the record is in the topic when the function returns."""
    from moldau import Producer

    failures: list[Exception] = []

    def delivered(_: object, error: Exception | None) -> None:
        if error is not None:
            failures.append(error)

    def check() -> None:
        if failures:
            raise StudyError(f"a record was not written: {failures[0]}")

    with Producer(dict(place.client)) as producer:

        def send(record: StudyRecord) -> None:
            check()
            value = None if record.value is None else json.dumps(record.value).encode()
            producer.send(record.topic, value, key=record.key.encode(), timestamp=record.at_ms, on_delivery=delivered)
            if wait:
                producer.flush()

        yield send
        producer.flush()
        check()


def read_topic(place: Place, topic: str, decode: Decode = json_value) -> Iterator[StudyRecord]:
    """The committed records that a topic has now, partition by partition."""
    from moldau import Consumer, TopicPartition

    with Consumer({**place.client, "isolation.level": "read_committed"}) as consumer:
        for partition in [TopicPartition(topic, one.index) for one in consumer.partitions_for(topic)]:
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            end = consumer.end_offsets(partition)[partition]
            while consumer.position(partition) < end:
                for record in consumer.poll(timeout=1):
                    yield parsed_record(record, decode)


def parsed_record(record: Any, decode: Decode = json_value) -> StudyRecord:
    value = None if record.value is None else decode(record.topic, record.value)
    return StudyRecord(record.topic, (record.key or b"").decode(), value, record.timestamp)
