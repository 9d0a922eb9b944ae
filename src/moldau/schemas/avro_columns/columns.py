"""Avro values to Arrow arrays and back: native code if built, the reference otherwise.

    decoder = ColumnDecoder(writer, reader)
    array, bad = decoder.decode(values)             # bad: {row: reason}; those rows are null
    encoder = ColumnEncoder(schema)
    values, bad = encoder.encode(array)

Both may be used by many threads. The types of columns are in `arrow_types.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.records.arrow import require_pyarrow
from moldau.records.native_modules import native_or_reference
from moldau.schemas.avro.types import AvroType
from moldau.schemas.avro_columns import decode_reference, encode_reference
from moldau.schemas.avro_columns.arrow_types import MAX_DECIMAL_128, arrow_type
from moldau.schemas.avro_columns.decode_program import DecodeProgram, compile_decoder
from moldau.schemas.avro_columns.encode_plan import EncodeNode, plan_encoder

if TYPE_CHECKING:
    import pyarrow as pa

    _decoder = decode_reference
    _encoder = encode_reference
else:
    _PACKAGE = "moldau.schemas.avro_columns"
    _decoder = native_or_reference(f"{_PACKAGE}._decode", f"{_PACKAGE}.decode_reference")
    _encoder = native_or_reference(f"{_PACKAGE}._encode", f"{_PACKAGE}.encode_reference")


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


class ColumnEncoder:
    """Encodes Arrow columns as Avro data of a schema."""

    def __init__(self, schema: AvroType) -> None:
        self._schema = schema

    @property
    def type(self) -> pa.DataType:
        """The type of arrays that need no cast."""
        return arrow_type(self._schema)

    def encode(self, array: pa.Array, *, prefix: bytes = b"") -> tuple[pa.Array, dict[int, str]]:
        """The Avro data of each row (binary), and the reasons of the rows that do not fit the schema: these are null.

        A null row stays null. Raises SchemaError if the type of the array does not fit the schema.
        """
        pa = require_pyarrow()
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        plan = plan_encoder(self._schema, array)
        engine = encode_reference if _is_wide(plan) else _encoder
        found: tuple[Any, dict[int, str]] = engine.encode(plan, prefix)
        return found


def _is_wide(node: EncodeNode) -> bool:
    kind = None if node.array is None else node.array.type
    if kind is not None and require_pyarrow().types.is_decimal256(kind):
        return True
    return any(_is_wide(one) for one in node.children)


def _has_wide_decimals(program: DecodeProgram) -> bool:
    return any(step.digits > MAX_DECIMAL_128 for step in program.steps)


def _binary(values: Any) -> Any:
    pa = require_pyarrow()
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values if values.type == pa.binary() else values.cast(pa.binary())
