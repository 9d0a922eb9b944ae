"""Streaming reads: planning of micro-batches, and detection of records that were lost between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError, UnknownTopicOrPartition
from moldau.host.clock import Clock, SystemClock
from moldau.host.event_log import event_logger
from moldau.spark import data_loss, options, planning, rows
from moldau.spark.data_loss import Loss, TopicShape
from moldau.spark.lookup import Lookup, ids_of, partitions_of
from moldau.spark.offsets import StreamOffset, nested_offsets
from moldau.spark.options import SourceOptions
from moldau.spark.plain_errors import plain_errors

if TYPE_CHECKING:
    import pyarrow as pa

log = event_logger(__name__)

MAX_LOOKS = 3
"""The number of attempts to read topics and offsets, if a topic is deleted between the two requests."""


def stream_reader(given: Mapping[str, str], schema: StructType) -> StreamReader:
    rows.check_schema(schema)
    return StreamReader(options.parse(given, streaming=True), schema)


@dataclass(frozen=True)
class Sight:
    """A snapshot of topics and the ends of their partitions."""

    topics: Mapping[str, TopicShape]
    latest: Mapping[TopicPartition, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Runs in the driver as long as the query runs. Copies of it read in the executors."""

    def __init__(self, parsed: SourceOptions, schema: StructType, clock: Clock | None = None) -> None:
        self._options = parsed
        self._schema = schema
        self._clock = clock or SystemClock()
        self._lookup = Lookup(parsed)
        self._goal: Sight | None = None
        """For Trigger.AvailableNow: the snapshot at the start of the query."""
        self._seen: Sight | None = None
        self._last_batch_ms: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema}  # everything that a copy in an executor needs

    # Start and end of a batch -----------------------------------------------------------------------------------------

    @plain_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        topics = self._lookup.existing_topics()
        starting = self._lookup.resolve(self._options.starting, topics)
        data_loss.report(starting.losses, fail=self._options.fail_on_data_loss)
        return StreamOffset(starting.offsets, ids_of(topics), initial=True).as_json()

    @plain_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._goal = self._look()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The smaller of our two limits, because Spark accepts only one; `latestOffset` applies both."""
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        return ReadAllAvailable()

    @plain_errors
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch; `start` if there is nothing to do."""
        since = StreamOffset.from_json(start)
        sight = self._goal or self._look()
        self._seen = sight
        begin = self._begin(since, sight)
        latest = {partition: max(offset, begin[partition]) for partition, offset in sight.latest.items()}
        end = self._limited(begin, latest, limit)
        if end is None:
            return start
        offset = StreamOffset(end, ids_of(sight.topics), began=begin if since.initial else None)
        if offset.same_place(since):
            return start
        self._last_batch_ms = self._clock.now_ms()
        return offset.as_json()

    def _look(self) -> Sight:
        for _ in range(MAX_LOOKS - 1):
            topics = self._lookup.topics()
            try:
                return Sight(topics, self._lookup.latest(partitions_of(topics)))
            except UnknownTopicOrPartition:
                continue  # deleted between the two requests
        topics = self._lookup.topics()
        return Sight(topics, self._lookup.latest(partitions_of(topics)))

    def _begin(self, since: StreamOffset, sight: Sight) -> dict[TopicPartition, int]:
        """The start offset of each existing partition: the query's position, or the beginning of a new partition."""
        begin, lost = data_loss.still_valid(self._own_part(since), sight.topics)
        new = [partition for partition in sight.latest if partition not in begin]
        earliest = self._lookup.earliest(new)
        shorter = self._cut_short(begin, sight)
        data_loss.report([*lost, *shorter, *data_loss.begun_late(earliest)], fail=self._options.fail_on_data_loss)
        for loss in shorter:
            begin[loss.partition] = sight.latest[loss.partition]
        return begin | earliest

    def _own_part(self, offset: StreamOffset) -> StreamOffset:
        own = self._subscribed(offset.offsets)
        return replace(offset, offsets={partition: at for partition, at in offset.offsets.items() if partition in own})

    def _subscribed(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        return data_loss.subscribed(partitions, self._options.subscription, fail=self._options.fail_on_data_loss)

    def _cut_short(self, begin: Mapping[TopicPartition, int], sight: Sight) -> list[Loss]:
        """Partitions that end before the query's position, except those with an open transaction: a query that changes
        to `read_committed` may be ahead of it, and nothing is lost."""
        shorter = data_loss.cut_short(begin, sight.latest)
        if not shorter or not self._options.read_committed:
            return shorter
        doubted = {loss.partition: begin[loss.partition] for loss in shorter}
        return data_loss.cut_short(doubted, self._lookup.written(doubted))

    def _limited(
        self, begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit: ReadLimit
    ) -> Mapping[TopicPartition, int] | None:
        """As much as the limit allows; None if the query should wait for more records."""
        if isinstance(limit, ReadAllAvailable):
            return latest
        least = limit.min_rows if isinstance(limit, ReadMinRows) else None
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_offsets_per_trigger
        if least is not None and self._goal is None:
            waiting = planning.backlog(begin, latest)
            delay_ms = self._options.max_trigger_delay_ms
            if not planning.worth_a_batch(waiting, least, self._clock.now_ms(), self._last_batch_ms, delay_ms):
                return None
        return latest if most is None else planning.limited(begin, latest, most)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The ends of the last snapshot, which `lag` compares with."""
        return None if self._seen is None else nested_offsets(self._seen.latest)

    # Contents of a batch ----------------------------------------------------------------------------------------------

    @plain_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        until = StreamOffset.from_json(end)
        if start == end or until.initial:
            return []  # no new records when this batch was planned
        own = self._subscribed(until.offsets)
        ranges = [one for one in self._ranges(StreamOffset.from_json(start), until) if one.topic_partition in own]
        fail = self._options.fail_on_data_loss
        topics = self._lookup.topics()
        gone = data_loss.gone_topics(ranges, topics)
        data_loss.report(gone, fail=fail)
        vanished = {loss.partition for loss in gone}
        ranges = [one for one in ranges if one.topic_partition not in vanished]
        left, lost = data_loss.overtaken(ranges, self._lookup.earliest(one.topic_partition for one in ranges))
        data_loss.report(lost, fail=fail)
        cut = planning.split(left, self._options.min_partitions, self._options.max_records_per_partition)
        return [InputPartition(task) for task in planning.grouped(cut, self._options.max_partitions)]

    def _ranges(self, since: StreamOffset, until: StreamOffset) -> list[planning.OffsetRange]:
        """The ranges from the query's position, or from offset 0 in new partitions and topics.

        If such a partition begins at a later offset, the caller detects and reports it next.
        """
        if until.began is not None:
            begin = dict(until.began)
        else:
            replaced = {topic for topic, known in since.ids.items() if until.ids.get(topic, known) != known}
            begin = {partition: at for partition, at in since.offsets.items() if partition.topic not in replaced}
        from_zero = {partition: begin.get(partition, 0) for partition in until.offsets}
        return planning.ranges(from_zero, until.offsets, until.ids)

    @plain_errors
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from moldau.spark.reading import read_ranges

        return read_ranges(self._options, partition.value, self._schema)

    # Completed batches ------------------------------------------------------------------------------------------------

    def commit(self, end: dict[str, Any]) -> None:
        group = self._options.commit_group_id
        if group is None:
            return
        try:
            self._lookup.commit(group, StreamOffset.from_json(end).offsets)
        except MoldauError as error:
            # The checkpoint is authoritative. The group only displays the progress, so its failure must not fail the
            # query.
            log.warning(
                "progress of the query not committed to its group", extra={"group": group, "reason": str(error)}
            )

    def stop(self) -> None:
        self._lookup.close()
