"""Transactions seen by the cleaner: which batches are aborted, and which markers are no longer needed. Pure.

The caller passes all transactional batches in log order. The rules are Kafka's:
- The records of an aborted transaction can be removed at once.
- A commit or abort marker stays while at least one batch of its transaction is left, because readers of the batches
  need the outcome. After that the marker is removed like a tombstone: after `delete.retention.ms`, so that a consumer
  in the middle of the log still reads it.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.log.aborted import AbortedTxn
from moldau.records import BatchHeader, ControlType, parse_marker


class TransactionFilter:
    """The transactions known while the log is read forward from an offset."""

    __slots__ = ("_aborted", "_committing", "_next", "_open", "kept")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._aborted = sorted(set(aborted), key=lambda one: one.first_offset)
        self._next = 0
        self._open: dict[int, tuple[AbortedTxn, bool]] = {}
        """Per producer: the current aborted transaction, and whether one of its batches was seen."""
        self._committing: set[int] = set()
        """Producers of which a batch was seen, in a transaction that is not known as aborted."""
        self.kept: list[AbortedTxn] = []
        """Aborted transactions with batches left, added when their marker is reached: the cleaned segment's `.txnindex`
        must list them. The caller that writes the index empties the list."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Process a data batch; True if its transaction was aborted."""
        if not header.is_transactional:
            return False
        self._reach(header.last_offset)
        producer = header.producer_id
        found = self._open.get(producer)
        if found is not None and header.base_offset <= found[0].last_offset:
            self._open[producer] = (found[0], True)
            return True
        self._committing.add(producer)
        return False

    def marker_is_obsolete(self, header: BatchHeader, batch: memoryview) -> bool:
        """Process a control batch; True if no batch of the transaction that it ends was seen."""
        self._reach(header.last_offset)
        if header.count == 0:
            return True  # an earlier cleaning removed its record
        kind = parse_marker(batch).type
        if kind is ControlType.ABORT:
            found = self._open.pop(header.producer_id, None)
            if found is None or not found[1]:
                return True
            self.kept.append(found[0])
            return False
        if kind is ControlType.COMMIT:
            met = header.producer_id in self._committing
            self._committing.discard(header.producer_id)
            return not met
        return False  # not a transaction marker: keep it

    def _reach(self, offset: int) -> None:
        """Open the aborted transactions that start at or before `offset`."""
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            one = self._aborted[self._next]
            before = self._open.get(one.producer_id)
            if before is None or before[0].last_offset < one.first_offset:
                self._open[one.producer_id] = (one, False)
            self._next += 1
