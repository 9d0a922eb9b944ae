"""Topics in the code of a pipeline: streaming frames of records, and sinks, with the connection of the command.

The addresses and settings come from the environment variables that every `moldau` command reads:
MOLDAU_BOOTSTRAP_SERVERS and MOLDAU_COMMAND_CONFIG, a file with client settings. `moldau pipeline run` sets them from -b
and --command-config; with `spark-pipelines run` the user sets them. So the code of a pipeline names no broker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BOOTSTRAP_VARIABLE: Final = "MOLDAU_BOOTSTRAP_SERVERS"
CONFIG_VARIABLE: Final = "MOLDAU_COMMAND_CONFIG"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"

RECORD_COLUMNS: Final = ("key", "timestamp", "partition", "offset")
"""Columns of the record that `read_topic` adds to the fields of JSON, as `_key` and so on."""


def client_settings(
    kind: Literal["consumer", "producer", "admin"], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The settings of a client of this kind. Settings of the file that only other kinds of clients have are left out,
    and those that Spark's source or sink refuses because it sets them itself."""
    from moldau.client.settings import ADMIN, CONSUMER, PRODUCER
    from moldau.settings.sources import read_properties
    from moldau.spark import options, sink_options

    tables = {"consumer": CONSUMER, "producer": PRODUCER, "admin": ADMIN}
    refused: Mapping[str, str] = {"consumer": options.REFUSED, "producer": sink_options.REFUSED, "admin": {}}[kind]
    file = environment.get(CONFIG_VARIABLE)
    texts = read_properties(Path(file).read_text()) if file else {}
    others = [table for name, table in tables.items() if name != kind]
    settings = {
        name: text
        for name, text in texts.items()
        if name not in refused and (name in tables[kind] or not any(name in table for table in others))
    }
    given = environment.get(BOOTSTRAP_VARIABLE)
    if given or "bootstrap.servers" not in settings:
        settings["bootstrap.servers"] = given or DEFAULT_BOOTSTRAP
    return settings


def read_topic(topic: str, schema: str | None = None, **options: Any) -> DataFrame:
    """A streaming frame of the records of a topic, from its beginning.

    With a schema, such as "id LONG, amount DOUBLE", values are JSON: the columns are its fields, then `_key`,
    `_timestamp`, `_partition` and `_offset` of the record. A value that is not such JSON gives null in all fields.
    Without a schema the columns are those of the source, with key and value as strings. `options` are those of the
    source (docs/spark.md), for example maxOffsetsPerTrigger=10_000.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    reader = SparkSession.active().readStream.format("moldau").option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest")
    for name, value in client_settings("consumer").items():
        reader = reader.option(f"kafka.{name}", value)
    records = reader.options(**options).load()
    text = f.col("value").cast("string")
    if schema is None:
        return records.withColumns({"key": f.col("key").cast("string"), "value": text})
    fields = f.from_json(text, schema).alias("_fields")
    own = [f.col(name).cast("string" if name == "key" else _TYPES[name]).alias(f"_{name}") for name in RECORD_COLUMNS]
    return records.select(fields, *own).select("_fields.*", *(f"_{name}" for name in RECORD_COLUMNS))


_TYPES: Final = {"timestamp": "timestamp", "partition": "int", "offset": "long"}


def write_topic(name: str, topic: str, **options: Any) -> None:
    """Create the sink `name`, which writes to a topic exactly once.

    Flows write to it with `dp.append_flow(target=name)`. They have the columns of the sink (docs/spark-sink.md): value
    and, if wanted, key, headers, partition, timestamp. `options` are those of the sink.
    """
    from pyspark import pipelines as dp

    settings = {f"kafka.{setting}": value for setting, value in client_settings("producer").items()}
    given = {option: str(value) for option, value in options.items()}
    dp.create_sink(name, "moldau", {**settings, "topic": topic, **given})
