"""Poll results: the records of one poll, returned at once or yielded one by one, or the rows of a table.

Records that an iterator has not yielded do not count as read. Positions and commits stop at the last record that was
yielded. A call that interrupts the iteration (a seek, a pause, a poll, a rebalance) takes the other records back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from moldau.client.consumer.decode import Record
from moldau.client.consumer.fetched_partition import HandedBack
from moldau.client.consumer.subscription import AssignedPartition
from moldau.client.data_types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Prepare = Callable[[Record], bool]
"""Deserialises a record in place. Returns False to skip it. May raise DeserializationError."""


class Span(NamedTuple):
    """Consecutive records of one partition, and the partition's position before and after them."""

    partition: TopicPartition
    state: AssignedPartition
    version: int  # of the state when the records were taken from the buffer
    topic_id: bytes | None  # likewise
    first: int  # index of the first record in `PollResults.records`
    stop: int  # index after the last record
    position_before: int
    epoch_before: int
    position: int
    epoch: int


class _ListIterator(Protocol):
    """The iterator of a list, with `__setstate__`, which its declared type lacks."""

    def __next__(self) -> Record: ...
    def __iter__(self) -> Iterator[Record]: ...
    def __setstate__(self, index: int) -> None: ...


class PollResults:
    """Records in the order in which the application gets them, with at most one span per partition.

    Iteration must cost almost nothing per record, so it runs no Python code. The only bookkeeping is the length hint of
    the list iterators: it says how many records are left. Many records are split into pieces; `end_early` ends the
    iteration after the piece that is being read.
    """

    __slots__ = ("_at_once", "_iterators", "_queue", "records", "spans")

    def __init__(self, records: list[Record], spans: list[Span], piece: int = 0) -> None:
        self.records = records
        self.spans = spans
        pieces = [records] if not 0 < piece < len(records) else _pieces(records, piece)
        self._iterators = [cast(_ListIterator, iter(one)) for one in pieces]
        self._queue: deque[_ListIterator | None] = deque((*self._iterators, None))
        self._at_once = False

    @property
    def seen(self) -> int:
        """The number of records that the application has got."""
        return len(self.records) - sum(map(length_hint, self._iterators))

    def set_seen(self, count: int) -> None:
        """Count exactly `count` records as seen, and end the iteration."""
        self.end_early()
        # An exhausted list iterator drops its list and cannot be set back, so this needs a new one.
        left = cast(_ListIterator, iter(self.records))
        left.__setstate__(count)
        self._iterators = [left]

    def all_at_once(self) -> list[Record]:
        """Return all records, and count all of them as seen."""
        self.set_seen(len(self.records))
        self._at_once = True
        return self.records

    def mark_unread(self) -> None:
        """Count the records of the poll, or the record yielded last, as not seen: the application failed on them."""
        self.set_seen(0 if self._at_once else max(self.seen - 1, 0))

    def one_by_one(self, prepare: Prepare | None) -> Iterator[Record]:
        """Iterate over the records; each counts as seen when it is yielded. `end_early` and `take_back` end it."""
        records = chain.from_iterable(cast("Iterator[_ListIterator]", iter(self._queue.popleft, None)))
        return records if prepare is None else self._prepared(records, prepare)

    def _prepared(self, records: Iterator[Record], prepare: Prepare) -> Iterator[Record]:
        for record in records:
            try:
                wanted = prepare(record)
            except BaseException:
                self.set_seen(self.seen - 1)  # without this record
                raise
            if wanted:
                yield record

    def end_early(self) -> None:
        """End the iteration after the piece that is being read. Atomic: the loop calls it while a thread iterates."""
        self._queue.appendleft(None)

    def unseen(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return offset and epoch of the partition after the last record seen, or None if all of them were seen."""
        seen = self.seen
        for span in self.spans:
            if span.partition == partition:
                return None if seen >= span.stop else self._position_after(span, seen)
        return None

    def _position_after(self, span: Span, seen: int) -> tuple[int, int]:
        if seen <= span.first:
            return span.position_before, span.epoch_before
        last = self.records[seen - 1]
        return last.offset + 1, last.leader_epoch

    def take_back(self) -> list[tuple[Span, HandedBack]]:
        """End the iteration, and return the records that were not seen, per partition, in order.

        The thread that iterates is waiting for this call, or makes it. So no record is yielded meanwhile.
        """
        seen = self.seen
        rest = []
        for span in self.spans:
            if seen < span.stop:
                position, epoch = self._position_after(span, seen)
                records = self.records[max(seen, span.first) : span.stop]
                back = HandedBack(span.partition, span.version, position, epoch, records, span.position, span.epoch)
                rest.append((span, back))
        for iterator in self._iterators:
            iterator.__setstate__(len(self.records))
        self.end_early()
        return rest


class RowSpan(NamedTuple):
    """One partition in a table of rows, and its position before them."""

    partition: TopicPartition
    state: AssignedPartition
    version: int  # of the state when the rows were taken from the buffer
    topic_id: bytes | None  # likewise
    position_before: int
    epoch_before: int


class RowResults:
    """The rows of one poll, as a table. They count as read when the application's thread calls `mark_read`.

    The rows are taken on the loop thread. A KeyboardInterrupt may come before the application's thread gets them; if
    they counted as read already, they would be committed and never seen.
    """

    __slots__ = ("_read", "_table", "count", "spans")

    def __init__(self, table: pa.RecordBatch, count: int, spans: list[RowSpan]) -> None:
        self._table = table
        self._read = False
        self.count = count
        self.spans = spans

    @property
    def table(self) -> pa.RecordBatch:
        """The rows. Reading them here does not count."""
        return self._table

    def mark_read(self, rows: int | None = None) -> pa.RecordBatch:
        """Return the table, and count its rows as read, or only its first `rows`."""
        self._read = rows is None or rows >= self._table.num_rows
        if rows and not self._read:
            left = self._table.slice(rows)
            self.spans = [one for one in (_left_of(span, left) for span in self.spans) if one is not None]
            self.count = left.num_rows
        return self._table

    def unseen(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Return offset and epoch of the partition before the rows, or None if they were read."""
        return next(
            ((one.position_before, one.epoch_before) for one in self.unread_spans() if one.partition == partition), None
        )

    def unread_spans(self) -> list[RowSpan]:
        return [] if self._read else self.spans


def _left_of(span: RowSpan, left: pa.RecordBatch) -> RowSpan | None:
    """The span of the rows that are left, None if there is no row of its partition among them."""
    import pyarrow.compute as pc

    is_topic = pc.equal(left.column("topic").cast("string"), span.partition.topic)
    mine = pc.and_(is_topic, pc.equal(left.column("partition"), span.partition.partition))
    offset = pc.min(left.column("offset").filter(mine)).as_py()
    # Rows have no epochs. That of the last row of the span is not older than that of the row before `offset`, and a
    # broker finds no divergence with it, because the log goes beyond `offset` in that epoch.
    return None if offset is None else span._replace(position_before=offset, epoch_before=span.state.epoch)


def _pieces(records: list[Record], size: int) -> list[list[Record]]:
    return [records[at : at + size] for at in range(0, len(records), size)]
