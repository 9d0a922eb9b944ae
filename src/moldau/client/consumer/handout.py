"""Records that are handed to the application together: by `poll` at once, by iteration one after another.

While an iterator has not yielded them all, the rest is not the application's: positions and commits stop at the last
one that was yielded, and whatever interrupts the iteration (a seek, a pause, a poll, a rebalance) takes the rest back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from operator import length_hint
from typing import NamedTuple, Protocol, cast

from moldau.client.consumer.decode import Record
from moldau.client.consumer.run import HandedBack
from moldau.client.consumer.subscription import PartitionState
from moldau.client.model import TopicPartition

Prepare = Callable[[Record], bool]
"""Puts what deserialisers make of a record into it. False: leave it out. May raise DeserializationError."""


class Span(NamedTuple):
    """Neighbouring records of a handout that are of one partition, and where the partition stands before and after."""

    partition: TopicPartition
    state: PartitionState
    version: int  # and the topic, of the state when they were handed out
    topic_id: bytes | None
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


class Handout:
    """Some records, in the order in which the application gets them. Of a partition there is at most one span.

    Iteration must cost next to nothing a record, so nothing of it is Python code: a list's own iterator tells how much
    of it is left, which is all the bookkeeping there is. A large handout is cut into pieces; `recall` ends it with the
    piece that is being read.
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
        """How many of the records the application has got."""
        return len(self.records) - sum(map(length_hint, self._iterators))

    def set_seen(self, count: int) -> None:
        """So many, and iteration ends here."""
        self.recall()
        # An iterator that has come to its end forgets its list and cannot be set back: so a new one.
        left = cast(_ListIterator, iter(self.records))
        left.__setstate__(count)
        self._iterators = [left]

    def all_at_once(self) -> list[Record]:
        """All of them are the application's now."""
        self.set_seen(len(self.records))
        self._at_once = True
        return self.records

    def disown(self) -> None:
        """The application failed in the middle of what it got last: all of it, or the one record, is not done."""
        self.set_seen(0 if self._at_once else max(self.seen - 1, 0))

    def one_by_one(self, prepare: Prepare | None) -> Iterator[Record]:
        """Each becomes the application's when it is yielded. Ends early when the rest is recalled or taken back."""
        records = chain.from_iterable(cast("Iterator[_ListIterator]", iter(self._queue.popleft, None)))
        return records if prepare is None else self._prepared(records, prepare)

    def _prepared(self, records: Iterator[Record], prepare: Prepare) -> Iterator[Record]:
        for record in records:
            try:
                wanted = prepare(record)
            except BaseException:
                self.set_seen(self.seen - 1)  # not this one
                raise
            if wanted:
                yield record

    def recall(self) -> None:
        """Let the iteration end with the piece that is being read. One step, so that it may be taken in any thread."""
        self._queue.appendleft(None)

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

    def take_back(self) -> list[tuple[Span, HandedBack]]:
        """End the iteration; what was not seen, partition by partition, in its order.

        Whoever iterates waits for this, or is this very thread: nobody takes a record meanwhile.
        """
        seen = self.seen
        rest = []
        for span in self.spans:
            if seen < span.stop:
                position, epoch = self._standing(span, seen)
                records = self.records[max(seen, span.first) : span.stop]
                back = HandedBack(span.partition, span.version, position, epoch, records, span.position, span.epoch)
                rest.append((span, back))
        for iterator in self._iterators:
            iterator.__setstate__(len(self.records))
        self.recall()
        return rest


def _pieces(records: list[Record], size: int) -> list[list[Record]]:
    return [records[at : at + size] for at in range(0, len(records), size)]
