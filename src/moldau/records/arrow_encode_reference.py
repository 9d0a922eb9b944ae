"""Encoding of Arrow columns into record batches in plain Python: the reference for `_arrow_encode.pyx`."""

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Final

from moldau.records.arrow_layout import (
    NEGATIVE_TIMESTAMP,
    NO_PARTITION,
    NO_SUCH_PARTITION,
    NULL_HEADER_KEY,
    OUTSIDE,
    TOO_LARGE,
    Cells,
    EncodedRows,
    HeaderCells,
    RowCells,
    RowError,
)
from moldau.records.batch_layout import HEADER_SIZE, Bytes
from moldau.records.murmur2 import murmur2
from moldau.records.reference import RecordsBuilder

MOST_VARINTS: Final = 36
"""The maximal size of a record without its contents: seven varints and the attributes."""

MOST_HEADER_VARINTS: Final = 10
"""The maximal size of the two lengths of a header."""

_OFFSETS: Final = {4: Struct("=ii"), 8: Struct("=qq")}


class _RowFault(Exception):
    def __init__(self, fault: int, found: int = 0) -> None:
        super().__init__(fault)
        self.fault = fault
        self.found = found


def check_rows(cells: RowCells, first_row: int, max_record_bytes: int) -> int:
    """Check every row before the first one is sent: RowError names an invalid row. Returns the size of all records.

    Row numbers are those of the caller's table, in which these rows start at `first_row`. A record counts with its
    maximal size, because the size of its varints is known only when its place in a batch is.
    """
    total = 0
    for row in range(cells.rows):
        try:
            size = _most_bytes(cells, row)
            timestamp = _timestamp(cells, row, 0)
            if timestamp < 0:
                raise _RowFault(NEGATIVE_TIMESTAMP, timestamp)
            if size > max_record_bytes:
                raise _RowFault(TOO_LARGE, size)
        except _RowFault as fault:
            raise RowError(fault.fault, first_row + row, fault.found, max_record_bytes) from None
        total += size
    return total


def choose_partitions(cells: RowCells, first_row: int, given: Bytes | None, partitions: int, by_key: bool) -> bytearray:
    """The partition of each row, int32: the `given` one, otherwise by the hash of the key, otherwise NO_PARTITION.

    The hash is Kafka's (murmur2), so that all clients choose the same partition for a key.
    """
    chosen = array("i")
    asked = None if given is None else memoryview(given).cast("B").cast("i")
    for row in range(cells.rows):
        partition = NO_PARTITION if asked is None else asked[row]
        if partition >= partitions:
            raise RowError(NO_SUCH_PARTITION, first_row + row, partition, partitions)
        if partition < 0 and by_key and cells.key is not None:
            try:
                key = cell_of(cells.key, row)
            except _RowFault as fault:
                raise RowError(fault.fault, first_row + row) from None
            if key is not None:
                partition = (murmur2(key) & 0x7FFFFFFF) % partitions
        chosen.append(max(partition, NO_PARTITION))
    return bytearray(chosen.tobytes())


