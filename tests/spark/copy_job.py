"""Spark job that copies numbers from topic to topic, and from there into a Parquet table; run as a program.

It ends when its standard input ends, so that it never outlives the process that started it. It prints its Spark version
and its errors on standard output.
"""

from __future__ import annotations

import sys
import threading

LOOK_EVERY_S = 0.2


def main() -> int:
    bootstrap, source, target, directory, how = sys.argv[1:]
    told_to_stop = threading.Event()

    def until_input_ends() -> None:
        sys.stdin.read()
        told_to_stop.set()

    threading.Thread(target=until_input_ends, daemon=True).start()
    from pyspark.sql import DataFrame, SparkSession

    from moldau.spark import write_updates

    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.local.dir", f"{directory}/local").config("spark.driver.memory", "512m")
    jvm = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    spark = builder.config("spark.driver.extraJavaOptions", jvm).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def read(topic: str) -> DataFrame:
        reader = spark.readStream.format("moldau").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("kafka.isolation.level", "read_committed").option("maxOffsetsPerTrigger", "400")
        return reader.options(subscribe=topic, startingOffsets="earliest").load()

    copied, options = read(source).select("partition", "value"), {"kafka.bootstrap.servers": bootstrap, "topic": target}
    if how == "write_updates":
        to_topic = write_updates(copied, options).queryName("topic")
    else:
        to_topic = copied.writeStream.format("moldau").queryName("topic").options(**options)
    to_table = read(target).selectExpr("CAST(CAST(value AS STRING) AS LONG) AS number").writeStream.queryName("table")
    to_table = to_table.format("parquet").option("path", f"{directory}/table")
    queries = [
        writer.option("checkpointLocation", f"{directory}/checkpoint-{place}")
        .trigger(processingTime="0 seconds")
        .start()
        for place, writer in enumerate((to_topic, to_table))
    ]
    while not told_to_stop.wait(LOOK_EVERY_S):
        for query in queries:
            if (failure := query.exception()) is not None:
                print(f"{query.name}: {failure}", flush=True)
                return 1
    for query in queries:
        query.stop()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
