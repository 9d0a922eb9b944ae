"""What Arrow rows are made of while they are only buffers: the names that both codecs and the pyarrow glue share.

Nothing here or in the codecs knows pyarrow: they read and write buffers in Arrow's memory layout (validity bitmaps with
the lowest bit first, 32-bit offsets, contents end to end), and `arrow.py` puts arrays around them without a copy.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from moldau.records.model import BatchHeader, Bytes

INT32_MAX: Final = 2**31 - 1

MAX_COLUMN_BYTES: Final = INT32_MAX
"""As much as one binary column can hold: its offsets are 32 bits."""

MIN_BATCH_BYTES: Final = 64 * 1024
"""Batches made of columns are at least this large where there are rows enough: below, requests cost more than rows."""

NO_PARTITION: Final = -1

Wanted: TypeAlias = Callable[[BatchHeader, int], bool]
"""Shown each transactional or control batch, and its position, in order; False leaves its records out."""


class BinaryColumn(NamedTuple):
    """Texts or bytes end to end; `validity` is None where no row is null."""

    validity: Bytes | None
    nulls: int
    offsets: Bytes  # int32, one more than there are rows
    data: Bytes


class HeaderColumns(NamedTuple):
    """The headers of all rows end to end: row i has those from offsets[i] to offsets[i + 1]."""

    offsets: Bytes  # int32, one more than there are rows
    count: int  # type: ignore[assignment]  # of headers; nobody needs tuple.count here
    key: BinaryColumn
    value: BinaryColumn


class RowColumns(NamedTuple):
    """What was decoded, a buffer or two a column."""

    rows: int
    key: BinaryColumn
    value: BinaryColumn
    topic: Bytes  # int32: the number that the caller gave
    partition: Bytes  # int32
    offset: Bytes  # int64
    timestamp: Bytes  # int64
    timestamp_type: Bytes  # int32
    headers: HeaderColumns | None


class Cells(NamedTuple):
    """A column to be encoded: cell i of it is number `start` + i of the buffers.

    Offsets are 32 or 64 bits wide (`offset_width` 4 or 8); a width of 0 means that there are none, and that each cell
    takes `cell_size` bytes of `data`.
    """

    validity: Bytes | None
    offsets: Bytes | None
    data: Bytes
    offset_width: int
    cell_size: int
    start: int


class HeaderCells(NamedTuple):
    """Headers to be encoded: row i has those from offsets[start + i] to offsets[start + i + 1] of keys and values."""

    validity: Bytes | None
    offsets: Bytes
    offset_width: int
    start: int
    count: int  # type: ignore[assignment]  # of headers, all rows together
    keys: Cells
    values: Cells | None


class RowCells(NamedTuple):
    """Rows to be encoded. A column that is None is null in every row."""

    rows: int
    value: Cells | None
    key: Cells | None
    timestamp: Bytes | None  # int64 milliseconds
    headers: HeaderCells | None


class EncodedRows(NamedTuple):
    """The records of one batch, not yet compressed; its header is still to be written."""

    partition: int
    records: bytes
    count: int  # type: ignore[assignment]  # of records; nobody needs tuple.count here
    base_timestamp: int
    max_timestamp: int


# Faults of a row that is to become a record. The native twin has the same numbers.
OUTSIDE: Final = 1
NULL_HEADER_KEY: Final = 2
NEGATIVE_TIMESTAMP: Final = 3
TOO_LARGE: Final = 4
NO_SUCH_PARTITION: Final = 5

_WORDS: Final = {
    OUTSIDE: "a cell lies outside its column's data; the array is damaged (see pyarrow.Array.validate)",
    NULL_HEADER_KEY: "a header's key is null; header keys cannot be null",
    NEGATIVE_TIMESTAMP: "its timestamp is {found}; the earliest is 0, the first millisecond of 1970",
    TOO_LARGE: "it takes {found} bytes as a record, and {most} are allowed",
    NO_SUCH_PARTITION: "its partition is {found}; there are {most} partitions, from 0 on",
}


class RowError(ValueError):
    """A row that cannot become a record: which one, and why."""

    def __init__(self, fault: int, row: int, found: int = 0, most: int = 0) -> None:
        super().__init__(f"row {row}: {_WORDS[fault].format(found=found, most=most)}")
        self.fault = fault
        self.row = row
        self.found = found