class RowEncoder:
    """Fills one batch per partition with rows, and stops whenever one is full.

    Rows with NO_PARTITION go to the partition `sticky`, which the caller may change at each stop.
    """

    __slots__ = ("_batch_bytes", "_default_timestamp", "_filled", "_open", "_partitions", "sticky")

    def __init__(self, partitions: int, batch_bytes: int, default_timestamp: int) -> None:
        self._partitions = partitions
        self._batch_bytes = batch_bytes
        self._default_timestamp = default_timestamp
        self._open: dict[int, RecordsBuilder] = {}
        self._filled: EncodedRows | None = None
        self.sticky = 0

    def encode(self, cells: RowCells, partitions: Bytes | None, start: int) -> int:
        """Encode rows from `start` on until a batch is full or no row is left; return the next row.

        The caller must take a full batch with `take_full` before the next call.
        """
        if self._filled is not None:
            raise ValueError("a full batch was not taken")
        chosen = None if partitions is None else memoryview(partitions).cast("B").cast("i")
        for row in range(start, cells.rows):
            partition = NO_PARTITION if chosen is None else chosen[row]
            if partition == NO_PARTITION:
                partition = self.sticky
            if not 0 <= partition < self._partitions:
                raise RowError(NO_SUCH_PARTITION, row, partition, self._partitions)
            try:
                most = _most_bytes(cells, row)
                builder = self._open.get(partition)
                if builder is None:
                    builder = self._open[partition] = RecordsBuilder()
                elif HEADER_SIZE + builder.size + most > self._batch_bytes:
                    self._filled = self._close(partition)
                    return row
                builder.append(
                    builder.count,
                    _timestamp(cells, row, self._default_timestamp),
                    None if cells.key is None else cell_of(cells.key, row),
                    None if cells.value is None else cell_of(cells.value, row),
                    []
                    if cells.headers is None
                    else [
                        (key.decode("utf-8", "surrogateescape"), value) for key, value in _headers(cells.headers, row)
                    ],
                )
            except _RowFault as fault:
                raise RowError(fault.fault, row, fault.found) from None
        return cells.rows

    def take_full(self) -> EncodedRows | None:
        """The full batch for which `encode` stopped, if any."""
        filled, self._filled = self._filled, None
        return filled

    def flush(self) -> list[EncodedRows]:
        """The remaining batches, by partition; the encoder can be used again."""
        return [self._close(partition) for partition in sorted(self._open)]

    def _close(self, partition: int) -> EncodedRows:
        builder = self._open.pop(partition)
        assert builder.base_timestamp is not None
        return EncodedRows(partition, builder.records(), builder.count, builder.base_timestamp, builder.max_timestamp)


def _most_bytes(cells: RowCells, row: int) -> int:
    """The maximal size of the row as a record."""
    size = MOST_VARINTS
    for column in (cells.key, cells.value):
        if column is not None:
            size += len(cell_of(column, row) or b"")
    if cells.headers is not None:
        for key, value in _headers(cells.headers, row):
            size += MOST_HEADER_VARINTS + len(key) + len(value or b"")
    return size


def _timestamp(cells: RowCells, row: int, default: int) -> int:
    return default if cells.timestamp is None else memoryview(cells.timestamp).cast("B").cast("q")[row]


def cell_of(cells: Cells, row: int) -> bytes | None:
    """The content of a cell; None if it is null."""
    place = cells.start + row
    if _is_null(cells.validity, place):
        return None
    if cells.offset_width:
        assert cells.offsets is not None
        begin, end = _offsets(cells.offsets, cells.offset_width, place)
    else:
        begin, end = place * cells.cell_size, (place + 1) * cells.cell_size
    if not 0 <= begin <= end <= len(memoryview(cells.data)):
        raise _RowFault(OUTSIDE)
    return bytes(memoryview(cells.data)[begin:end])


def _headers(cells: HeaderCells, row: int) -> Iterator[tuple[bytes, bytes | None]]:
    place = cells.start + row
    if _is_null(cells.validity, place):
        return
    begin, end = _offsets(cells.offsets, cells.offset_width, place)
    if not 0 <= begin <= end <= cells.count:
        raise _RowFault(OUTSIDE)
    for at in range(begin, end):
        key = cell_of(cells.keys, at)
        if key is None:
            raise _RowFault(NULL_HEADER_KEY)
        yield key, None if cells.values is None else cell_of(cells.values, at)


def _is_null(validity: Bytes | None, place: int) -> bool:
    return validity is not None and not memoryview(validity)[place >> 3] >> (place & 7) & 1


def _offsets(offsets: Bytes, width: int, place: int) -> tuple[int, int]:
    begin, end = _OFFSETS[width].unpack_from(offsets, place * width)
    return begin, end
