"""Batch reads: all records between two bounds, which are resolved when the query is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from moldau.client.data_types import TopicPartition
from moldau.spark import data_loss, options, planning, rows
from moldau.spark.lookup import Lookup, ids_of
from moldau.spark.options import SourceOptions
from moldau.spark.plain_errors import plain_errors
from moldau.spark.planning import OffsetRange
from moldau.spark.pushdown import Narrowing, narrowing

if TYPE_CHECKING:
    import pyarrow as pa


def batch_reader(given: Mapping[str, str], schema: StructType) -> BatchReader:
    """Create a reader of one of three classes: Spark refuses readers with `pushFilters` unless it is configured to push
    filters."""
    rows.check_schema(schema)
    if options.refresh(given):
        return RefreshingBatchReader(options.parse(given, streaming=False), schema)
    kind = FilteringBatchReader if options.push_filters(given) else BatchReader
    return kind(options.parse(given, streaming=False), schema)


class BatchReader(DataSourceReader):
    """Plans in the driver; then Spark copies it to the executors, where it reads."""

    def __init__(self, parsed: SourceOptions, schema: StructType) -> None:
        self._options = parsed
        self._schema = schema
        self._narrowing = Narrowing()

    @plain_errors
    def partitions(self) -> list[InputPartition]:
        lookup = Lookup(self._options)
        try:
            found = self._planned(lookup)
        finally:
            lookup.close()
        cut = planning.split(found, self._options.min_partitions, self._options.max_records_per_partition)
        return [InputPartition(task) for task in planning.grouped(cut, self._options.max_partitions)]

    def _planned(self, lookup: Lookup) -> list[OffsetRange]:
        topics = lookup.existing_topics()
        starting = lookup.resolve(self._options.starting, topics)
        ending = lookup.resolve(self._options.ending, topics)
        data_loss.report([*starting.losses, *ending.losses], fail=self._options.fail_on_data_loss)
        whole = planning.ranges(starting.offsets, ending.offsets, ids_of(topics))
        return self._since(lookup, self._narrowing.apply(whole))

    def _since(self, lookup: Lookup, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """The ranges without the records before the time that the filters require."""
        since_ms = self._narrowing.since_ms
        if since_ms is None or not ranges:
            return ranges
        first: Mapping[TopicPartition, int | None] = lookup.at_times({one.topic_partition: since_ms for one in ranges})
        later = [
            one.between(max(one.start, start), one.until)
            for one in ranges
            if (start := first[one.topic_partition]) is not None
        ]
        return [one for one in later if one.size > 0]

    @plain_errors
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from moldau.spark.reading import read_ranges

        # Spark creates a partition without ranges if there is nothing to read.
        return read_ranges(self._options, partition.value or (), self._schema)


class FilteringBatchReader(BatchReader):
    """The reader for the option `pushFilters`: reads less where filters allow it. Spark still checks every row."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
        self._narrowing = narrowing(filters)
        return iter(filters)


class RefreshingBatchReader(BatchReader):
    """The reader for the option `refresh`: the bounds are resolved by each task when it reads.

    Spark plans a Python source once per `load()`, so a frame that runs again, such as the static side of a streaming
    join, would read the offsets of its first run for ever.
    """

    @plain_errors
    def partitions(self) -> list[InputPartition]:
        lookup = Lookup(self._options)
        try:
            found = lookup.resolve(self._options.ending, lookup.existing_topics())
        finally:
            lookup.close()
        return [InputPartition(place) for place in sorted(found.offsets)]

    @plain_errors
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from moldau.spark.reading import read_ranges

        lookup = Lookup(self._options)
        try:
            found = [one for one in self._planned(lookup) if one.topic_partition == partition.value]
        finally:
            lookup.close()
        return read_ranges(self._options, found, self._schema)
