"""Topics as DataFrames of JSON in one call: `from_topic` reads columns, `to_topic` writes them.

Both use `format("moldau")` with its options, exactly-once writes included. They are shorter forms for topics whose
values are JSON objects or texts; everything else is an option, or a call of the format itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.client.errors import ConfigurationError
from moldau.spark.functions import from_moldau

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import DataType

BOOTSTRAP: Final = "kafka.bootstrap.servers"
DEFAULT_SERVERS: Final = "localhost:9092"
RECORD_COLUMNS: Final = ("key", "timestamp", "partition", "offset", "headers")
HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


def from_topic(
    spark: SparkSession,
    topic: str | Iterable[str],
    schema: DataType | str | None = None,
    *,
    bootstrap_servers: str = DEFAULT_SERVERS,
    key: DataType | str | None = None,
    streaming: bool = True,
    start: str = "earliest",
    headers: bool = False,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the records of a topic, or of several topics, as columns; committed records only.

    With a schema (a StructType, or DDL such as "id LONG, amount DOUBLE") each field of the JSON value is a column.
    Without one there is a column `value`, a text. `key` is the schema of JSON keys; without it keys are texts. The
    record's own columns follow: key, timestamp, partition, offset, and headers if wanted. If a field has one of these
    names, the record's own column gets an underscore in front: `_key`.

    `streaming=False` reads what is in the topic now. `start` is "earliest" or "latest", or the JSON of startingOffsets.
    `options` are further ones of `format("moldau")`, such as maxOffsetsPerTrigger.

        orders = from_topic(spark, "orders", "id LONG, customer STRING, amount DOUBLE")
    """
    from pyspark.sql import functions as f

    topics = topic if isinstance(topic, str) else ",".join(topic)
    given = {
        BOOTSTRAP: bootstrap_servers,
        "subscribe": topics,
        "startingOffsets": start,
        "includeHeaders": str(headers).lower(),
        "kafka.isolation.level": "read_committed",
        **(options or {}),
    }
    reader: Any = spark.readStream if streaming else spark.read
    decoded = from_moldau(reader.format("moldau").options(**given).load(), schema, key=key)
    fields: list[str] = [] if schema is None else decoded.select("value.*").columns
    taken = {name.lower() for name in (fields or ["value"])}
    columns = [f.col("value").getField(name).alias(name) for name in fields] or [f.col("value")]
    own = [name for name in RECORD_COLUMNS if name != "headers" or headers]
    return decoded.select(*columns, *(f.col(name).alias(_free_name(name, taken)) for name in own))


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name = "_" + name
    taken.add(name)
    return name


def to_topic(
    frame: DataFrame,
    topic: str,
    *,
    bootstrap_servers: str = DEFAULT_SERVERS,
    key: str | Iterable[str] | None = None,
    timestamp: str | None = None,
    headers: Mapping[str, str] | str | None = None,
    deleted: str | None = None,
    checkpoint: str | None = None,
    output_mode: str = "append",
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    options: Mapping[str, str] | None = None,
) -> StreamingQuery | None:
    """Write each row as a record whose value is the JSON object of its columns. Exactly once, if it is a stream.

    `key` names the column whose text is the record's key, or several columns, whose JSON object is the key; the key
    columns are part of the value too. `timestamp` names the column with the record's time. `headers` are constant
    texts, or the name of a column of Spark's type for headers. Columns for timestamp, headers and `deleted` are not
    part of the value. `deleted` names a BOOLEAN column: where it is true, the record is a tombstone.

    A batch frame is written before the call returns. A stream needs `checkpoint`, and its started query is returned.
    `output_mode` is append, complete or update (the changed rows of an aggregate). `trigger` has Spark's arguments, for
    example {"availableNow": True} or {"processingTime": "1 second"}.

        to_topic(totals, "totals", key="customer", checkpoint="/var/checkpoints/totals", output_mode="update")
    """
    records = frame.select(*_record_columns(frame, key, timestamp, headers, deleted))
    given = {BOOTSTRAP: bootstrap_servers, "topic": topic, **(options or {})}
    if not frame.isStreaming:
        if checkpoint is not None or trigger is not None or output_mode != "append":
            raise ConfigurationError("checkpoint, trigger and output_mode are for streams, and this frame is not one")
        records.write.format("moldau").mode("append").options(**given).save()
        return None
    if checkpoint is None:
        raise ConfigurationError("a stream needs checkpoint=…, the directory in which Spark stores its progress")
    if output_mode == "update":
        from moldau.spark.updates import write_updates

        writer = write_updates(records, given)
    else:
        writer = records.writeStream.format("moldau").options(**given).outputMode(output_mode)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    if query_name is not None:
        writer = writer.queryName(query_name)
    return writer.option("checkpointLocation", checkpoint).start()


def _record_columns(
    frame: DataFrame,
    key: str | Iterable[str] | None,
    timestamp: str | None,
    headers: Mapping[str, str] | str | None,
    deleted: str | None,
) -> list[Column]:
    from pyspark.sql import functions as f

    keys = [] if key is None else [key] if isinstance(key, str) else list(key)
    named = [name for name in (timestamp, deleted, headers) if isinstance(name, str)]
    by_lower = {name.lower(): name for name in frame.columns}
    for name in (*keys, *named):
        if name.lower() not in by_lower:
            raise ConfigurationError(f"the frame has no column {name!r}; it has {', '.join(frame.columns)}")
    apart = {name.lower() for name in named}
    fields = [_quoted(name) for name in frame.columns if name.lower() not in apart]
    if not fields:
        raise ConfigurationError("no column is left for the value")
    value = f.to_json(f.struct(*fields), {"ignoreNullFields": "false"})
    if deleted is not None:
        value = f.when(~f.coalesce(f.col(_quoted(deleted)), f.lit(False)), value)
    columns = [value.alias("value")]
    if keys:
        whole = f.to_json(f.struct(*(_quoted(name) for name in keys)), {"ignoreNullFields": "false"})
        columns.append((f.col(_quoted(keys[0])).cast("string") if isinstance(key, str) else whole).alias("key"))
    if timestamp is not None:
        columns.append(f.col(_quoted(timestamp)).cast("timestamp").alias("timestamp"))
    if isinstance(headers, str):
        columns.append(f.col(_quoted(headers)).cast(HEADERS_TYPE).alias("headers"))
    elif headers:
        each = [
            f.struct(f.lit(name).alias("key"), f.lit(text.encode()).alias("value")) for name, text in headers.items()
        ]
        columns.append(f.array(*each).cast(HEADERS_TYPE).alias("headers"))
    return columns


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
