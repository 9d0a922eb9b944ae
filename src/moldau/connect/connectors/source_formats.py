"""Formats of a file source: text lines, CSV, JSON lines, Avro, Parquet.

A format knows the positions at which a file can be cut: bytes after a complete line or Avro block, or whole row groups
of Parquet. `read` gives the rows between two such positions, typed by Arrow.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from moldau.connect.connectors.avro_schemas import arrow_of_avro
from moldau.connect.connectors.source_files import FoundFile, SourceFiles
from moldau.connect.connectors.text_lines import MAX_LINE_BYTES, LineTooLongError, line_array, line_boundary
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ValueColumn
from moldau.connect.schemas import Schema, SchemaType

SAMPLE_BYTES: Final = 1024 * 1024
"""The beginning of a CSV file from which the types of its columns are found."""
MAX_AVRO_HEADER: Final = 16 * 1024 * 1024
_AVRO_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16


@dataclass(frozen=True)
class Section:
    """A part of a file to read. `sample`: the bytes at its beginning that may be looked at for types."""

    path: str
    start: int
    end: int
    sample: int = 0


class SourceFormat(Protocol):
    @property
    def grows(self) -> bool:
        """Whether a file may get more records after it was read."""
        ...

    @property
    def in_bytes(self) -> bool:
        """Whether positions are bytes; otherwise they are row groups."""
        ...

    def bounds(self, files: SourceFiles, found: FoundFile) -> tuple[int, int] | None:
        """The positions of the first record and of the end; None: not readable yet."""
        ...

    def cut(self, files: SourceFiles, found: FoundFile, start: int, target: int) -> int:
        """A position near `target` at which the file can be cut; `start`: nothing complete is there yet."""
        ...

    def read(self, files: SourceFiles, part: Section) -> Iterator[ValueColumn]: ...


@dataclass(frozen=True)
class LineFormat:
    """One record per line, its text."""

    grows: bool = True
    in_bytes: bool = True

    def bounds(self, files: SourceFiles, found: FoundFile) -> tuple[int, int] | None:
        return 0, found.size

    def cut(self, files: SourceFiles, found: FoundFile, start: int, target: int) -> int:
        end = line_boundary(lambda at, length: files.read_at(found.path, at, length), start, target, found.size)
        return found.size if not self.grows and target >= found.size else end

    def read(self, files: SourceFiles, part: Section) -> Iterator[ValueColumn]:
        data = files.read_at(part.path, part.start, part.end - part.start)
        if data:
            yield self.rows(files, part, data)

    def rows(self, files: SourceFiles, part: Section, data: bytes) -> ValueColumn:
        return ValueColumn(line_array(data, last_without_end=True), Schema(SchemaType.STRING))


@dataclass(frozen=True)
class JsonFormat(LineFormat):
    """One JSON object per line. Types are found by Arrow in each slice; a missing field is null."""

    def rows(self, files: SourceFiles, part: Section, data: bytes) -> ValueColumn:
        from pyarrow import json

        if not data.strip():
            return ValueColumn.of(pa.array([], pa.struct([])))
        try:
            table = json.read_json(io.BytesIO(data), json.ReadOptions(block_size=len(data) + 1, use_threads=False))
        except pa.ArrowInvalid as error:
            raise DataError(f"{part.path}, bytes {part.start} to {part.end}, is no JSON lines: {error}") from error
        return rows_of(table)


@dataclass(frozen=True)
class CsvFormat(LineFormat):
    """CSV. The types of columns are given, or found in the beginning of the file."""

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    columns: tuple[str, ...] = ()
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    newlines_in_values: bool = False

    def bounds(self, files: SourceFiles, found: FoundFile) -> tuple[int, int] | None:
        if not self.header:
            return 0, found.size
        first = self._header_end(files, found.path, found.size)
        return (first, found.size) if first else None

    def _header_end(self, files: SourceFiles, path: str, size: int) -> int:
        return line_boundary(lambda at, length: files.read_at(path, at, length), 0, 1, size)

    def cut(self, files: SourceFiles, found: FoundFile, start: int, target: int) -> int:
        if self.newlines_in_values:
            return found.size  # A line end may be inside of a value: only the parser knows.
        return super().cut(files, found, start, target)

    def rows(self, files: SourceFiles, part: Section, data: bytes) -> ValueColumn:
        head = files.read_at(part.path, 0, part.sample)
        header = (
            head[: line_boundary(lambda at, length: head[at : at + length], 0, 1, len(head))] if self.header else b""
        )
        found = self._parsed(part, head[: _last_line(head)] or head, {}).schema
        types = {one.name: one.type if not pa.types.is_null(one.type) else pa.string() for one in found}
        return rows_of(self._parsed(part, header + data, types | dict(self.types)))

    def _parsed(self, part: Section, data: bytes, types: Mapping[str, pa.DataType]) -> pa.Table:
        from pyarrow import csv

        read = csv.ReadOptions(
            use_threads=False,
            block_size=len(data) + 1,
            column_names=list(self.columns) or None,
            skip_rows=1 if self.header and self.columns else 0,
            autogenerate_column_names=not self.header and not self.columns,
        )
        parse = csv.ParseOptions(
            delimiter=self.delimiter, quote_char=self.quote or False, newlines_in_values=self.newlines_in_values
        )
        try:
            return csv.read_csv(io.BytesIO(data), read, parse, csv.ConvertOptions(column_types=dict(types)))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{part.path}, bytes {part.start} to {part.end}: {error}; csv.types gives columns another type, "
                "such as csv.types=code:string"
            ) from error


def _last_line(data: bytes) -> int:
    return data.rfind(b"\n") + 1


@dataclass(frozen=True)
class AvroFormat:
    """Avro object container files, cut between blocks."""

    grows: bool = True
    in_bytes: bool = True

    def bounds(self, files: SourceFiles, found: FoundFile) -> tuple[int, int] | None:
        header = self._header(files, found.path)
        return None if header is None else (len(header), found.size)

    def _header(self, files: SourceFiles, path: str) -> bytes | None:
        """Everything before the first block; None: not complete yet."""
        from fastavro import reader

        length = 64 * 1024
        while length <= MAX_AVRO_HEADER:
            data = files.read_at(path, 0, length)
            file = io.BytesIO(data)
            try:
                reader(file)
                return data[: file.tell()]
            except (EOFError, StopIteration, IndexError, ValueError) as error:
                if not (data.startswith(_AVRO_MAGIC) or _AVRO_MAGIC.startswith(data)):
                    raise DataError(f"{path} is no Avro file: {error}") from error
                if len(data) < length:
                    return None
            length *= 4
        raise DataError(f"the header of {path} is longer than {MAX_AVRO_HEADER} bytes")

    def cut(self, files: SourceFiles, found: FoundFile, start: int, target: int) -> int:
        header = self._header(files, found.path)
        assert header is not None
        sync, window = header[-_SYNC_BYTES:], 1024 * 1024
        end = min(target, found.size)
        while end > start:  # backwards from the target
            begin = max(start, end - window)
            at = files.read_at(found.path, begin, end - begin).rfind(sync)
            if at >= 0:
                return begin + at + _SYNC_BYTES
            if begin == start:
                break
            end = begin + _SYNC_BYTES - 1
        position = max(start, min(target, found.size) - _SYNC_BYTES)
        while position < found.size:  # forwards: the block is longer than a slice
            at = files.read_at(found.path, position, window).find(sync)
            if at >= 0:
                return position + at + _SYNC_BYTES
            if position - start > MAX_LINE_BYTES:
                raise LineTooLongError(f"the Avro block at byte {start} is longer than {MAX_LINE_BYTES} bytes")
            position += window - _SYNC_BYTES + 1
        return start

    def read(self, files: SourceFiles, part: Section) -> Iterator[ValueColumn]:
        from fastavro import reader

        header = self._header(files, part.path)
        assert header is not None
        rows = reader(io.BytesIO(header + files.read_at(part.path, part.start, part.end - part.start)))
        kind = arrow_of_avro(rows.writer_schema)
        yield ValueColumn.of(pa.array([_plain(row) for row in rows], kind.type), optional=kind.nullable)


def _plain(row: Any) -> Any:
    """fastavro gives UUIDs as objects; Kafka Connect has no such type."""
    return (
        {name: str(one) if type(one).__name__ == "UUID" else one for name, one in row.items()}
        if isinstance(row, dict)
        else row
    )


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet, cut between row groups. A file is read when its footer is there."""

    grows: bool = False
    in_bytes: bool = False

    def bounds(self, files: SourceFiles, found: FoundFile) -> tuple[int, int] | None:
        from pyarrow import parquet

        if found.size < 12 or files.read_at(found.path, found.size - 4, 4) != b"PAR1":
            return None
        with files.open(found.path) as file:
            return 0, parquet.read_metadata(file).num_row_groups

    def cut(self, files: SourceFiles, found: FoundFile, start: int, target: int) -> int:
        bounds = self.bounds(files, found)
        return start if bounds is None else min(target, bounds[1])

    def read(self, files: SourceFiles, part: Section) -> Iterator[ValueColumn]:
        from pyarrow import parquet

        with files.open(part.path) as file:
            source = parquet.ParquetFile(file)
            for batch in source.iter_batches(65_536, row_groups=range(part.start, part.end), use_threads=False):
                yield rows_of(pa.Table.from_batches([batch]))


def rows_of(table: pa.Table) -> ValueColumn:
    """The rows of a table as structs."""
    array = table.combine_chunks().to_struct_array()
    return ValueColumn.of(pa.concat_arrays(array.chunks) if array.num_chunks != 1 else array.chunk(0))
