"""One query with keyed state and timers: every change of a sensor's status, also that it has fallen silent.

Each change is written to two topics: a history, and a compacted topic with the latest status of each sensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau import NewTopic
from moldau.examples.place import Place, from_topic
from moldau.examples.sensor_health.generator import READINGS
from moldau.examples.sensor_health.rules import LATENESS_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATUSES = "sensors.statuses"
HISTORY = "sensors.history"
TOPICS = [NewTopic(STATUSES, partitions=2, configs={"cleanup.policy": "compact"}), NewTopic(HISTORY, partitions=2)]


def queries(spark: SparkSession, place: Place) -> list[Any]:
    readings = from_topic(spark, place, READINGS, "celsius DOUBLE, at_ms LONG")
    records = for_both_topics(status_changes(readings))
    query = records.writeStream.format("moldau").options(**place.spark_options()).queryName("statuses")
    return [query.option("checkpointLocation", str(place.directory / "checkpoints" / "statuses"))]


def status_changes(readings: DataFrame) -> DataFrame:
    """Timers run in event time: they follow the readings of all sensors, not the clock. So a pipeline that reads old
    data gets the same results as one that was there in time."""
    from pyspark.sql import functions as f

    from moldau.examples.sensor_health.sensor_watch import CHANGE, SensorWatch

    return (
        readings.withColumnRenamed("key", "sensor")
        .withColumn("at", f.timestamp_millis("at_ms"))
        .withWatermark("at", f"{LATENESS_MS} milliseconds")
        .groupBy("sensor")
        .transformWithState(SensorWatch(), outputStructType=CHANGE, outputMode="Append", timeMode="EventTime")
    )


def for_both_topics(changes: DataFrame) -> DataFrame:
    """Two records per change. The column `topic` says where the sink writes each."""
    from pyspark.sql import functions as f

    topics = f.explode(f.array(f.lit(STATUSES), f.lit(HISTORY))).alias("topic")
    return changes.select(f.col("sensor").alias("key"), f.to_json(f.struct("*")).alias("value"), topics)
