"""Whose records a cleaner meets: of transactions that committed, that were aborted, or of none. Pure.

Batches are shown in the order of the log. The rules are Kafka's:
- the records of an aborted transaction can go at once;
- the marker of either end stays as long as one batch of its transaction was met: whoever reads the batches must find
  how they ended. When none is left the marker has nothing to say, and goes as a deleted key goes: after
  `delete.retention.ms`, so that a reader who is in the middle of the log meets it still.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.log.aborted import AbortedTxn
from moldau.records import BatchHeader, ControlType, parse_marker


class Transactions:
    """What is known of the transactions while the log is read from one offset on."""

    __slots__ = ("_aborted", "_committing", "_next", "_open", "kept")

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._aborted = sorted(set(aborted), key=lambda one: one.first_offset)
        self._next = 0
        self._open: dict[int, tuple[AbortedTxn, bool]] = {}
        """Of each producer the aborted transaction that we are in, and whether a batch of it was met."""
        self._committing: set[int] = set()
        """Producers that we met a batch of, in a transaction that was not aborted."""
        self.kept: list[AbortedTxn] = []
        """Aborted transactions of which batches were met, when their marker is reached: the index of aborted
        transactions must go on listing them. Whoever writes the index takes them out."""

    def meets_aborted(self, header: BatchHeader) -> bool:
        """Shows a batch of data; True where its transaction was aborted."""
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

    def ends_nothing(self, header: BatchHeader, batch: memoryview) -> bool:
        """Shows a control batch; True where nothing of the transaction that it ends was met."""
        self._reach(header.last_offset)
        if header.count == 0:
            return True  # emptied by an earlier cleaning
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
        return False  # not the end of a transaction: not ours to judge

    def _reach(self, offset: int) -> None:
        """Enters the aborted transactions that begin at or before `offset`."""
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            one = self._aborted[self._next]
            before = self._open.get(one.producer_id)
            if before is None or before[0].last_offset < one.first_offset:
                self._open[one.producer_id] = (one, False)
            self._next += 1
