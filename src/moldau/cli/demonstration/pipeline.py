"""Spark job of the demo: sums per window, joined with limits, written exactly once to a topic and a table.

`python -m moldau.cli.demonstration.pipeline BOOTSTRAP DIRECTORY`. It prints one line of JSON per completed batch. It
ends when its standard input ends, so that it never outlives its parent process.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.demonstration.bank import WINDOW_MS
from moldau.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRANSACTIONS: Final = "bank-transactions"
LIMITS: Final = "bank-limits"
ALERTS: Final = "bank-alerts"

LATENESS: Final = "3 seconds"
"""The largest difference in time between the partitions of a topic."""
TRIGGER: Final = "1 second"
LOOK_EVERY_S: Final = 0.5


def alerts(spark: SparkSession, bootstrap: str) -> DataFrame:
    """The windows whose sum exceeds the limit that was valid when they began."""
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    # The stream: one sum per account and window, emitted once, when the window has ended.
    sums = (
        spark.readStream.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", TRANSACTIONS)
        .option("startingOffsets", "earliest")
        .load()
        .select(f.from_json(f.col("value").cast("string"), "account STRING, cents LONG, at_ms LONG").alias("one"))
        .select("one.*", f.timestamp_millis("one.at_ms").alias("at"))
        .withWatermark("at", LATENESS)
        .groupBy("account", f.window("at", f"{WINDOW_MS} milliseconds"))
        .agg(f.sum("cents").alias("cents"))
        .select("account", "cents", f.unix_millis(f.col("window.start")).alias("window_ms"))
    )
    # The table: every limit with its validity, from its start to the start of the account's next limit.
    limits = (
        spark.read.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", LIMITS)
        .load()
        .select(f.from_json(f.col("value").cast("string"), "account STRING, cents LONG, from_ms LONG").alias("one"))
        .select(f.col("one.account").alias("owner"), f.col("one.cents").alias("limit"), "one.from_ms")
        .withColumn("until_ms", f.lead("from_ms").over(Window.partitionBy("owner").orderBy("from_ms")))
    )
    in_force = (f.col("from_ms") <= f.col("window_ms")) & (
        f.col("until_ms").isNull() | (f.col("window_ms") < f.col("until_ms"))
    )
    return (
        sums.join(limits, (f.col("account") == f.col("owner")) & in_force)
        .where("cents > limit")
        .select(
            f.col("account").alias("key"),
            f.to_json(f.struct("account", "window_ms", "cents")).alias("value"),
        )
    )


def start(spark: SparkSession, bootstrap: str, directory: Path) -> list[Any]:
    """Start the two queries: transactions and limits to alerts, and alerts to a table."""
    from pyspark.sql import functions as f

    to_topic = (
        alerts(spark, bootstrap)
        .writeStream.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", ALERTS)
        .option("checkpointLocation", str(directory / "checkpoints" / "alerts"))
        .trigger(processingTime=TRIGGER)
        .start()
    )
    to_table = (
        spark.readStream.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", ALERTS)
        .option("startingOffsets", "earliest")
        .load()
        .select(f.from_json(f.col("value").cast("string"), "account STRING, window_ms LONG, cents LONG").alias("one"))
        .select("one.*")
        .writeStream.format("parquet")
        .option("path", str(directory / "alerts.parquet"))
        .option("checkpointLocation", str(directory / "checkpoints" / "table"))
        .trigger(processingTime=TRIGGER)
        .start()
    )
    return [to_topic, to_table]


def main(bootstrap: str, directory: str) -> int:
    told_to_stop = threading.Event()

    def until_input_ends() -> None:
        sys.stdin.read()
        told_to_stop.set()

    threading.Thread(target=until_input_ends, daemon=True).start()
    spark = session("moldau-demo", master="local[2]", config={"spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    queries = start(spark, bootstrap, Path(directory))
    reported = [-1, -1]
    while not told_to_stop.wait(LOOK_EVERY_S):
        for place, query in enumerate(queries):
            if (failure := query.exception()) is not None:
                _say(error=str(failure))
                return 1
            progress = query.lastProgress
            if progress is not None and progress["batchId"] > reported[place]:
                reported[place] = progress["batchId"]
                _say(query=place, batch=progress["batchId"], rows=progress["numInputRows"])
    for query in queries:
        query.stop()
    spark.stop()
    return 0


def _say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
