"""Formats of a file sink: Parquet, Avro, CSV, JSON lines, text lines, raw bytes.

A writer gets the values of records of one schema, in order. Values without a schema are written with the type that
their Arrow column has; in Parquet their columns are collected, so that a field that occurs only later is in the file.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.connectors.avro_schemas import avro_schema
from moldau.connect.converters import converter
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ValueColumn, is_null_mark
from moldau.connect.schemas import schema_of

MAX_COLLECTED_BYTES: Final = 256 * 1024 * 1024
"""Values without a schema that are held in memory for one Parquet file; beyond it the file's columns are fixed."""

Render = Callable[[ValueColumn, pa.Array], pa.Array]

JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
STRING_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"


@dataclass(frozen=True)
class FormatOptions:
    """Settings of the formats."""

    codec: str = "none"
    """Of Parquet: snappy, gzip, zstd, lz4, none. Of Avro: null, deflate, snappy. Of the others: none, gzip."""
    separator: bytes = b"\n"
    """After each record of raw bytes."""


class FormatWriter(Protocol):
    def write(self, value: ValueColumn, topics: pa.Array) -> None: ...

    def close(self) -> None:
        """Finish the file. The writer closes what it was given."""
        ...


def table_of(value: ValueColumn) -> pa.Table:
    """Records as the columns of a table; values that are no structs become the column `value`."""
    array = without_null_marks(value.array) if value.schema is None else value.array
    if not pa.types.is_struct(array.type):
        return pa.table({"value": array})
    if not array.type.num_fields:
        raise DataError("records without any field cannot be written as columns")
    return pa.Table.from_struct_array(array)


def without_null_marks(array: pa.Array) -> pa.Array:
    """Schemaless values in which a missing field is null, and values without a common type are JSON texts."""
    if isinstance(array.type, pa.BaseExtensionType):
        return array.storage.cast(pa.string())
    if pa.types.is_struct(array.type):
        names = [one.name for one in array.type if not is_null_mark(one.name)]
        children = [without_null_marks(pc.struct_field(array, name)) for name in names]
        if not names:
            return array
        return pa.StructArray.from_arrays(children, names, mask=array.is_null())
    if pa.types.is_list(array.type):
        inner = without_null_marks(array.values)
        return pa.ListArray.from_arrays(array.offsets, inner, mask=array.is_null() if array.null_count else None)
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    return array


class ParquetWriter:
    """Parquet, one row group per batch or more."""

    def __init__(self, file: IO[bytes], options: FormatOptions) -> None:
        self._file = file
        self._codec = options.codec
        self._writer: Any = None
        self._collected: list[pa.Table] = []

    def write(self, value: ValueColumn, topics: pa.Array) -> None:
        table = table_of(value)
        if self._writer is None:
            self._collected.append(table)
            if value.schema is None and sum(one.nbytes for one in self._collected) < MAX_COLLECTED_BYTES:
                return
            self._open()
        else:
            self._writer.write_table(table.cast(self._writer.schema))

    def _open(self) -> None:
        from pyarrow import parquet

        whole = pa.concat_tables(self._collected, promote_options="permissive")
        self._collected = []
        self._writer = parquet.ParquetWriter(self._file, whole.schema, compression=self._codec)
        self._writer.write_table(whole)

    def close(self) -> None:
        if self._collected:
            self._open()
        if self._writer is not None:
            self._writer.close()
        self._file.close()


class AvroWriter:
    """Avro object container files."""

    def __init__(self, file: IO[bytes], options: FormatOptions) -> None:
        self._file = file
        self._codec = options.codec
        self._writer: Any = None

    def write(self, value: ValueColumn, topics: pa.Array) -> None:
        array = without_null_marks(value.array) if value.schema is None else value.array
        if self._writer is None:
            self._writer = self._open(value, array)
        for row in array.to_pylist():
            self._writer.write(row)

    def _open(self, value: ValueColumn, array: pa.Array) -> Any:
        try:
            from fastavro.write import Writer
        except ImportError as error:
            raise DataError("Avro files need fastavro: pip install 'moldau[connect]'") from error
        schema = value.schema if value.schema is not None else schema_of(array.type, optional=False)
        return Writer(self._file, avro_schema(schema), codec=self._codec)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.flush()
        self._file.close()


