"""Readable decoder of Avro columns: the reference twin of `_decode.pyx`, which `columns.py` prefers.

It makes Python values of each row and gives them to pyarrow. Names, results and errors are the same.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from moldau.records.arrow import require_pyarrow
from moldau.schemas.avro_columns.arrow_types import NO_COLUMN
from moldau.schemas.avro_columns.decode_program import (
    MAX_DEPTH,
    MAX_EMPTY_ITEMS,
    DataFault,
    DecodeOp,
    DecodeProgram,
    DecodeStep,
)

if TYPE_CHECKING:
    import pyarrow as pa

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")


class Decoder:
    """Runs a program over binary columns."""

    def __init__(self, program: DecodeProgram) -> None:
        self._program = program

    def decode(self, values: pa.Array, skip: int) -> tuple[pa.Array, dict[int, str]]:
        """The values of a binary column, and the reasons of bad rows, which are null.

        `skip` bytes at the beginning of each value are not part of the data.
        """
        rows: list[Any] = []
        bad: dict[int, str] = {}
        for number, value in enumerate(values.to_pylist()):
            if value is None:
                rows.append(None)
                continue
            try:
                rows.append(_ValueReader(self._program, value, skip).run(0, 0))
            except _Bad as error:
                rows.append(None)
                bad[number] = self._program.describe(error.fault, error.step)
        return require_pyarrow().array(rows, self._program.columns[0].arrow), bad


class _Bad(Exception):
    def __init__(self, fault: DataFault, step: int) -> None:
        self.fault = fault
        self.step = step


class _ValueReader:
    """One value that is being read."""

    def __init__(self, program: DecodeProgram, data: bytes, at: int) -> None:
        self.program = program
        self.data = data
        self.at = at
        self.number = 0  # of the current step
        if at > len(data):
            raise _Bad(DataFault.ENDS_EARLY, 0)

    def run(self, number: int, depth: int) -> Any:
        """The value of a step; None if it skips."""
        step = self.program.steps[number]
        self.number = number
        if depth > MAX_DEPTH:
            raise self.bad(DataFault.TOO_DEEP)
        match step.op:
            case DecodeOp.RECORD:
                return self._record(step, depth)
            case DecodeOp.UNION:
                branch = self._varint()
                if not 0 <= branch < len(step.children):
                    raise self.bad(DataFault.BAD_BRANCH)
                return self.run(step.children[branch], depth + 1)
            case DecodeOp.ARRAY:
                return self._items(number, step, depth, is_map=False)
            case DecodeOp.MAP:
                return self._items(number, step, depth, is_map=True)
            case DecodeOp.MEMBER:
                name = self.program.columns[step.column].arrow[step.size].name
                return {name: self.run(step.children[0], depth + 1)}
            case DecodeOp.CONSTANT:
                return _ValueReader(self.program, step.data, 0).run(step.children[0], depth + 1)
            case DecodeOp.FAIL:
                raise self.bad(DataFault.UNRESOLVED)
        return self._plain(step)

    def _plain(self, step: DecodeStep) -> Any:
        match step.op:
            case DecodeOp.BOOL:
                return self._take(1) != b"\0"
            case DecodeOp.INT | DecodeOp.LONG:
                value = self._varint()
                if not step.low <= value <= step.high:
                    raise self.bad(DataFault.OUT_OF_RANGE)
                return value
            case DecodeOp.VARINT_TO_FLOAT:
                return _FLOAT.unpack(_FLOAT.pack(self._varint()))[0]
            case DecodeOp.VARINT_TO_DOUBLE:
                return float(self._varint())
            case DecodeOp.FLOAT | DecodeOp.FLOAT_TO_DOUBLE:
                return _FLOAT.unpack(self._take(4))[0]
            case DecodeOp.DOUBLE:
                return _DOUBLE.unpack(self._take(8))[0]
            case DecodeOp.BYTES:
                return self._take(self._varint())
            case DecodeOp.STRING:
                return self._text()
            case DecodeOp.FIXED | DecodeOp.SKIP_FIXED:
                return self._take(step.size)
            case DecodeOp.ENUM:
                return self._symbol(step)
            case DecodeOp.DECIMAL:
                return self._decimal(step, self._take(self._varint()))
            case DecodeOp.FIXED_DECIMAL:
                return self._decimal(step, self._take(step.size))
            case DecodeOp.SKIP_VARINT:
                self._varint()
            case DecodeOp.SKIP_BYTES:
                self._take(self._varint())
        return None  # NULL, NOTHING

    def bad(self, fault: DataFault) -> _Bad:
        return _Bad(fault, self.number)

    def _record(self, step: DecodeStep, depth: int) -> dict[str, Any] | None:
        found = {}
        for child in step.children:
            value = self.run(child, depth + 1)
            found[self._column_of(child)] = value
        if step.column == NO_COLUMN:
            return None
        columns = self.program.columns[step.column]
        return {field.name: found.get(number) for field, number in zip(columns.arrow, columns.children, strict=True)}

    def _column_of(self, number: int) -> int:
        """The column to which a step appends. The branches of a union append to the same one, or fail."""
        step = self.program.steps[number]
        if step.op is DecodeOp.CONSTANT:
            return self._column_of(step.children[0])
        if step.op is DecodeOp.UNION:
            steps = self.program.steps
            resolved = [one for one in step.children if steps[one].op is not DecodeOp.FAIL]
            # A union that is skipped may contain itself; all its branches append to no column.
            return steps[resolved[0]].column if resolved else NO_COLUMN
        return step.column

    def _items(self, number: int, step: DecodeStep, depth: int, *, is_map: bool) -> list[Any]:
        found: list[Any] = []
        while True:
            self.number = number
            count = self._varint()
            if count == 0:
                return found
            if count < 0:
                count = -count
                self._varint()  # the bytes of the block
            left = len(self.data) - self.at
            if count > (MAX_EMPTY_ITEMS if step.may_be_empty else left):
                raise self.bad(DataFault.TOO_MANY_ITEMS if step.may_be_empty else DataFault.BAD_LENGTH)
            for _ in range(count):
                self.number = number
                if is_map:
                    key = self._text()
                    found.append((key, self.run(step.children[0], depth + 1)))
                else:
                    found.append(self.run(step.children[0], depth + 1))

    def _symbol(self, step: DecodeStep) -> str:
        number = self._varint()
        symbol = step.symbols[number] if 0 <= number < len(step.symbols) else None
        if symbol is None:
            raise self.bad(DataFault.BAD_SYMBOL)
        return symbol.decode()

    def _decimal(self, step: DecodeStep, data: bytes) -> Decimal:
        unscaled = int.from_bytes(data, "big", signed=True)
        if abs(unscaled) >= 10**step.digits:
            raise self.bad(DataFault.LARGE_DECIMAL)
        digits = tuple(int(one) for one in str(abs(unscaled)))
        return Decimal((unscaled < 0, digits, -self.program.columns[step.column].arrow.scale))

    def _varint(self) -> int:
        value = shift = 0
        while True:
            if self.at >= len(self.data):
                raise self.bad(DataFault.ENDS_EARLY)
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                break
            shift += 7
            if shift > 63:
                raise self.bad(DataFault.BAD_NUMBER)
        value &= 2**64 - 1
        return (value >> 1) ^ -(value & 1)

    def _take(self, size: int) -> bytes:
        if size < 0:
            raise self.bad(DataFault.BAD_LENGTH)
        if size > len(self.data) - self.at:
            raise self.bad(DataFault.ENDS_EARLY)
        self.at += size
        return self.data[self.at - size : self.at]

    def _text(self) -> str:
        try:
            return self._take(self._varint()).decode()
        except UnicodeDecodeError:
            raise self.bad(DataFault.NOT_UTF8) from None
