"""Two queries over the same orders: all of them go to a Delta table, and the recent ones are counted at once.

- The batch layer counts what is in the lake. It is right, but late: it runs now and then, and leaves out the windows
  that may still get orders.
- The speed layer counts each window while it happens, and writes the counts to a compacted topic.

The window of an order decides which layer counts it. So no order is counted twice, and none is missed: see `layers.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from moldau import NewTopic
from moldau.examples.lake_ingestion.generator import ORDERS
from moldau.examples.lake_ingestion.layers import LATENESS_MS, WINDOW_MS, batch_layer, reconciled, stored_batch_view
from moldau.examples.place import Place, batches_to, from_topic, read_topic, updates_to_topic
from moldau.examples.study import Content, require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

require("deltalake", extra="connect-lake")

RECENT = "lake.recent-counts"
TOPICS = [NewTopic(RECENT, partitions=1, configs={"cleanup.policy": "compact"})]

TOTALS = "totals by shop"
BATCH_VIEW = "batch layer"
ORDER = "shop STRING, cents LONG, at_ms LONG"
BATCH_LAYER_EVERY = 10
"""The batch layer runs after every tenth micro-batch that was added to the lake."""


def queries(spark: SparkSession, place: Place) -> list[Any]:
    orders = from_topic(spark, place, ORDERS, ORDER)
    return [
        batches_to(lake_rows(orders), place, "lake", partial(add_to_lake, place)),
        updates_to_topic(recent_counts(orders), place, RECENT, key="key"),
    ]


def lake_rows(orders: DataFrame) -> DataFrame:
    return orders.selectExpr("key AS order", "shop", "cents", "at_ms", f"at_ms DIV {WINDOW_MS} AS window")


def add_to_lake(place: Place, rows: DataFrame, number: int) -> None:
    """Append a micro-batch to the Delta table, once. After a crash Spark may give us the last one again."""
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    path = str(place.directory / "lake")
    # The table's own log holds the number of the last batch: rows and number are one commit.
    if DeltaTable.is_deltatable(path) and DeltaTable(path).transaction_version("lake") == number:
        return
    commit = CommitProperties(app_transactions=[Transaction("lake", number)])
    write_deltalake(path, rows.toArrow(), mode="append", partition_by=["window"], commit_properties=commit)
    if number % BATCH_LAYER_EVERY == 0:
        batch_layer(place.directory)


def recent_counts(orders: DataFrame) -> DataFrame:
    """Number and sum of the orders by window and shop. Spark forgets windows that can get no more orders."""
    from pyspark.sql import functions as f

    return (
        orders.withColumn("at", f.timestamp_millis("at_ms"))
        .withWatermark("at", f"{LATENESS_MS} milliseconds")
        .groupBy(f.window("at", f"{WINDOW_MS} milliseconds"), "shop")
        .agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))
        .withColumn("window", f.expr(f"unix_millis(window.start) DIV {WINDOW_MS}"))
        .withColumn("key", f.concat_ws(" ", "window", "shop"))
    )


def stored(place: Place) -> dict[str, Content]:
    """What both layers say together; and the batch layer alone, for the view."""
    batch = stored_batch_view(place.directory)
    recent = {record.key: record.value for record in read_topic(place, RECENT) if record.value is not None}
    return {TOTALS: reconciled(batch, recent.values()).totals(), BATCH_VIEW: [batch]}
