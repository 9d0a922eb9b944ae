"""Streaming writes in update mode: `write_updates`, exactly once, based on Spark's `foreachBatch`.

Spark offers update mode only to sinks written in Java or Scala. A function that `foreachBatch` calls gets the rows in
any output mode. So this function writes them as the sink does: each task leaves its rows in a prepared transaction
(`writer.py`), and the driver commits all of them with one decision (`two_phase.py`). The names of transactions and
decisions are derived from the ids of query and batch, as in the sink. So a batch that Spark runs again after a crash
finds its decision and is not written twice.

It does not work with Spark Connect, because Spark does not pass the query's id to a function that runs there.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import BinaryType, StructField, StructType

from moldau.client.errors import ConfigurationError, MoldauError
from moldau.host.event_log import event_logger
from moldau.spark.plain_errors import plain_errors
from moldau.spark.sink import target_of
from moldau.spark.sink_broker import SinkBroker
from moldau.spark.two_phase import TwoPhaseCommit
from moldau.spark.writer import QUERY_PROPERTY, RUN_CHARACTERS, RUN_PROPERTY, Target, TaskAttempt, TaskWrote, write_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

log = event_logger(__name__)

MESSAGE = "message"
MESSAGES = StructType([StructField(MESSAGE, BinaryType())])


def write_updates(frame: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Return a writer of the changed rows of a streaming aggregate: set checkpointLocation and trigger, then start it.

    `options` and the columns of `frame` are those of `format("moldau")`. Both are checked here; wrong ones raise an
    error. `outputMode` may be changed before the start.

        totals = orders.groupBy("customer").sum("amount").selectExpr("customer AS key", "to_json(struct(*)) AS value")
        writer = write_updates(totals, {"kafka.bootstrap.servers": "localhost:9092", "topic": "totals"})
        query = writer.option("checkpointLocation", "/var/checkpoints/totals").start()
    """
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise ConfigurationError(
            "write_updates does not work with Spark Connect, which does not pass the query's id to a function of "
            "foreachBatch; run the job in a classic session, or use outputMode('append') with format('moldau')"
        )
    return frame.writeStream.outputMode("update").foreachBatch(UpdateWriter(target_of(options, frame.schema)))


class UpdateWriter:
    """The function that Spark calls with the rows of each micro-batch, in the driver process."""

    def __init__(self, target: Target) -> None:
        self._target = target

    @plain_errors
    def __call__(self, frame: DataFrame, batch: int) -> None:
        tasks = frame.mapInArrow(partial(_write, self._target), MESSAGES)
        try:
            messages: list[TaskWrote] = [pickle.loads(row[MESSAGE]) for row in tasks.collect()]
        except BaseException:
            self._end_run(frame, batch)
            raise
        if not self._target.options.exactly_once or not messages:
            return
        first = messages[0]
        with SinkBroker(self._target.options) as access:
            writes = [message.write for message in messages if message.write is not None]
            self._commits(access).commit(first.query, first.run, first.batch, writes)

    def _end_run(self, frame: DataFrame, batch: int) -> None:
        """Abort the batch. The query fails with its first error; transactions that cannot be aborted now are left to
        the next run."""
        context = frame.sparkSession.sparkContext
        query, group = (context.getLocalProperty(name) for name in (QUERY_PROPERTY, RUN_PROPERTY))
        if not self._target.options.exactly_once or not query or not group:
            return
        try:
            with SinkBroker(self._target.options) as access:
                self._commits(access).abort(query, group[:RUN_CHARACTERS], batch, [])
        except MoldauError as error:
            log.warning(
                "transactions not aborted, left to the next run",
                extra={"query": query, "batch": batch, "reason": str(error)},
            )

    def _commits(self, access: SinkBroker) -> TwoPhaseCommit:
        options = self._target.options
        return TwoPhaseCommit(access, fail_on_data_loss=options.fail_on_data_loss, claim=options.run_claim)


@plain_errors
def _write(target: Target, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One task: writes its rows, and returns the message for the driver as one row."""
    import pyarrow as pa

    wrote: Any = write_task(target, TaskAttempt.of_query(), batches)
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(wrote)], pa.binary())], names=[MESSAGE])
