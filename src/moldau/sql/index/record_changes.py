"""Changes of an index: the last record of each key in a run of Arrow batches, up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.sql.index.index_store import IndexChanges, RowId, StoredRow
from moldau.sql.index.table_keys import TableKeys

if TYPE_CHECKING:
    import pyarrow as pa

MAX_KEYS: Final = 250_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""Of keys and values. Far behind the end, large transactions in the order of keys are several times faster."""


class RecordChanges:
    """Collects records. A later record of the same key and partition replaces an earlier one."""

    def __init__(self, keys: TableKeys) -> None:
        self._keys = keys
        self._latest: dict[RowId, StoredRow | None] = {}
        self.positions: dict[int, int] = {}
        """The next offset of each partition, after these records."""
        self._bytes = 0

    @property
    def empty(self) -> bool:
        return not self.positions

    @property
    def full(self) -> bool:
        return len(self._latest) >= MAX_KEYS or self._bytes >= MAX_BYTES

    def add(self, batch: pa.RecordBatch) -> None:
        """Add records in the order of their offsets. A record without a key is in no table, and is left out."""
        if not batch.num_rows:
            return
        self._bytes += batch.column("key").nbytes + batch.column("value").nbytes
        partitions = batch.column("partition").to_pylist()
        offsets = batch.column("offset").to_pylist()
        keys = batch.column("key").to_pylist()
        values = batch.column("value").to_pylist()
        timestamps = batch.column("timestamp").cast("int64").to_pylist()
        latest = self._latest
        # The common form has a loop of its own, without a call per record.
        if self._keys.are_bytes:
            for key, partition, value, offset, timestamp in zip(
                keys, partitions, values, offsets, timestamps, strict=True
            ):
                if key is not None:
                    row = None if value is None else (key, b"", partition, value, offset, timestamp)
                    latest[key, b"", partition] = row
        else:
            for key, partition, value, offset, timestamp in zip(
                keys, partitions, values, offsets, timestamps, strict=True
            ):
                if key is not None:
                    lookup = self._keys.lookup(key)
                    row = None if value is None else (lookup, key, partition, value, offset, timestamp)
                    latest[lookup, key, partition] = row
        # Records of a partition are in order, so the last pair of each partition has its largest offset.
        self.positions.update(dict(zip(partitions, (offset + 1 for offset in offsets), strict=True)))

    def take(self) -> IndexChanges:
        """Return the changes in the order of keys, and forget them."""
        latest, self._latest = self._latest, {}
        positions, self.positions = self.positions, {}
        self._bytes = 0
        puts = sorted(row for row in latest.values() if row is not None)
        removals = sorted(one for one, row in latest.items() if row is None)
        return IndexChanges(puts, removals, positions)
