"""Sink of `format("moldau")`: the writer objects that Spark calls, around `writer.py` and `two_phase.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from moldau.client.errors import ConfigurationError
from moldau.client.settings import PRODUCER, ClientSettings
from moldau.host.clock import SystemRandomness
from moldau.spark import columns, sink_options
from moldau.spark.commit_log import PreparedWrite, transactional_id
from moldau.spark.plain_errors import plain_errors
from moldau.spark.sink_broker import SinkBroker
from moldau.spark.two_phase import DecidedButLost, TaskTransaction, TwoPhaseCommit, end_run
from moldau.spark.writer import Target, TaskAttempt, TaskWrote, write_task

Messages = Sequence[WriterCommitMessage | None]


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Create the writer of a batch write. Raises if options or columns are wrong, before any data is written."""
    if overwrite:
        raise ConfigurationError("a topic cannot be overwritten, only appended to: use mode('append')")
    return BatchWriter(target_of(options, schema), _new_run())


def stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    return StreamWriter(target_of(options, schema))


def target_of(options: Mapping[str, str], schema: StructType) -> Target:
    """Check options and columns, and return the target. Raises if one is wrong, before any data is written."""
    parsed = sink_options.parse(options)
    ClientSettings.of(PRODUCER, parsed.settings, {})  # raises if a setting is unknown or malformed
    found = columns.check(schema, parsed.topic)
    with SinkBroker(parsed) as access:
        return Target(access.checked(parsed), found)


def _new_run() -> str:
    return SystemRandomness().uuid().hex()[:8]


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a streaming query. Spark has one in the driver and copies in the tasks, which share no state."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._commits: TwoPhaseCommit | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_target": self._target, "_commits": None}

    @plain_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWrote:
        return write_task(self._target, TaskAttempt.of_query(), iterator)

    @plain_errors
    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        if first := self._first(messages):
            self._driver().commit(first.query, first.run, batchId, _writes(messages))

    @plain_errors
    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        if first := self._first(messages):
            self._driver().abort(first.query, first.run, batchId, _writes(messages))

    def _first(self, messages: Messages) -> TaskWrote | None:
        """A message of the tasks; None if there is no transaction to complete."""
        if not self._target.options.exactly_once:
            return None
        return next((one for one in messages if isinstance(one, TaskWrote)), None)

    def _driver(self) -> TwoPhaseCommit:
        if self._commits is None:
            options = self._target.options
            self._commits = TwoPhaseCommit(
                SinkBroker(options), fail_on_data_loss=options.fail_on_data_loss, claim=options.run_claim
            )
        return self._commits


class BatchWriter(DataSourceArrowWriter):
    """The writer of one `df.write`. The driver commits all tasks' transactions at the end; if it dies in between, only
    some of them are committed."""

    def __init__(self, target: Target, run: str) -> None:
        self._target = target
        self._run = run

    @plain_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWrote:
        return write_task(self._target, TaskAttempt.of_batch_write(self._run), iterator)

    @plain_errors
    def commit(self, messages: Messages) -> None:
        if not self._target.options.exactly_once:
            return
        transactions = self._transactions(messages)
        with SinkBroker(self._target.options) as access:
            lost = access.commit(transactions)
            end_run(access, self._run, self._run)
        if lost:
            raise DecidedButLost(
                f"the broker has aborted {len(lost)} of {len(transactions)} transactions of this write before they "
                "were committed: their rows are lost, the other rows are in the topics. If the write was slower "
                "than transactionTimeoutMs, increase it"
            )

    @plain_errors
    def abort(self, messages: Messages) -> None:
        if not self._target.options.exactly_once:
            return
        with SinkBroker(self._target.options) as access:
            access.abort(self._transactions(messages))
            end_run(access, self._run, self._run)

    def _transactions(self, messages: Messages) -> list[TaskTransaction]:
        def name(write: PreparedWrite) -> str:
            return transactional_id(self._run, self._run, 0, write.partition, write.attempt)

        return [TaskTransaction(name(write), write.producer_id, write.epoch) for write in _writes(messages)]


def _writes(messages: Messages) -> list[PreparedWrite]:
    return [one.write for one in messages if isinstance(one, TaskWrote) and one.write is not None]