class CsvWriter:
    """CSV with a header line."""

    def __init__(self, file: IO[bytes], options: FormatOptions) -> None:
        self._file = file
        self._out = compressed(file, options.codec)
        self._writer: Any = None

    def write(self, value: ValueColumn, topics: pa.Array) -> None:
        from pyarrow import csv

        table = table_of(value)
        nested = [one.name for one in table.schema if pa.types.is_nested(one.type)]
        if nested:
            raise DataError(f"CSV has no nested values, and these fields are: {', '.join(nested)}; use Flatten or JSON")
        if self._writer is None:
            self._writer = csv.CSVWriter(self._out, table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        close_all(self._out, self._file)


class LineWriter:
    """Values that a function renders as bytes, with a separator after each."""

    def __init__(
        self, file: IO[bytes], options: FormatOptions, render: Callable[[ValueColumn, pa.Array], pa.Array]
    ) -> None:
        self._file = file
        self._out = compressed(file, options.codec)
        self._render = render
        self._separator = options.separator

    def write(self, value: ValueColumn, topics: pa.Array) -> None:
        self._out.write(joined(self._render(value, topics), self._separator))

    def close(self) -> None:
        close_all(self._out, self._file)


def joined(values: pa.Array, separator: bytes) -> memoryview:
    """All values, each with the separator after it, without an object per value."""
    if len(values) == 0:
        return memoryview(b"")
    large = values.cast(pa.large_binary())
    lines = pc.binary_join_element_wise(
        large, pa.scalar(b"", pa.large_binary()), pa.scalar(separator, pa.large_binary()), null_handling="replace"
    )
    offsets = lines.buffers()[1]
    first, last = (
        int.from_bytes(offsets[8 * at : 8 * at + 8], "little") for at in (lines.offset, lines.offset + len(lines))
    )
    return memoryview(lines.buffers()[2])[first:last]


def _json(value: ValueColumn, topics: pa.Array) -> pa.Array:
    return converter(JSON_CONVERTER, {"schemas.enable": "false"}, is_key=False).from_column(value, topics)


def _text(value: ValueColumn, topics: pa.Array) -> pa.Array:
    return converter(STRING_CONVERTER, {}, is_key=False).from_column(value, topics)


def _bytes(value: ValueColumn, topics: pa.Array) -> pa.Array:
    kind = value.array.type
    if not (pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_null(kind)):
        raise DataError(f"the format bytes writes bytes, not {kind}: use ByteArrayConverter as value.converter")
    return value.array.cast(pa.binary())


def compressed(file: IO[bytes], codec: str) -> Any:
    return gzip.GzipFile(fileobj=file, mode="wb", mtime=0) if codec == "gzip" else file


def close_all(out: Any, file: IO[bytes]) -> None:
    if out is not file:
        out.close()
    file.close()


@dataclass(frozen=True)
class FileFormat:
    """One format: how it is written, the end of its files' names, its codecs (the first is the default)."""

    open: Callable[[IO[bytes], FormatOptions], FormatWriter]
    extension: str
    codecs: tuple[str, ...]

    def file_extension(self, codec: str) -> str:
        if self.extension == ".parquet" and codec != "none":
            return f".{codec}.parquet"
        return self.extension + (".gz" if codec == "gzip" and self.extension != ".parquet" else "")


_TEXT_CODECS: Final = ("none", "gzip")

FORMATS: Final[Mapping[str, FileFormat]] = {
    "parquet": FileFormat(ParquetWriter, ".parquet", ("snappy", "none", "gzip", "zstd", "lz4", "brotli")),
    "avro": FileFormat(AvroWriter, ".avro", ("null", "deflate", "snappy", "bzip2")),
    "json": FileFormat(lambda file, options: LineWriter(file, options, _json), ".json", _TEXT_CODECS),
    "csv": FileFormat(CsvWriter, ".csv", _TEXT_CODECS),
    "text": FileFormat(lambda file, options: LineWriter(file, options, _text), ".txt", _TEXT_CODECS),
    "bytes": FileFormat(lambda file, options: LineWriter(file, options, _bytes), ".bin", _TEXT_CODECS),
}
