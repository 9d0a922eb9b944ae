"""Records that are handed to the application together: by `poll` at once, by iteration one after another.

While an iterator has not yielded them all, the rest is not the application's: positions and commits stop at the last
one that was yielded, and whatever interrupts the iteration (a seek, a pause, a poll, a rebalance) takes the rest back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint
from typing import NamedTuple, Protocol, cast

from moldau.client.consumer.decode import Record
from moldau.client.consumer.run import HandedBack
from moldau.client.model import TopicPartition

Prepare = Callable[[Record], bool]
"""Puts what deserialisers make of a record into it. False: leave it out. May raise DeserializationError."""


class Span(NamedTuple):
    """Neighbouring records of a handout that are of one partition, and where the partition stands before and after."""

    partition: TopicPartition
    version: int
    first: int  # index of its first record in the handout
    stop: int  # index after its last
    position_before: int
    epoch_before: int
    position: int
    epoch: int


class _ListIterator(Protocol):
    """What the iterator of a list can do beyond what its declared type says."""

    def __next__(self) -> Record: ...
    def __iter__(self) -> Iterator[Record]: ...
    def __setstate__(self, index: int) -> None: ...


def _iterator(records: list[Record], start: int = 0) -> _ListIterator:
    iterator = cast(_ListIterator, iter(records))
    iterator.__setstate__(start)
    return iterator


class Handout:
    """Some records, in the order in which the application gets them. Of a partition there is at most one span."""

    __slots__ = ("_iterator", "records", "spans")

    def __init__(self, records: list[Record], spans: list[Span]) -> None:
        self.records = records
        self.spans = spans
        # A list's own iterator tells how much is left and can be set: that is all the bookkeeping that iteration
        # needs, and none of it is Python code that runs for each record.
        self._iterator = _iterator(records)

    @property
    def seen(self) -> int:
        """How many of the records the application has got."""
        return len(self.records) - length_hint(self._iterator)

    def set_seen(self, count: int) -> None:
        # An iterator that has come to its end forgets its list, and cannot be set back.
        self._iterator = _iterator(self.records, count)

    def all_at_once(self) -> list[Record]:
        """All of them are the application's now."""
        self._iterator.__setstate__(len(self.records))
        return self.records

    def one_by_one(self, prepare: Prepare | None) -> Iterator[Record]:
        """Each becomes the application's when it is yielded. Ends early when the rest is taken back."""
        return self._iterator if prepare is None else self._prepared(prepare)

    def _prepared(self, prepare: Prepare) -> Iterator[Record]:
        for record in self._iterator:
            try:
                wanted = prepare(record)
            except BaseException:
                self.set_seen(self._index_of(record))  # this one was not
                raise
            if wanted:
                yield record

    def _index_of(self, record: Record) -> int:
        return next(index for index, one in enumerate(self.records) if one is record)

    def unseen(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Where the partition stands for an application that has seen this much of it; None where that is all of it."""
        seen = self.seen
        for span in self.spans:
            if span.partition == partition:
                return None if seen >= span.stop else self._standing(span, seen)
        return None

    def _standing(self, span: Span, seen: int) -> tuple[int, int]:
        if seen <= span.first:
            return span.position_before, span.epoch_before
        last = self.records[seen - 1]
        return last.offset + 1, last.leader_epoch

    def take_back(self) -> list[HandedBack]:
        """End the iteration; what was not seen, partition by partition, in its order."""
        seen = self.seen
        rest = []
        for span in self.spans:
            if seen < span.stop:
                position, epoch = self._standing(span, seen)
                records = self.records[max(seen, span.first) : span.stop]
                back = HandedBack(span.partition, span.version, position, epoch, records, span.position, span.epoch)
                rest.append(back)
        self._iterator.__setstate__(len(self.records))
        self.records = self.records[:seen]
        self.spans = []
        return rest
