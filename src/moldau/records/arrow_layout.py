"""Arrow buffers of rows: value types shared by the Arrow codecs and the pyarrow modules.

Neither this module nor the codecs import pyarrow. They read and write buffers in Arrow's memory layout (validity
bitmaps with the lowest bit first, 32-bit offsets, concatenated contents); `arrow.py` wraps arrays around them without a
copy.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from moldau.records.batch_layout import BatchHeader, Bytes

INT32_MAX: Final = 2**31 - 1

MAX_COLUMN_BYTES: Final = INT32_MAX
"""The most bytes that one binary column can hold: its offsets have 32 bits."""

MIN_BATCH_BYTES: Final = 64 * 1024
"""Batches made of columns have at least this size if there are enough rows: smaller ones waste time on requests."""

NO_PARTITION: Final = -1

Wanted: TypeAlias = Callable[[BatchHeader, int], bool]
"""Called for each transactional or control batch and its position, in order; False skips its records."""


class BinaryColumn(NamedTuple):
    """Concatenated strings or bytes; `validity` is None if no row is null."""

    validity: Bytes | None
    nulls: int
    offsets: Bytes  # int32, one more than rows
    data: Bytes


class HeaderColumns(NamedTuple):
    """The concatenated headers of all rows: row i has those from offsets[i] to offsets[i + 1]."""

    offsets: Bytes  # int32, one more than rows
    count: int  # type: ignore[assignment]  # number of headers; hides tuple.count
    key: BinaryColumn
    value: BinaryColumn


class RowColumns(NamedTuple):
    """Decoded rows, with one or two buffers per column."""

    rows: int
    key: BinaryColumn
    value: BinaryColumn
    topic: Bytes  # int32: the topic number that the caller passed
    partition: Bytes  # int32
    offset: Bytes  # int64
    timestamp: Bytes  # int64
    timestamp_type: Bytes  # int32
    headers: HeaderColumns | None


class Cells(NamedTuple):
    """A column to encode: cell i is number `start` + i in the buffers.

    Offsets have 32 or 64 bits (`offset_width` 4 or 8). A width of 0 means that there are no offsets: each cell has
    `cell_size` bytes of `data`.
    """

    validity: Bytes | None
    offsets: Bytes | None
    data: Bytes
    offset_width: int
    cell_size: int
    start: int


class HeaderCells(NamedTuple):
    """Headers to encode: row i has the keys and values from offsets[start + i] to offsets[start + i + 1]."""

    validity: Bytes | None
    offsets: Bytes
    offset_width: int
    start: int
    count: int  # type: ignore[assignment]  # number of headers in all rows
    keys: Cells
    values: Cells | None


class RowCells(NamedTuple):
    """Rows to encode. A column that is None is null in every row."""

    rows: int
    value: Cells | None
    key: Cells | None
    timestamp: Bytes | None  # int64 milliseconds
    headers: HeaderCells | None


class EncodedRows(NamedTuple):
    """The records of one batch, not yet compressed and without a batch header."""

    partition: int
    records: bytes
    count: int  # type: ignore[assignment]  # number of records; hides tuple.count
    base_timestamp: int
    max_timestamp: int


# Faults of a row that cannot become a record. The native code has the same numbers.
OUTSIDE: Final = 1
NULL_HEADER_KEY: Final = 2
NEGATIVE_TIMESTAMP: Final = 3
TOO_LARGE: Final = 4
NO_SUCH_PARTITION: Final = 5

_MESSAGES: Final = {
    OUTSIDE: "a cell lies outside its column's data; the array is damaged (see pyarrow.Array.validate)",
    NULL_HEADER_KEY: "a header's key is null; header keys cannot be null",
    NEGATIVE_TIMESTAMP: "its timestamp is {found}; the earliest is 0, the first millisecond of 1970",
    TOO_LARGE: "it takes {found} bytes as a record, and {most} are allowed",
    NO_SUCH_PARTITION: "its partition is {found}; there are {most} partitions, from 0 on",
}


class RowError(ValueError):
    """A row that cannot become a record, with the row number and the reason."""

    def __init__(self, fault: int, row: int, found: int = 0, most: int = 0) -> None:
        super().__init__(f"row {row}: {_MESSAGES[fault].format(found=found, most=most)}")
        self.fault = fault
        self.row = row
        self.found = found
