"""Streaming reads: what the next micro-batch is, and what of the last ones is still there."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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

from moldau.client.errors import MoldauError, UnknownTopicOrPartition
from moldau.client.model import TopicPartition
from moldau.host.clock import Clock, SystemClock
from moldau.spark import losses, options, planning, rows
from moldau.spark.lookup import Lookup, ids_of, partitions_of
from moldau.spark.losses import Loss, TopicShape
from moldau.spark.offsets import StreamOffset, by_topic
from moldau.spark.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

MAX_LOOKS = 3
"""How often a look at the topics is begun again because one of them vanished in the middle of it."""


def stream_reader(given: Mapping[str, str], schema: StructType) -> StreamReader:
    rows.check_schema(schema)
    return StreamReader(options.parse(given, streaming=True), schema)


@dataclass(frozen=True)
class Sight:
    """Topics, and where their partitions end: one look at the brokers."""

    topics: Mapping[str, TopicShape]
    latest: Mapping[TopicPartition, int]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives beside the driver as long as the query runs; copies of it read in the executors."""

    def __init__(self, parsed: SourceOptions, schema: StructType, clock: Clock | None = None) -> None:
        self._options = parsed
        self._schema = schema
        self._clock = clock or SystemClock()
        self._lookup = Lookup(parsed)
        self._goal: Sight | None = None
        """With Trigger.AvailableNow: what was there when the query started."""
        self._seen: Sight | None = None
        self._last_batch_ms: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema}  # all that a copy in an executor needs

    # Where a batch begins and ends ------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        topics = self._lookup.existing_topics()
        starting = self._lookup.resolve(self._options.starting, topics)
        losses.report(starting.losses, fail=self._options.fail_on_data_loss)
        return StreamOffset(starting.offsets, ids_of(topics), initial=True).as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._goal = self._look()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark can be told one limit and we may have two: it hears the smaller one, and `latestOffset` obeys both."""
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch ends; `start` itself where there is nothing to do."""
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
                continue  # deleted in between
        topics = self._lookup.topics()
        return Sight(topics, self._lookup.latest(partitions_of(topics)))

    def _begin(self, since: StreamOffset, sight: Sight) -> dict[TopicPartition, int]:
        """Where each partition that is there now is to be read from: where the query stands, or its beginning."""
        begin, lost = losses.still_valid(since, sight.topics)
        new = [partition for partition in sight.latest if partition not in begin]
        earliest = self._lookup.earliest(new)
        shorter = self._cut_short(begin, sight)
        losses.report([*lost, *shorter, *losses.begun_late(earliest)], fail=self._options.fail_on_data_loss)
        for loss in shorter:
            begin[loss.partition] = sight.latest[loss.partition]
        return begin | earliest

    def _cut_short(self, begin: Mapping[TopicPartition, int], sight: Sight) -> list[Loss]:
        """A query that begins to read committed records only may be beyond a transaction that is open: no loss."""
        shorter = losses.cut_short(begin, sight.latest)
        if not shorter or not self._options.read_committed:
            return shorter
        doubted = {loss.partition: begin[loss.partition] for loss in shorter}
        return losses.cut_short(doubted, self._lookup.written(doubted))

    def _limited(
        self, begin: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], limit: ReadLimit
    ) -> Mapping[TopicPartition, int] | None:
        """As much as the limit allows; None where it is worth waiting for more."""
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
        """What `lag` compares with: the ends that the last look saw."""
        return None if self._seen is None else by_topic(self._seen.latest)

    # What is in a batch -----------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        until = StreamOffset.from_json(end)
        if start == end or until.initial:
            return []  # nothing had come when this batch was made
        ranges = self._ranges(StreamOffset.from_json(start), until)
        fail = self._options.fail_on_data_loss
        topics = self._lookup.topics()
        gone = losses.gone_topics(ranges, topics)
        losses.report(gone, fail=fail)
        vanished = {loss.partition for loss in gone}
        ranges = [one for one in ranges if one.topic_partition not in vanished]
        left, lost = losses.overtaken(ranges, self._lookup.earliest(one.topic_partition for one in ranges))
        losses.report(lost, fail=fail)
        cut = planning.split(left, self._options.min_partitions, self._options.max_records_per_partition)
        return [InputPartition(task) for task in planning.grouped(cut, self._options.max_partitions)]

    def _ranges(self, since: StreamOffset, until: StreamOffset) -> list[planning.OffsetRange]:
        """From where the query stood, or from offset 0 in a partition or a topic that is new.

        If such a partition begins later than that, this is found out, and reported, right after.
        """
        if until.began is not None:
            begin = dict(until.began)
        else:
            replaced = {topic for topic, known in since.ids.items() if until.ids.get(topic, known) != known}
            begin = {partition: at for partition, at in since.offsets.items() if partition.topic not in replaced}
        from_zero = {partition: begin.get(partition, 0) for partition in until.offsets}
        return planning.ranges(from_zero, until.offsets, until.ids)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from moldau.spark.reading import read_ranges

        return read_ranges(self._options, partition.value, self._schema)

    # What Spark is done with ------------------------------------------------------------------------------------------

    def commit(self, end: dict[str, Any]) -> None:
        group = self._options.commit_group_id
        if group is None:
            return
        try:
            self._lookup.commit(group, StreamOffset.from_json(end).offsets)
        except MoldauError as error:
            # The query's own truth is its checkpoint: a group that only shows it is not worth a failure.
            logger.warning("group %s was not told how far the query has come: %s", group, error)

    def stop(self) -> None:
        self._lookup.close()
