"""Spark job as a user submits it: copies a topic once, changed, to another topic and into Parquet files.

Run as a program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def doubled(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Each number of a batch, times two, as text, with no row lost or added."""
    import pyarrow as pa

    for batch in batches:
        numbers = [str(2 * int(value)) for value in batch.column("value").to_pylist()]
        yield pa.RecordBatch.from_arrays([pa.array(numbers)], names=["value"])


def main() -> None:
    where, address, bootstrap, topic, target, directory = sys.argv[1:]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if where == "remote":
        builder = builder.remote(address)
    else:
        builder = builder.master(address).config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    stream = spark.readStream.format("moldau").options(**options, startingOffsets="earliest").load()
    copy = stream.mapInArrow(doubled, "value STRING")
    to_topic = copy.writeStream.format("moldau").option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    to_files = stream.writeStream.format("parquet").option("path", f"{directory}/rows")
    for place, writer in enumerate((to_topic, to_files)):
        writer = writer.option("checkpointLocation", f"{directory}/checkpoint-{place}")
        writer.trigger(availableNow=True).start().awaitTermination()
    rows = spark.read.parquet(f"{directory}/rows")
    print("streamed", rows.count(), rows.select("value").distinct().count())
    print("read", spark.read.format("moldau").options(**options).load().count())
    spark.stop()


if __name__ == "__main__":
    main()
