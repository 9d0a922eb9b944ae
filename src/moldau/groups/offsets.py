"""Offsets of one group: the committed ones, and the pending ones of open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from moldau.groups.stored_records import CommittedOffset, parse_offset, parse_tail


class PendingOffset(NamedTuple):
    """An offset of an open transaction."""

    order: int
    """Its position in the order of all pending offsets of the group."""
    value: bytes | None


class GroupOffsets:
    """Stored values by the tail of their key. Changed only by replay."""

    __slots__ = ("_order", "committed", "pending")

    def __init__(self) -> None:
        self.committed: dict[bytes, bytes] = {}
        self.pending: dict[int, dict[bytes, PendingOffset]] = {}
        """The offsets of open transactions, by producer id."""
        self._order = 0

    def __bool__(self) -> bool:
        return bool(self.committed or self.pending)

    def get(self, tail: bytes) -> CommittedOffset | None:
        value = self.committed.get(tail)
        return None if value is None else parse_offset(value)

    def is_pending(self, tail: bytes) -> bool:
        """Whether an open transaction has an offset for this partition."""
        return any(tail in tails for tails in self.pending.values())

    def tails_of_topics(self, topics: frozenset[str]) -> Iterator[bytes]:
        return (tail for tail in self.committed if parse_tail(tail)[0] in topics)

    def store(self, tail: bytes, value: bytes | None) -> None:
        """Replay an offset or its deletion. Pending offsets of the partition are older and are dropped."""
        if value is None:
            self.committed.pop(tail, None)
        else:
            self.committed[tail] = value
        if self.pending:
            self._drop_older(tail, self._order + 1)

    def store_pending(self, producer_id: int, tail: bytes, value: bytes | None) -> None:
        self._order += 1
        self.pending.setdefault(producer_id, {})[tail] = PendingOffset(self._order, value)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Replay a marker: commit the pending offsets of the producer, or drop them.

        The order of the offset records decides, not that of the markers: a transaction that ends late must not
        overwrite offsets that were stored after its own.
        """
        ended = self.pending.pop(producer_id, {})
        if not committed:
            return
        for tail, (order, value) in ended.items():
            if value is None:
                self.committed.pop(tail, None)
            else:
                self.committed[tail] = value
            self._drop_older(tail, order)

    def _drop_older(self, tail: bytes, before: int) -> None:
        for producer_id in list(self.pending):
            tails = self.pending[producer_id]
            if tail in tails and tails[tail].order < before:
                del tails[tail]
                if not tails:
                    del self.pending[producer_id]
