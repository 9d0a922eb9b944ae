"""Read task in an executor: reads ranges of offsets and returns Arrow batches for Spark."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from moldau.client.consumer.fetched_partition import FetchedPartition
from moldau.records.arrow import ArrowRows
from moldau.spark import data_loss
from moldau.spark.fetching import Gone, WorkerClient, client_for
from moldau.spark.lookup import consumer_settings
from moldau.spark.options import SourceOptions
from moldau.spark.planning import OffsetRange
from moldau.spark.rows import RowMaker

MAX_ROWS = 64 * 1024
"""The largest number of rows per Arrow batch: the fixed cost per batch does not matter, and the memory stays small."""

FETCH_DEFAULTS = {
    # A task reads one partition at a time, and usually more than one response can hold. So larger responses mean fewer
    # requests.
    "max.partition.fetch.bytes": 4 * 1024 * 1024,
    # A request for a deleted topic must not create a new topic with that name.
    "allow.auto.create.topics": False,
}
"""Defaults of a task's client that differ from other consumers. The options can override them."""


def read_ranges(options: SourceOptions, ranges: Sequence[OffsetRange], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Read all records of these ranges, one range after the other."""
    if not ranges:
        return
    client = client_for({**FETCH_DEFAULTS, **consumer_settings(options)})
    maker = RowMaker(schema)
    for one in ranges:
        yield from _read_range(client, options, one, maker)


def _read_range(
    client: WorkerClient, options: SourceOptions, one: OffsetRange, maker: RowMaker
) -> Iterator[pa.RecordBatch]:
    """Read from `one.start` up to `one.until`. The next fetch runs while Spark processes a batch."""
    timeout_s = options.poll_timeout_ms / 1000
    position = one.start
    pending = client.fetch(one, position, timeout_s)
    try:
        while position < one.until:
            try:
                answer = pending.result()
            except Gone as gone:
                data_loss.report([gone.loss], fail=options.fail_on_data_loss)
                return
            if answer.lost is not None:
                data_loss.report([answer.lost], fail=options.fail_on_data_loss)
            position = answer.end
            if position < one.until:
                pending = client.fetch(one, position, timeout_s)
            if answer.run is not None:
                yield from _rows(answer.run, one, maker)
    finally:
        pending.cancel()


def _rows(run: FetchedPartition, one: OffsetRange, maker: RowMaker) -> Iterator[pa.RecordBatch]:
    rows = ArrowRows(headers=maker.headers)
    while not run.done and run.position < one.until:
        run.take_rows(rows, MAX_ROWS)
        batch = _before(rows.finish(), one.until)
        if batch.num_rows:
            yield maker.make(batch, one.topic, one.partition)


def _before(batch: pa.RecordBatch, until: int) -> pa.RecordBatch:
    """The batch without rows from `until` on: a range may end inside a stored record batch."""
    offsets: Any = batch.column("offset")
    if not batch.num_rows or offsets[-1].as_py() < until:
        return batch
    return batch.slice(0, bisect_left(offsets, until, key=lambda offset: offset.as_py()))
