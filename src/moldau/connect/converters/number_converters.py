"""Converters of single numbers and booleans: big-endian bytes of a fixed size, as Kafka writes them."""

from __future__ import annotations

import sys
from array import array as machine_array
from collections.abc import Iterator
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.converters.base import Converter
from moldau.connect.errors import RowError
from moldau.connect.record_batch import ValueColumn
from moldau.connect.schemas import Schema, SchemaType, arrow_type

_SWAP: Final = sys.byteorder == "little"


class NumberConverter(Converter):
    """What the converters of numbers share."""

    type: ClassVar[SchemaType]
    code: ClassVar[str]
    """The type code of Python's array module."""

    @property
    def schema(self) -> Schema:
        return Schema(self.type, optional=True)

    @property
    def size(self) -> int:
        return machine_array(self.code).itemsize

    def to_batches(self, raw: pa.Array, topic: str) -> Iterator[ValueColumn]:
        self._check_sizes(raw)
        return iter([ValueColumn(self._values(raw), self.schema)])

    def _check_sizes(self, raw: pa.Array) -> None:
        wrong = pc.not_equal(pc.binary_length(raw), self.size).fill_null(False)
        if not pc.any(wrong).as_py():
            return
        rows = pc.indices_nonzero(wrong).to_pylist()
        reasons = {row: f"{len(raw[row].as_py())} bytes; {self.type.value} has {self.size}" for row in rows}
        raise RowError(reasons, self.stage)

    def _values(self, raw: pa.Array) -> pa.Array:
        numbers = machine_array(self.code, _joined_bytes(raw.fill_null(bytes(self.size))))
        if _SWAP:
            numbers.byteswap()
        validity = raw.is_valid().buffers()[1] if raw.null_count else None
        data = pa.py_buffer(numbers.tobytes())
        return pa.Array.from_buffers(arrow_type(self.schema), len(raw), [validity, data])

    def from_column(self, column: ValueColumn, topics: pa.Array) -> pa.Array:
        values = column.array
        if pa.types.is_null(values.type):
            return values.cast(pa.binary())
        wanted = arrow_type(self.schema)
        if values.type != wanted:
            reason = f"{type(self).__name__} writes {self.type.value} only, not {values.type}"
            rows = pc.indices_nonzero(values.is_valid()).to_pylist()
            if rows:
                raise RowError(dict.fromkeys(rows, reason), self.stage)
            return pa.nulls(len(values), pa.binary())
        numbers = self._numbers(values.fill_null(pa.scalar(0).cast(wanted)))
        if _SWAP:
            numbers.byteswap()
        validity = values.is_valid().buffers()[1] if values.null_count else None
        fixed = pa.Array.from_buffers(pa.binary(self.size), len(values), [validity, pa.py_buffer(numbers.tobytes())])
        return fixed.cast(pa.binary())

    def _numbers(self, values: pa.Array) -> machine_array[int] | machine_array[float]:
        numbers = machine_array(self.code)
        data = values.buffers()[1]
        if data is not None:
            first = values.offset * self.size
            numbers.frombytes(memoryview(data)[first : first + len(values) * self.size])
        return numbers


def _joined_bytes(raw: pa.Array) -> bytes:
    """The bytes of all rows, one after another."""
    data = raw.buffers()[2]
    if data is None or not len(raw):
        return b""
    offsets = memoryview(raw.buffers()[1]).cast("i")
    return bytes(memoryview(data)[offsets[raw.offset] : offsets[raw.offset + len(raw)]])


class ShortConverter(NumberConverter):
    """int16, 2 bytes."""

    type = SchemaType.INT16
    code = "h"


class IntegerConverter(NumberConverter):
    """int32, 4 bytes."""

    type = SchemaType.INT32
    code = "i"


class LongConverter(NumberConverter):
    """int64, 8 bytes."""

    type = SchemaType.INT64
    code = "q"


class FloatConverter(NumberConverter):
    """float, 4 bytes."""

    type = SchemaType.FLOAT32
    code = "f"


class DoubleConverter(NumberConverter):
    """double, 8 bytes."""

    type = SchemaType.FLOAT64
    code = "d"


class BooleanConverter(NumberConverter):
    """One byte: 1 or 0."""

    type = SchemaType.BOOLEAN
    code = "B"

    def _check_sizes(self, raw: pa.Array) -> None:
        super()._check_sizes(raw)
        known = pc.is_in(raw, pa.array([b"\0", b"\1"], raw.type), skip_nulls=False)
        wrong = pc.and_(raw.is_valid(), pc.invert(known))
        rows = pc.indices_nonzero(wrong).to_pylist()
        if rows:
            raise RowError(dict.fromkeys(rows, "the byte of a boolean must be 0 or 1"), self.stage)

    def _values(self, raw: pa.Array) -> pa.Array:
        return pc.equal(raw, pa.scalar(b"\1", raw.type))

    def _numbers(self, values: pa.Array) -> machine_array[int] | machine_array[float]:
        return super()._numbers(values.cast(pa.uint8()))
