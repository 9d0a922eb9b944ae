"""Spark task of a source: reads slices, transforms and converts their rows, and writes them to topics.

With exactly-once support the rows are left in a prepared transaction for the driver (`source_commit.py`). Without, they
are written directly: if the batch is repeated, they are written again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.blocking.admin import Admin
from moldau.connect.connector import Slice, SourceConnector
from moldau.connect.engine.batch_result import BatchResult
from moldau.connect.engine.pipeline import RecordPipeline, pipeline_for
from moldau.connect.engine.pipeline_spec import PipelineSpec
from moldau.connect.engine.run_settings import ErrorSettings
from moldau.connect.engine.tolerance import BadRow, ErrorHandler
from moldau.connect.engine.topic_creation import TopicRules, ensure_topics
from moldau.connect.record_batch import ConnectBatch
from moldau.host.clock import SystemClock
from moldau.spark.columns import Columns
from moldau.spark.commit_log import PreparedWrite
from moldau.spark.sink_options import SinkOptions
from moldau.spark.writer import Target, TaskAttempt, write_task

COLUMNS: Final = Columns(key="key", topic="topic", partition="partition", headers="headers", timestamp="timestamp")


@dataclass(frozen=True)
class SourceWork:
    """One batch of a source, as its tasks need it. Spark copies it."""

    connector: SourceConnector
    tasks: Sequence[Sequence[Slice]]
    pipeline: PipelineSpec
    errors: ErrorSettings
    options: SinkOptions
    admin: Any
    rules: TopicRules
    query: str
    run: str
    batch: int

    def __call__(self, index: int, attempt: int) -> SourceWrote:
        """Run one task."""
        return _run(self, index, attempt)


@dataclass(frozen=True)
class SourceWrote:
    """The message of a source's task."""

    write: PreparedWrite | None
    result: BatchResult
    logged: tuple[str, ...] = ()


def _run(work: SourceWork, index: int, attempt: int) -> SourceWrote:
    rows = SourceRows(pipeline_for(work.pipeline), work.errors, work.rules, work.options, work.admin)
    batches = (batch for part in work.tasks[index] for batch in work.connector.read(part))
    identity = TaskAttempt(work.query, work.run, work.batch, index, attempt)
    try:
        wrote = write_task(Target(work.options, COLUMNS), identity, rows.encoded(batches))
    finally:
        rows.close()
    return SourceWrote(wrote.write, rows.result(len(work.tasks)), tuple(rows.errors.logged))


class SourceRows:
    """The rows of a source on their way to topics, counted."""

    def __init__(
        self, pipeline: RecordPipeline, errors: ErrorSettings, rules: TopicRules, options: SinkOptions, admin: Any
    ) -> None:
        self._pipeline = pipeline
        self._rules = rules
        self._bootstrap = str(options.settings.get("bootstrap.servers", ""))
        self._admin_settings = admin
        self._admin: Admin | None = None
        self.errors = ErrorHandler(errors, pause, SystemClock().monotonic, _skip, _origin)
        self._records = 0
        self._bytes = 0
        self._topics: set[str] = set()

    def encoded(self, batches: Iterator[ConnectBatch]) -> Iterator[pa.RecordBatch]:
        """The records, with the columns that the producer takes. Their topics exist, as far as we create them."""
        for batch in batches:
            for records in self._pipeline.to_topic(batch, self.errors):
                if not records.num_rows:
                    continue
                topics = [str(topic) for topic in pc.unique(records.column("topic")).to_pylist()]
                ensure_topics(topics, self._rules, self._bootstrap, self._open_admin)
                self._topics.update(topics)
                self._records += records.num_rows
                self._bytes += records.column("key").nbytes + records.column("value").nbytes
                yield records

    def _open_admin(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self._admin_settings)
        return self._admin

    def result(self, tasks: int) -> BatchResult:
        return BatchResult(
            self._records,
            self._bytes,
            self.errors.skipped,
            0,
            self.errors.retries,
            frozenset(self._topics),
            tasks=tasks,
        )

    def close(self) -> None:
        if self._admin is not None:
            self._admin.close()
            self._admin = None


def pause(seconds: float) -> None:
    """Wait in a task, which has a thread of its own."""
    threading.Event().wait(seconds)


def _skip(bad: BadRow) -> None:
    """Kafka Connect has no dead letters for sources: a tolerated row is counted and logged."""


def _origin(rows: Any) -> str:
    origin = getattr(rows, "origin", None)
    if origin is None or not origin.num_rows:
        return ""
    row = origin.to_pylist()[0]
    return f" for source partition {row.get('source_partition')}, offset {row.get('source_offset')}"
