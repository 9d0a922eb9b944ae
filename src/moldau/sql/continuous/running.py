"""Start of a plan's streaming query with a function for the result of each micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from moldau.sql.continuous.group_state import PROVIDER_SETTING, ROCKSDB_PROVIDER
from moldau.sql.continuous.plans import ContinuousPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Batch = Callable[["DataFrame", int], None]
"""What is called with the result of each micro-batch and the number of the batch."""
_STARTING = Lock()
"""A query takes its settings from the session when it starts; queries of several threads share the session."""


def begin(
    plan: ContinuousPlan,
    checkpoint: str,
    name: str,
    batch: Batch | None = None,
    *,
    trigger_ms: int | None = None,
    writer: DataStreamWriter | None = None,
) -> StreamingQuery:
    """Start the query. `batch` gets the result of each micro-batch; without it, `writer` writes the rows."""
    if writer is None:
        assert batch is not None, "either a function or a writer"
        writer = plan.frame.writeStream.foreachBatch(_each_batch(plan, batch))
    writer = writer.outputMode(plan.output_mode).queryName(name).option("checkpointLocation", checkpoint)
    if trigger_ms is not None:
        writer = writer.trigger(processingTime=f"{trigger_ms} milliseconds")
    with _STARTING, _settings(plan.spark, plan.needs_rocksdb):
        return writer.start()


def _each_batch(plan: ContinuousPlan, batch: Batch) -> Batch:
    def run(frame: DataFrame, number: int) -> None:
        if plan.step is None:
            batch(frame, number)
            return
        # The step uses the rows more than once, and the operators with state must run once.
        frame.persist()
        try:
            batch(plan.step(frame), number)
        finally:
            frame.unpersist()

    return run


@contextmanager
def _settings(spark: SparkSession, rocksdb: bool) -> Iterator[None]:
    """RocksDB for operators of ours with state, which need it. Spark's own are faster with its default."""
    if not rocksdb:
        yield
        return
    before = spark.conf.get(PROVIDER_SETTING)
    spark.conf.set(PROVIDER_SETTING, ROCKSDB_PROVIDER)
    try:
        yield
    finally:
        spark.conf.set(PROVIDER_SETTING, before or "")
