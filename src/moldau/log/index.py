"""Sparse indexes of a segment: offset to file position, and timestamp to offset.

In memory each index is a pair of arrays, so that a search is one `bisect` in C. On disk they have Kafka's format:
8-byte entries of relative offset and position, 12-byte entries of timestamp and relative offset. The index of the
active segment is in memory only and is written when the segment is sealed; after a crash it is rebuilt from the log.
Indexes of older segments are loaded on demand into a cache of bounded size.

An index is only a hint: a caller that follows an entry must check the batch at that position.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from operator import lt
from sys import byteorder
from typing import Protocol

from moldau.host.threads import Lock
from moldau.log.scan import FilePosition

OFFSET_ENTRY = 8
TIME_ENTRY = 12
INDEX_CACHE_BYTES = 64 * 1024 * 1024
"""Memory limit for the indexes of older segments, for all logs of a broker together."""

NO_TIMESTAMP = -1

_SWAP = byteorder == "little"


class BadIndexError(ValueError):
    """The content of an index file is invalid."""


class SegmentIndex:
    """The entries of one segment, or of the part of it that was appended since it was opened.

    `offsets[i]` is the last offset (relative to the segment) of the batch at `positions[i]`. `timestamps[i]` is the
    largest timestamp of the segment up to the batch that ends at `time_offsets[i]`. All four arrays are strictly
    increasing.
    """

    __slots__ = ("offsets", "positions", "time_offsets", "timestamps")

    def __init__(self) -> None:
        self.offsets: array[int] = array("I")
        self.positions: array[int] = array("I")
        self.timestamps: array[int] = array("q")
        self.time_offsets: array[int] = array("I")

    @property
    def nbytes(self) -> int:
        return OFFSET_ENTRY * len(self.offsets) + TIME_ENTRY * len(self.timestamps)

    def add_time(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp is larger than that of the last entry."""
        if timestamp > (self.timestamps[-1] if self.timestamps else NO_TIMESTAMP):
            self.timestamps.append(timestamp)
            self.time_offsets.append(offset)

    def position_at_or_before(self, offset: int) -> tuple[int, FilePosition] | None:
        """The (last offset, position) of the last indexed batch that ends at or before `offset`."""
        slot = bisect_right(self.offsets, offset) - 1
        if slot < 0:
            return None
        return self.offsets[slot], FilePosition(self.positions[slot])

    def place_at_or_before(self, position: int) -> FilePosition | None:
        """The last indexed batch start at or before this position."""
        slot = bisect_right(self.positions, position) - 1
        return FilePosition(self.positions[slot]) if slot >= 0 else None

    def offset_at_or_before(self, timestamp: int) -> int:
        """An offset before which every timestamp is smaller than `timestamp`."""
        slot = bisect_right(self.timestamps, timestamp) - 1
        return self.time_offsets[slot] if slot >= 0 else 0

    def truncate(self, offset: int) -> None:
        """Drop the entries of batches that end at or after `offset`."""
        keep = bisect_right(self.offsets, offset - 1)
        del self.offsets[keep:], self.positions[keep:]
        keep = bisect_right(self.time_offsets, offset - 1)
        del self.timestamps[keep:], self.time_offsets[keep:]

    def extend(self, later: SegmentIndex) -> None:
        self.offsets.extend(later.offsets)
        self.positions.extend(later.positions)
        self.timestamps.extend(later.timestamps)
        self.time_offsets.extend(later.time_offsets)

    def encode_offsets(self) -> bytes:
        return _interleave(((self.offsets, 4), (self.positions, 4)))

    def encode_times(self) -> bytes:
        return _interleave(((self.timestamps, 8), (self.time_offsets, 4)))

    @classmethod
    def decode(cls, offsets: bytes, times: bytes) -> SegmentIndex:
        """Decode the content of the two files; BadIndexError if a size is not a multiple of the entry size."""
        if len(offsets) % OFFSET_ENTRY or len(times) % TIME_ENTRY:
            raise BadIndexError(f"{len(offsets)} and {len(times)} bytes are not whole entries")
        index = cls()
        index.offsets = _column("I", offsets, 0, 4, OFFSET_ENTRY)
        index.positions = _column("I", offsets, 4, 4, OFFSET_ENTRY)
        index.timestamps = _column("q", times, 0, 8, TIME_ENTRY)
        index.time_offsets = _column("I", times, 8, 4, TIME_ENTRY)
        return index

    def check(self, segment_size: int, last_offset: int) -> None:
        """BadIndexError if the entries are out of order or point outside a segment of this size and last offset."""
        for column in (self.offsets, self.positions, self.timestamps, self.time_offsets):
            if not _rises(column):
                raise BadIndexError("entries are out of order")
        if self.offsets and (self.positions[-1] >= segment_size or self.offsets[-1] > last_offset):
            raise BadIndexError(f"its last entry {self.offsets[-1]} → {self.positions[-1]} is outside of the segment")
        if self.timestamps and (self.time_offsets[-1] > last_offset or self.timestamps[0] < 0):
            raise BadIndexError(f"its last time entry {self.timestamps[-1]} → {self.time_offsets[-1]} is outside")


def _rises(column: array[int]) -> bool:
    return all(map(lt, column, memoryview(column)[1:]))


def _interleave(columns: tuple[tuple[array[int], int], ...]) -> bytes:
    """Columns of numbers as big-endian rows. Strided slices move the bytes at C speed."""
    width = sum(size for _, size in columns)
    rows = bytearray(width * len(columns[0][0]))
    at = 0
    for column, size in columns:
        data = _big_endian(column).tobytes()
        for i in range(size):
            rows[at + i :: width] = data[i::size]
        at += size
    return bytes(rows)


def _column(typecode: str, rows: bytes, at: int, size: int, width: int) -> array[int]:
    data = bytearray(len(rows) // width * size)
    for i in range(size):
        data[i::size] = rows[at + i :: width]
    column: array[int] = array(typecode, bytes(data))
    return _big_endian(column)


def _big_endian(column: array[int]) -> array[int]:
    """A copy in big-endian byte order; on a big-endian machine just a copy."""
    swapped: array[int] = array(column.typecode, column)
    if _SWAP:
        swapped.byteswap()
    return swapped


class IndexOwner(Protocol):
    """The segment that an index belongs to; the cache compares owners by identity."""

    base_offset: int


class IndexCache:
    """Cache of indexes of older segments with LRU eviction. Used by the event loop and by threads."""

    __slots__ = ("_entries", "_limit", "_lock", "_used")

    def __init__(self, limit: int = INDEX_CACHE_BYTES) -> None:
        self._limit = limit
        self._used = 0
        self._lock = Lock()
        self._entries: OrderedDict[IndexOwner, SegmentIndex] = OrderedDict()

    @property
    def used_bytes(self) -> int:
        return self._used

    def get(self, owner: IndexOwner) -> SegmentIndex | None:
        with self._lock:
            index = self._entries.get(owner)
            if index is not None:
                self._entries.move_to_end(owner)
            return index

    def put(self, owner: IndexOwner, index: SegmentIndex) -> None:
        with self._lock:
            self._drop(owner)
            self._entries[owner] = index
            self._used += index.nbytes
            while self._used > self._limit and len(self._entries) > 1:
                self._drop(next(iter(self._entries)))

    def drop(self, owner: IndexOwner) -> None:
        with self._lock:
            self._drop(owner)

    def _drop(self, owner: IndexOwner) -> None:
        index = self._entries.pop(owner, None)
        if index is not None:
            self._used -= index.nbytes
