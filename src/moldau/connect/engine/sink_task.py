"""Spark task of a sink: reads records, converts and transforms them, and gives them to the connector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from moldau.client.blocking.producer import Producer
from moldau.connect.connector import SinkConnector, SinkSlice, SinkTask
from moldau.connect.engine.batch_result import BatchResult
from moldau.connect.engine.dead_letters import MAX_BYTES, DeadLetter, dead_letter
from moldau.connect.engine.pipeline import RecordPipeline, pipeline_for
from moldau.connect.engine.pipeline_spec import PipelineSpec
from moldau.connect.engine.run_settings import ErrorSettings
from moldau.connect.engine.source_task import pause
from moldau.connect.engine.tolerance import BadRow, ErrorHandler, qualified_name
from moldau.connect.errors import Stage
from moldau.connect.record_batch import ConnectBatch
from moldau.host.clock import SystemClock
from moldau.spark.options import SourceOptions
from moldau.spark.planning import OffsetRange
from moldau.spark.reading import read_ranges
from moldau.spark.rows import row_schema


@dataclass(frozen=True)
class SinkWork:
    """One batch of a sink, as its tasks need it. Spark copies it."""

    connector: SinkConnector
    slices: Sequence[SinkSlice]
    tasks: Sequence[Sequence[int]]
    """The indexes of the slices of each task."""
    topic_ids: Mapping[str, str]
    pipeline: PipelineSpec
    errors: ErrorSettings
    options: SourceOptions
    producer: Mapping[str, Any] = field(repr=False)
    """For dead letters that are too many for the driver."""
    batch: int
    dead_until: Mapping[Any, int]
    """By partition: dead letters before this offset have been written by an earlier attempt at these records."""

    def __call__(self, index: int, attempt: int) -> SinkWrote:
        """Run one task."""
        return _Run(self, index, attempt).wrote()


@dataclass(frozen=True)
class SinkWrote:
    """The message of a sink's task."""

    messages: Mapping[int, Any]
    """By the index of the slice: what `write` returned."""
    result: BatchResult
    dead_letters: tuple[DeadLetter, ...] = ()
    logged: tuple[str, ...] = ()


class _Run:
    """One task attempt."""

    def __init__(self, work: SinkWork, index: int, attempt: int) -> None:
        self._work = work
        self._index = index
        self._attempt = attempt
        self._pipeline: RecordPipeline = pipeline_for(work.pipeline)
        self._errors = ErrorHandler(work.errors, pause, SystemClock().monotonic, self._report, _place)
        self._dead: list[DeadLetter] = []
        self._dead_bytes = 0
        self._dead_count = 0
        self._surplus: Producer | None = None
        self._surplus_sent: list[Any] = []
        self._records = 0
        self._bytes = 0

    def wrote(self) -> SinkWrote:
        work = self._work
        try:
            messages = {number: self._write(number, work.slices[number]) for number in work.tasks[self._index]}
            if self._surplus is not None:
                self._surplus.flush()
                for future in self._surplus_sent:
                    future.result()
        finally:
            if self._surplus is not None:
                self._surplus.close()
        topics = frozenset(work.slices[number].partition.topic for number in work.tasks[self._index])
        result = BatchResult(
            self._records,
            self._bytes,
            self._errors.skipped,
            self._dead_count,
            self._errors.retries,
            topics,
            tasks=len(work.tasks),
        )
        return SinkWrote(messages, result, tuple(self._dead), tuple(self._errors.logged))

    def _write(self, number: int, part: SinkSlice) -> Any:
        task = SinkTask(self._work.connector.name, self._work.batch, number, self._attempt, self._reject)
        return self._work.connector.write(part, self._batches(part), task)

    def _batches(self, part: SinkSlice) -> Iterator[ConnectBatch]:
        topic, partition = part.partition
        wanted = OffsetRange(topic, self._work.topic_ids.get(topic, ""), partition, part.start, part.end)
        for raw in read_ranges(self._work.options, [wanted], row_schema(headers=True)):
            self._records += raw.num_rows
            self._bytes += raw.column("key").nbytes + raw.column("value").nbytes
            yield from self._pipeline.from_topic(raw, self._errors)

    # -- bad records --------------------------------------------------------------------------------------------------

    def _reject(self, batch: ConnectBatch, rows: pa.BooleanArray, error: Exception) -> None:
        """The connector's own bad rows: see `SinkTask.reject`."""
        name = qualified_name(type(self._work.connector))
        self._errors.reject(batch.filter(rows), error, Stage.TASK_PUT, name)

    def _report(self, bad: BadRow) -> None:
        settings = self._work.errors
        origin = bad.rows.origin if isinstance(bad.rows, ConnectBatch) else bad.rows
        if not settings.dead_letter_topic or origin is None:
            return
        letter = dead_letter(
            bad, origin, self._work.connector.name, self._index, with_headers=settings.dead_letter_headers
        )
        if letter.offset < self._work.dead_until.get((letter.topic, letter.partition), -1):
            return
        self._dead_count += 1
        if self._dead_bytes + letter.size <= MAX_BYTES:
            self._dead_bytes += letter.size
            self._dead.append(letter)
            return
        if self._surplus is None:
            self._surplus = Producer(dict(self._work.producer))
        self._surplus_sent.append(send_letter(self._surplus, settings.dead_letter_topic, letter))


def send_letter(producer: Producer, topic: str, letter: DeadLetter) -> Any:
    return producer.send(topic, letter.value, letter.key, timestamp=letter.timestamp_ms, headers=list(letter.headers))


def _place(rows: Any) -> str:
    """Where a record comes from, for messages."""
    origin = rows.origin if isinstance(rows, ConnectBatch) else rows
    if origin is None or not origin.num_rows:
        return ""
    row = origin.slice(0, 1).select(["topic", "partition", "offset"]).to_pylist()[0]
    return f" for the record at offset {row['offset']} of {row['topic']}-{row['partition']}"
