"""Write task of the sink: writes Arrow rows to topics, in a transaction that it leaves prepared for the driver.

The driver's part is in `two_phase.py`. A task without rows opens no transaction. A task that fails aborts its
transaction. A task that is killed cannot do that; the driver's sweep does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from moldau.client.blocking.producer import Producer
from moldau.client.errors import MoldauError, SerializationError
from moldau.spark.columns import VALUE, Columns
from moldau.spark.commit_log import PreparedWrite, transactional_id
from moldau.spark.sink_broker import SinkBroker
from moldau.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    from moldau.client.producer.arrow import BatchFuture

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"
RUN_PROPERTY = "spark.jobGroup.id"
RUN_CHARACTERS = 8
"""The length of the prefix of the run's id: enough to distinguish the few runs of one query."""


class RunIsOver(MoldauError):
    """A task attempt whose job has already ended."""


@dataclass(frozen=True)
class TaskWrote(WriterCommitMessage):
    """The message of a task attempt to the driver."""

    query: str
    run: str
    batch: int
    rows: int
    write: PreparedWrite | None
    """None if there is nothing to commit: no rows, or a delivery that needs no commit."""


@dataclass(frozen=True)
class Target:
    """The options and columns of a write. Spark copies them to the executors."""

    options: SinkOptions
    columns: Columns


@dataclass(frozen=True)
class TaskAttempt:
    """The identity of a task attempt."""

    query: str
    run: str
    batch: int
    partition: int
    number: int

    @classmethod
    def of_query(cls) -> TaskAttempt:
        """The attempt that this process is running. All jobs of a run of a streaming query are in one job group."""
        context = _context()
        query, group, batch = (
            context.getLocalProperty(name) for name in (QUERY_PROPERTY, RUN_PROPERTY, BATCH_PROPERTY)
        )
        assert query and group and batch, "a task of a streaming query has these properties"
        return cls(query, group[:RUN_CHARACTERS], int(batch), context.partitionId(), context.attemptNumber())

    @classmethod
    def of_batch_write(cls, run: str) -> TaskAttempt:
        """The attempt that this process is running, in a batch write. It has no query id, so the run is used for
        both."""
        context = _context()
        return cls(run, run, 0, context.partitionId(), context.attemptNumber())

    @property
    def transactional_id(self) -> str:
        return transactional_id(self.query, self.run, self.batch, self.partition, self.number)


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "a task runs with a task context"
    return context


def write_task(target: Target, attempt: TaskAttempt, batches: Iterator[pa.RecordBatch]) -> TaskWrote:
    """Write all rows, and return when the broker has them: visible, or in a prepared transaction."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return TaskWrote(attempt.query, attempt.run, attempt.batch, 0, None)
    exactly_once = target.options.exactly_once
    with _producer(target.options, attempt) as producer:
        if exactly_once:
            producer.init_transactions()
            _refuse_if_over(target.options, attempt)
            producer.begin_transaction()
        rows, write = 0, None
        try:
            written = []
            for batch in _chain(first, filled):
                written += send_rows(producer, target, batch)
                rows += batch.num_rows
            producer.flush()
            for future in written:
                future.result()  # raises the error of any of its rows
            if exactly_once:
                prepared = producer.prepare_transaction()
                write = PreparedWrite(attempt.partition, attempt.number, prepared.producer_id, prepared.epoch)
        except BaseException:
            if exactly_once:
                _abort_quietly(producer)
            raise
    return TaskWrote(attempt.query, attempt.run, attempt.batch, rows, write)


def _refuse_if_over(options: SinkOptions, attempt: TaskAttempt) -> None:
    """Raise if the job has ended: the attempt would leave a transaction that no driver completes. See `end_run`."""
    with SinkBroker(options) as access:
        if access.gate_is_closed(attempt.query, attempt.run):
            raise RunIsOver(
                f"attempt {attempt.number} of task {attempt.partition} started too late: its job has already ended; "
                "nothing was written"
            )


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _abort_quietly(producer: Producer) -> None:
    """Try to abort. The task fails with its first error; the driver's sweep aborts a transaction that cannot be aborted
    now."""
    try:
        producer.abort_transaction()
    except MoldauError:
        pass


def _producer(options: SinkOptions, attempt: TaskAttempt) -> Producer:
    settings: dict[str, Any] = dict(options.settings)
    if options.exactly_once:
        settings["transactional.id"] = attempt.transactional_id
        if options.two_phase:
            settings["transaction.two.phase.commit.enable"] = True
        else:
            settings["transaction.timeout.ms"] = options.transaction_timeout_ms
    return Producer(settings)


def send_rows(producer: Producer, target: Target, batch: pa.RecordBatch) -> list[BatchFuture]:
    """Send the rows of a batch, to the target's topic or to the topic in each row."""
    columns = target.columns
    named: dict[str, Any] = {
        "value": VALUE if VALUE in batch.schema.names else _named(batch, VALUE),
        "key": columns.key,
        "partition": columns.partition,
        "headers": columns.headers,
        "timestamp": columns.timestamp,
    }
    if columns.topic is None:
        assert target.options.topic is not None
        return [producer.send_batch(target.options.topic, batch, **named)]
    topics = batch.column(columns.topic)
    if topics.null_count:
        raise SerializationError(
            f"{topics.null_count} of {batch.num_rows} rows have no topic: column {columns.topic!r} is null in them"
        )
    return [
        producer.send_batch(topic, batch.filter(pc.equal(topics, topic)), **named)
        for topic in pc.unique(topics).to_pylist()
    ]


def _named(batch: pa.RecordBatch, name: str) -> str:
    """The column with that name in any case."""
    found: str = next(column for column in batch.schema.names if column.lower() == name)
    return found
