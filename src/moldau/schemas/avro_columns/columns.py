"""Avro values to Arrow arrays and back: native code if built, the reference otherwise.

    decoder = ColumnDecoder(writer, reader)
    array, bad = decoder.decode(values)             # bad: {row: reason}; those rows are null
    encoder = ColumnEncoder(schema)
    values = encoder.encode(array)                  # RowError: which rows have no value in this schema

Both may be used by many threads. The types of columns are in `arrow_types.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.records.arrow import require_pyarrow
from moldau.records.native_modules import native_or_reference
from moldau.schemas.avro.types import AvroType
from moldau.schemas.avro_columns import decode_reference
from moldau.schemas.avro_columns.arrow_types import MAX_DECIMAL_128
from moldau.schemas.avro_columns.decode_program import DecodeProgram, compile_decoder

if TYPE_CHECKING:
    import pyarrow as pa

    _decoder = decode_reference
else:
    _PACKAGE = "moldau.schemas.avro_columns"
    _decoder = native_or_reference(f"{_PACKAGE}._decode", f"{_PACKAGE}.decode_reference")


class ColumnDecoder:
    """Decodes data of a writer's schema into columns of a reader's schema; without reader, into those of the writer."""

    def __init__(self, writer: AvroType, reader: AvroType | None = None) -> None:
        """Raises SchemaError if data of the writer cannot be read with the reader, or if Arrow has no such type."""
        self._program = compile_decoder(writer, writer if reader is None else reader)
        self._engine = decode_reference if _has_wide_decimals(self._program) else _decoder

    @property
    def type(self) -> pa.DataType:
        """The type of the arrays."""
        return self._program.columns[0].arrow

    def decode(self, values: pa.Array, *, skip: int = 0) -> tuple[pa.Array, dict[int, str]]:
        """The values of a binary column, and the reasons of the rows that cannot be decoded: these are null.

        A null stays null. The first `skip` bytes of each value are not part of the data; bytes after its end are
        ignored, as in other deserializers.
        """
        decoder: decode_reference.Decoder = self._engine.Decoder(self._program)
        return decoder.decode(_binary(values), skip)


def _has_wide_decimals(program: DecodeProgram) -> bool:
    return any(step.digits > MAX_DECIMAL_128 for step in program.steps)


def _binary(values: Any) -> Any:
    pa = require_pyarrow()
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values if values.type == pa.binary() else values.cast(pa.binary())
