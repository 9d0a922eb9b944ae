"""Decoding of record batches into `pyarrow.RecordBatch`, with no object per record.

pyarrow is imported with the first rows, not with this module, because it is an optional dependency (`moldau[arrow]`).
The other direction is in `arrow_encode.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from moldau.records.arrow_engine import BatchCursor, RowCollector
from moldau.records.arrow_layout import BinaryColumn, HeaderColumns
from moldau.records.batch_layout import Bytes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowRows", "BatchCursor", "decode_batches", "require_pyarrow", "schema"]

_ALL_ROWS: Final = 2**62


def require_pyarrow() -> Any:
    """The module `pyarrow`; if it is missing, an ImportError that names the package to install."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("Arrow tables need pyarrow: pip install 'moldau[arrow]'", name="pyarrow") from error
    return pyarrow


@cache
def schema(headers: bool = False) -> pa.Schema:
    """The columns of decoded rows."""
    pa = require_pyarrow()
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
    ]
    if headers:
        fields.append(pa.field("headers", _headers_type(), nullable=False))
    return pa.schema(fields)


def _headers_type() -> pa.DataType:
    pa = require_pyarrow()
    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    return pa.list_(pa.field("item", header, nullable=False))


class ArrowRows:
    """Collects rows of any topics and partitions into one `pyarrow.RecordBatch`.

    A timestamp of -1 (the record has none) becomes the last millisecond of 1969, as in Kafka's other columnar readers.
    """

    def __init__(self, *, headers: bool = False) -> None:
        self._pa = require_pyarrow()
        self._headers = headers
        self._collector = RowCollector(headers=headers)
        self._topics: dict[str, int] = {}

    @property
    def rows(self) -> int:
        """The number of collected rows."""
        return self._collector.rows

    @property
    def full(self) -> bool:
        """Whether a batch stays in its cursor because the limit of a binary column, 2 GiB, was reached."""
        return self._collector.full

    def take(self, cursor: BatchCursor, topic: str, partition: int, max_rows: int = _ALL_ROWS) -> int:
        """Take up to `max_rows` rows; return their number. Fewer mean that the cursor is done or that this is full.

        After a BatchError the collected rows are kept, and the cursor stays at the invalid batch.
        """
        number = self._topics.setdefault(topic, len(self._topics))
        return self._collector.take(cursor, number, partition, max_rows)

    def finish(self) -> pa.RecordBatch:
        """Return the collected rows and reset this object, which can be used again."""
        pa = self._pa
        columns = self._collector.finish()
        rows = columns.rows
        topics, self._topics = self._topics, {}

        def fixed(type_: Any, data: Bytes) -> Any:
            return pa.Array.from_buffers(type_, rows, [None, pa.py_buffer(data)], 0)

        arrays = [
            self._binary(pa.binary(), rows, columns.key),
            self._binary(pa.binary(), rows, columns.value),
            pa.DictionaryArray.from_arrays(fixed(pa.int32(), columns.topic), pa.array(list(topics), pa.string())),
            fixed(pa.int32(), columns.partition),
            fixed(pa.int64(), columns.offset),
            fixed(pa.timestamp("ms", tz="UTC"), columns.timestamp),
            fixed(pa.int32(), columns.timestamp_type),
        ]
        if columns.headers is not None:
            arrays.append(self._header_lists(rows, columns.headers))
        return pa.RecordBatch.from_arrays(arrays, schema=schema(self._headers))

    def _binary(self, type_: pa.DataType, rows: int, column: BinaryColumn) -> pa.Array:
        pa = self._pa
        validity = None if column.validity is None else pa.py_buffer(column.validity)
        buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
        return pa.Array.from_buffers(type_, rows, buffers, column.nulls)

    def _header_lists(self, rows: int, columns: HeaderColumns) -> pa.Array:
        pa = self._pa
        type_ = _headers_type()
        keys = self._binary(pa.binary(), columns.count, columns.key)
        try:
            keys = keys.cast(pa.string())
        except pa.ArrowInvalid:
            # A header key need not be valid UTF-8. Like Kafka's clients, replace invalid bytes by U+FFFD.
            keys = pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
        values = self._binary(pa.binary(), columns.count, columns.value)
        structs = pa.StructArray.from_arrays([keys, values], fields=list(type_.value_type))
        return pa.Array.from_buffers(type_, rows, [None, pa.py_buffer(columns.offsets)], 0, children=[structs])


def decode_batches(
    chunks: Iterable[tuple[str, int, Bytes]], *, headers: bool = False, check_crcs: bool = True
) -> list[pa.RecordBatch]:
    """All rows of (topic, partition, concatenated batches); more than one RecordBatch only above 2 GiB."""
    rows = ArrowRows(headers=headers)
    finished = []
    for topic, partition, buf in chunks:
        cursor = BatchCursor(buf, check_crcs=check_crcs)
        while not cursor.done:
            rows.take(cursor, topic, partition)
            if rows.full:
                finished.append(rows.finish())
    finished.append(rows.finish())
    return finished
