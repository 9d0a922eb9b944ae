"""Continuous queries that write a topic exactly once: rows become records, deleted rows become tombstones.

A query whose rows are only added ends in the sink of `moldau.spark`. The others need a function per micro-batch, which
writes with the same protocol (`moldau.spark.updates`): tasks leave their records in prepared transactions, and the
driver commits them with one decision for the batch. Both claim the query first, so that an earlier run of the same
checkpoint that still exists somewhere can make nothing visible any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.spark.claims import OPTION, claim_checkpoint
from moldau.spark.sink import target_of
from moldau.spark.updates import UpdateWriter
from moldau.sql.continuous.plans import ContinuousPlan
from moldau.sql.continuous.records import records_of
from moldau.sql.continuous.running import begin
from moldau.sql.continuous.spark_plans import quoted
from moldau.sql.errors import SqlError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from moldau.sql.declarations import Declaration


def write(
    plan: ContinuousPlan,
    target: Declaration,
    client_settings: Mapping[str, str],
    checkpoint: str,
    query_name: str,
    trigger_ms: int | None = None,
) -> StreamingQuery:
    if plan.query.limit is not None:
        raise SqlError("a query that writes a topic has no LIMIT", hint="remove LIMIT: the query runs until TERMINATE")
    options = {f"kafka.{name}": str(value) for name, value in client_settings.items()}
    options["topic"] = target.topic
    records = records_of(plan, target)
    schema = records(plan.spark.createDataFrame([], _schema(plan))).schema
    options[OPTION] = claim_checkpoint(plan.spark, checkpoint, options)
    if plan.step is None and plan.output_mode == "append":
        writer = records(plan.frame).writeStream.format("moldau").options(**options)
        return begin(plan, checkpoint, query_name, trigger_ms=trigger_ms, writer=writer)
    updates = UpdateWriter(target_of(options, schema))

    def batch(result: DataFrame, number: int) -> None:
        updates(records(result), number)

    return begin(plan, checkpoint, query_name, batch, trigger_ms=trigger_ms)


def _schema(plan: ContinuousPlan) -> str:
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in plan.columns)
