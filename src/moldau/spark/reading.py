"""What a task does: the records of one range of offsets, as Arrow batches that Spark takes; in the executor."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from moldau.client.consumer.run import Run
from moldau.records.arrow import ArrowRows
from moldau.spark import losses
from moldau.spark.fetching import Client, Gone, client_for
from moldau.spark.lookup import consumer_settings
from moldau.spark.options import SourceOptions
from moldau.spark.planning import OffsetRange
from moldau.spark.rows import RowMaker

MAX_ROWS = 64 * 1024
"""Of one Arrow batch: large enough that what a batch costs is nothing for a row, small enough for memory."""

FETCH_DEFAULTS = {
    # A task has one partition at a time, and more of it is there than one answer holds: larger answers are fewer.
    "max.partition.fetch.bytes": 4 * 1024 * 1024,
    # Asking for a topic that was deleted must not bring one of its name to life.
    "allow.auto.create.topics": False,
}
"""Where a task's client differs from other consumers, unless the options say otherwise."""


def read_ranges(options: SourceOptions, ranges: Sequence[OffsetRange], schema: StructType) -> Iterator[pa.RecordBatch]:
    """All records of these ranges, one range after the other."""
    if not ranges:
        return
    client = client_for({**FETCH_DEFAULTS, **consumer_settings(options)})
    maker = RowMaker(schema)
    for one in ranges:
        yield from _read_range(client, options, one, maker)


def _read_range(client: Client, options: SourceOptions, one: OffsetRange, maker: RowMaker) -> Iterator[pa.RecordBatch]:
    """From `one.start` up to `one.until`; the next answer is on its way while one is handed over."""
    timeout_s = options.poll_timeout_ms / 1000
    position = one.start
    pending = client.fetch(one, position, timeout_s)
    try:
        while position < one.until:
            try:
                answer = pending.result()
            except Gone as gone:
                losses.report([gone.loss], fail=options.fail_on_data_loss)
                return
            if answer.lost is not None:
                losses.report([answer.lost], fail=options.fail_on_data_loss)
            position = answer.end
            if position < one.until:
                pending = client.fetch(one, position, timeout_s)
            if answer.run is not None:
                yield from _rows(answer.run, one, maker)
    finally:
        pending.cancel()


def _rows(run: Run, one: OffsetRange, maker: RowMaker) -> Iterator[pa.RecordBatch]:
    rows = ArrowRows(headers=maker.headers)
    while not run.done and run.position < one.until:
        run.take_rows(rows, MAX_ROWS)
        batch = _before(rows.finish(), one.until)
        if batch.num_rows:
            yield maker.make(batch, one.topic, one.partition)


def _before(batch: pa.RecordBatch, until: int) -> pa.RecordBatch:
    """Without rows from `until` on: a range may end inside of what the broker keeps together."""
    offsets: Any = batch.column("offset")
    if not batch.num_rows or offsets[-1].as_py() < until:
        return batch
    return batch.slice(0, bisect_left(offsets, until, key=lambda offset: offset.as_py()))
