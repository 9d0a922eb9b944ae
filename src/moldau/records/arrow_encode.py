"""Encoding of `pyarrow.Table` or `RecordBatch` columns into record batches, with no object per record.

Keys, values and headers are binary or string columns in any of Arrow's layouts. Timestamps are Arrow timestamps or
integer milliseconds; partitions are integers. Other types are refused with the column's name, because the application
must choose how a number becomes bytes.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from moldau.records.arrow import require_pyarrow
from moldau.records.arrow_engine import RowEncoder, check_rows, choose_partitions
from moldau.records.arrow_layout import (
    INT32_MAX,
    MIN_BATCH_BYTES,
    NO_PARTITION,
    Cells,
    EncodedRows,
    HeaderCells,
    RowCells,
)
from moldau.records.batch import seal
from moldau.records.batch_layout import (
    HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Bytes,
    Codec,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Tabular: TypeAlias = "pa.Table | pa.RecordBatch | pd.DataFrame"
"""What rows can be taken from."""

__all__ = ["ColumnNames", "InputRows", "Tabular", "encode_batches", "partitions_of", "rows_of", "seal_rows"]


class ColumnNames(NamedTuple):
    """The column for each part of a record; None if the records do not have it."""

    value: str | None = "value"
    key: str | None = None
    timestamp: str | None = None
    headers: str | None = None
    partition: str | None = None


class InputRows(NamedTuple):
    """Rows that are contiguous in memory, ready to encode; the first one is row `first_row` of the table."""

    cells: RowCells
    partition: Bytes | None  # int32, NO_PARTITION if the row has none
    first_row: int


def rows_of(data: Tabular, names: ColumnNames, default_timestamp: int) -> list[InputRows]:
    """The rows of `data`; TypeError or ValueError if a column is missing or has the wrong type.

    Each chunk of the table becomes one element of the result. Binary and string data is not copied.
    """
    pa = require_pyarrow()
    data = _table_of(pa, data, names)
    chunks = [data] if isinstance(data, pa.RecordBatch) else data.to_batches()
    first_row = 0
    found = []
    for chunk in chunks:
        found.append(_input_rows(pa, chunk, names, default_timestamp, first_row))
        first_row += chunk.num_rows
    return found


def _table_of(pa: Any, data: Any, names: ColumnNames) -> Any:
    """A table or batch as it is, of a pandas.DataFrame the columns that are needed, converted.

    pandas is not imported here: a caller that passes a DataFrame has imported it.
    """
    if isinstance(data, pa.Table | pa.RecordBatch):
        _check_names(names, data.schema.names)
        return data
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        _check_names(names, list(data.columns))
        wanted = list(dict.fromkeys(name for name in names if name is not None))
        # Where a column is of mixed types, pyarrow raises a TypeError or ValueError that names it.
        return pa.Table.from_pandas(data, columns=wanted, preserve_index=False)
    raise TypeError(
        f"rows are sent from a pyarrow.Table or RecordBatch, or a pandas.DataFrame, not from {type(data).__name__}"
    )


def _check_names(names: ColumnNames, there: list[Any]) -> None:
    known = [str(name) for name in there]
    for name in names:
        if name is not None and name not in there:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known) or 'none'}"
            raise ValueError(f"there is no column {name!r}{hint}")


def _input_rows(
    pa: Any, chunk: pa.RecordBatch, names: ColumnNames, default_timestamp: int, first_row: int
) -> InputRows:
    def column(name: str | None) -> Any:
        return None if name is None else chunk.column(name)

    cells = RowCells(
        chunk.num_rows,
        _cells(pa, column(names.value), names.value),
        _cells(pa, column(names.key), names.key),
        _timestamps(pa, column(names.timestamp), names.timestamp, default_timestamp),
        _headers(pa, column(names.headers), names.headers),
    )
    return InputRows(cells, _partitions(pa, column(names.partition), names.partition), first_row)


def _plain(pa: Any, array: Any) -> Any:
    """Decode an extension type, a dictionary, run ends or views into a layout with offsets."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    elif pa.types.is_run_end_encoded(array.type):
        array = require_compute().run_end_decode(array)
    if pa.types.is_binary_view(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.large_binary())
    return array


def require_compute() -> Any:
    require_pyarrow()
    import pyarrow.compute

    return pyarrow.compute


def _validity(array: Any, buffer: Any) -> Bytes | None:
    return buffer if array.null_count else None


def _cells(pa: Any, array: Any, name: str | None) -> Cells | None:
    if array is None:
        return None
    array = _plain(pa, array)
    types = pa.types
    if types.is_null(array.type):
        return None
    if types.is_binary(array.type) or types.is_string(array.type):
        width = 4
    elif types.is_large_binary(array.type) or types.is_large_string(array.type):
        width = 8
    elif types.is_fixed_size_binary(array.type):
        validity, data = array.buffers()
        return Cells(_validity(array, validity), None, data or b"", 0, array.type.byte_width, array.offset)
    else:
        raise TypeError(
            f"column {name!r} is {array.type}; keys, values and headers are binary or string: cast the column first"
        )
    validity, offsets, data = array.buffers()
    return Cells(_validity(array, validity), offsets or b"", data or b"", width, 0, array.offset)


