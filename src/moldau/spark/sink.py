"""The sink of `format("moldau")`: the objects that Spark asks for, around `writer.py` and `two_phase.py`."""

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
from moldau.spark.decisions import PreparedWrite, transactional_id
from moldau.spark.ground import BrokerGround
from moldau.spark.two_phase import DecidedButLost, Transaction, TwoPhaseCommit, end_run
from moldau.spark.writer import Attempt, Target, TaskWrote, write_task

Messages = Sequence[WriterCommitMessage | None]


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Raises where options or columns are wrong, before any data moves."""
    if overwrite:
        raise ConfigurationError("a topic cannot be overwritten, only added to: use mode('append')")
    return BatchWriter(_target(options, schema), _new_run())


def stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    return StreamWriter(_target(options, schema))


def _target(options: Mapping[str, str], schema: StructType) -> Target:
    parsed = sink_options.parse(options)
    ClientSettings.of(PRODUCER, parsed.settings, {})  # raises where one is unknown or malformed
    found = columns.check(schema, parsed.topic)
    with BrokerGround(parsed) as ground:
        return Target(ground.checked(parsed), found)


def _new_run() -> str:
    return SystemRandomness().uuid().hex()[:8]


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming query's way out. Spark keeps one beside the driver, and others for tasks: they share nothing."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._commits: TwoPhaseCommit | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_target": self._target, "_commits": None}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWrote:
        return write_task(self._target, Attempt.of_query(), iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        if first := self._first(messages):
            self._driver().commit(first.query, first.run, batchId, _writes(messages))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        if first := self._first(messages):
            self._driver().abort(first.query, first.run, batchId, _writes(messages))

    def _first(self, messages: Messages) -> TaskWrote | None:
        """Whose transactions are to be ended; None where there are none to end."""
        if not self._target.options.exactly_once:
            return None
        return next((one for one in messages if isinstance(one, TaskWrote)), None)

    def _driver(self) -> TwoPhaseCommit:
        if self._commits is None:
            options = self._target.options
            self._commits = TwoPhaseCommit(BrokerGround(options), fail_on_data_loss=options.fail_on_data_loss)
        return self._commits


class BatchWriter(DataSourceArrowWriter):
    """One `df.write`. All tasks' transactions are committed at the end; if the driver dies midway, some may be."""

    def __init__(self, target: Target, run: str) -> None:
        self._target = target
        self._run = run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWrote:
        return write_task(self._target, Attempt.of_batch_write(self._run), iterator)

    def commit(self, messages: Messages) -> None:
        if not self._target.options.exactly_once:
            return
        transactions = self._transactions(messages)
        with BrokerGround(self._target.options) as ground:
            lost = ground.commit(transactions)
            end_run(ground, self._run, self._run)
        if lost:
            raise DecidedButLost(
                f"the broker has aborted {len(lost)} of {len(transactions)} transactions of this write before they "
                "could be committed: their rows are lost, the others are in the topics. Was the write slower than "
                "transactionTimeoutMs?"
            )

    def abort(self, messages: Messages) -> None:
        if not self._target.options.exactly_once:
            return
        with BrokerGround(self._target.options) as ground:
            ground.abort(self._transactions(messages))
            end_run(ground, self._run, self._run)

    def _transactions(self, messages: Messages) -> list[Transaction]:
        def name(write: PreparedWrite) -> str:
            return transactional_id(self._run, self._run, 0, write.partition, write.attempt)

        return [Transaction(name(write), write.producer_id, write.epoch) for write in _writes(messages)]


def _writes(messages: Messages) -> list[PreparedWrite]:
    return [one.write for one in messages if isinstance(one, TaskWrote) and one.write is not None]
