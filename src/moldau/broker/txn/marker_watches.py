"""Marker watches: notice a transaction marker that is written while the coordinator verifies a partition.

The interleaving that they are for:

1. The coordinator confirms that the partition is part of the transaction.
2. The transaction ends, and its marker is written to the partition.
3. The broker receives the confirmation and appends the batch.

A batch after the marker would open a transaction that the coordinator does not know and never ends. Readers with
isolation level read_committed would wait at it for ever. So the batch is refused if a marker was written in between.
"""

from __future__ import annotations


class MarkerWatch:
    """Whether a marker of one producer was written to one partition since the watch began."""

    __slots__ = ("marker_written", "users")

    def __init__(self) -> None:
        self.marker_written = False
        self.users = 0


class MarkerWatches:
    """The watches of this broker, one for each producer and partition that is being verified."""

    def __init__(self) -> None:
        self._watches: dict[tuple[str, int, int], MarkerWatch] = {}

    def begin(self, topic: str, index: int, producer_id: int) -> MarkerWatch:
        """Begin to watch. The caller must call `end`."""
        watch = self._watches.setdefault((topic, index, producer_id), MarkerWatch())
        watch.users += 1
        return watch

    def end(self, topic: str, index: int, producer_id: int, watch: MarkerWatch) -> None:
        watch.users -= 1
        if not watch.users and self._watches.get((topic, index, producer_id)) is watch:
            del self._watches[topic, index, producer_id]

    def marker_written(self, topic: str, index: int, producer_id: int) -> None:
        """A marker was written. Verifications that begin after it are about the next transaction."""
        watch = self._watches.pop((topic, index, producer_id), None)
        if watch is not None:
            watch.marker_written = True
