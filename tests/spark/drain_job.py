"""A job as a user submits it: everything in a topic into Parquet files, once. Run as a program of its own."""

from __future__ import annotations

import sys


def main() -> None:
    where, address, bootstrap, topic, directory = sys.argv[1:]
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if where == "remote":
        builder = builder.remote(address)
    else:
        builder = builder.master(address).config("spark.driver.host", "127.0.0.1").config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    stream = spark.readStream.format("moldau").options(**options, startingOffsets="earliest").load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{directory}/rows")
    query.awaitTermination()
    rows = spark.read.parquet(f"{directory}/rows")
    print("streamed", rows.count(), rows.select("value").distinct().count())
    print("read", spark.read.format("moldau").options(**options).load().count())
    spark.stop()


if __name__ == "__main__":
    main()