def _timestamps(pa: Any, array: Any, name: str | None, default: int) -> Bytes | None:
    if array is None:
        return None
    compute = require_compute()
    types = pa.types
    if types.is_timestamp(array.type) or types.is_date(array.type):
        target = pa.timestamp("ms", tz=array.type.tz if types.is_timestamp(array.type) else None)
        # Units finer than Kafka's milliseconds are truncated; a date out of range is still an error.
        array = compute.cast(array, options=compute.CastOptions(target, allow_time_truncate=True))
    elif not types.is_integer(array.type):
        raise TypeError(f"column {name!r} is {array.type}; timestamps are Arrow timestamps, or int64 milliseconds")
    return _fixed(array.cast(pa.int64()).fill_null(default), 8)


def _partitions(pa: Any, array: Any, name: str | None) -> Bytes | None:
    if array is None:
        return None
    if not pa.types.is_integer(array.type):
        raise TypeError(f"column {name!r} is {array.type}; partitions are whole numbers")
    compute = require_compute()
    bounds = compute.min_max(array)
    for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
        if bound is not None and not 0 <= bound <= INT32_MAX:
            raise ValueError(f"column {name!r} has a partition {bound}, which no topic has")
    return _fixed(array.cast(pa.int32()).fill_null(NO_PARTITION), 4)


def _fixed(array: Any, width: int) -> Bytes:
    """The numbers of an array without nulls, starting with its first one."""
    _, data = array.buffers()
    if data is None:
        return b""
    return memoryview(data)[array.offset * width : (array.offset + len(array)) * width]


def _headers(pa: Any, array: Any, name: str | None) -> HeaderCells | None:
    if array is None or pa.types.is_null(array.type):
        return None
    type_ = array.type
    if pa.types.is_map(type_):
        width, keys, values = 4, array.keys, array.items
    elif (pa.types.is_list(type_) or pa.types.is_large_list(type_)) and _is_pair(pa, type_.value_type):
        width = 4 if pa.types.is_list(type_) else 8
        structs = array.values
        if structs.null_count:
            raise ValueError(f"column {name!r} has a header that is null")
        keys, values = structs.field(0), structs.field(1)
    else:
        raise TypeError(f"column {name!r} is {type_}; headers are list<struct<key, value>> or map<key, value>")
    validity, offsets = array.buffers()[:2]
    key_cells = _cells(pa, keys, f"{name}.key")
    if key_cells is None:  # of type null: allowed if there is no header at all
        key_cells = Cells(bytes(len(keys) // 8 + 1), None, b"", 0, 0, 0)
    value_cells = _cells(pa, values, f"{name}.value")
    return HeaderCells(
        _validity(array, validity), offsets or b"", width, array.offset, len(keys), key_cells, value_cells
    )


def _is_pair(pa: Any, type_: Any) -> bool:
    return bool(pa.types.is_struct(type_)) and type_.num_fields == 2


# -- batches


def partitions_of(rows: InputRows, partitions: int, by_key: bool = True) -> Bytes | None:
    """The partition of each row, NO_PARTITION if any will do; None if that holds for all rows."""
    if rows.partition is None and (rows.cells.key is None or not by_key):
        return None
    return choose_partitions(rows.cells, rows.first_row, rows.partition, partitions, by_key)


def encode_batches(
    data: pa.Table | pa.RecordBatch,
    names: ColumnNames = ColumnNames(),  # noqa: B008  # immutable
    *,
    partitions: int = 1,
    sticky: int = 0,
    batch_bytes: int = MIN_BATCH_BYTES,
    max_record_bytes: int = INT32_MAX - HEADER_SIZE,
    default_timestamp: int = NO_TIMESTAMP,
    codec: Codec = Codec.NONE,
    level: int | None = None,
) -> Iterator[tuple[int, bytearray]]:
    """Yield (partition, batch) for all rows. All rows are checked first and then encoded on demand.

    A row with neither a partition nor a key is encoded for partition `sticky`.
    """
    pieces = rows_of(data, names, default_timestamp)
    for rows in pieces:
        check_rows(rows.cells, rows.first_row, max_record_bytes)
    chosen = [partitions_of(rows, partitions) for rows in pieces]
    encoder = RowEncoder(partitions, batch_bytes, default_timestamp)
    encoder.sticky = sticky
    for rows, piece_partitions in zip(pieces, chosen, strict=True):
        row = 0
        while row < rows.cells.rows:
            row = encoder.encode(rows.cells, piece_partitions, row)
            full = encoder.take_full()
            if full is not None:
                yield full.partition, seal_rows(full, codec=codec, level=level)
    for rest in encoder.flush():
        yield rest.partition, seal_rows(rest, codec=codec, level=level)


def seal_rows(
    rows: EncodedRows,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """Build the whole batch."""
    return seal(
        rows.records,
        count=rows.count,
        last_offset_delta=rows.count - 1,
        base_timestamp=rows.base_timestamp,
        max_timestamp=rows.max_timestamp,
        codec=codec,
        level=level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
