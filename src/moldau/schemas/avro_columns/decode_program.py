"""Decode program: the steps that turn Avro data of a writer's schema into the columns of a reader's schema.

A step reads some bytes of the writer's data and appends one entry to its column. Schema resolution happens here, once
per pair of schemas: promotions have steps of their own, fields that the reader does not have are skipped, fields that
the writer does not have are read from the bytes of their default value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from moldau.schemas.avro.types import (
    NO_DEFAULT,
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    MapType,
    NamedType,
    RecordField,
    RecordType,
    UnionType,
)
from moldau.schemas.avro_columns.arrow_types import (
    NO_COLUMN,
    AvroColumn,
    branches,
    columns_of,
    is_decimal,
)
from moldau.schemas.avro_columns.default_data import default_bytes
from moldau.schemas.errors import SchemaError

MAX_EMPTY_ITEMS: Final = 1_000_000
"""Items of one block of an array that need no bytes (nulls, empty records): the data does not bound their number."""
MAX_DEPTH: Final = 200
"""Levels of nested values: data that is skipped may contain itself."""


class DecodeOp(IntEnum):
    """What a step does. The native code has the same numbers."""

    FAIL = 0  # the reader has no type for this branch of the writer
    NOTHING = 1
    SKIP_FIXED = 2
    SKIP_VARINT = 3
    SKIP_BYTES = 4
    RECORD = 5
    UNION = 6
    ARRAY = 7
    MAP = 8
    NULL = 9
    BOOL = 10
    INT = 11
    LONG = 12
    VARINT_TO_FLOAT = 13
    VARINT_TO_DOUBLE = 14
    FLOAT = 15
    FLOAT_TO_DOUBLE = 16
    DOUBLE = 17
    BYTES = 18
    STRING = 19
    FIXED = 20
    ENUM = 21
    DECIMAL = 22  # of bytes
    FIXED_DECIMAL = 23
    MEMBER = 24  # a value of one branch of the reader's union
    CONSTANT = 25  # a default value


class DataFault(IntEnum):
    """Why a value cannot be decoded. The native code has the same numbers."""

    ENDS_EARLY = 1
    BAD_NUMBER = 2
    BAD_LENGTH = 3
    BAD_BRANCH = 4
    BAD_SYMBOL = 5
    NOT_UTF8 = 6
    OUT_OF_RANGE = 7
    LARGE_DECIMAL = 8
    TOO_MANY_ITEMS = 9
    UNRESOLVED = 10
    TOO_DEEP = 11
    COLUMN_FULL = 12


_MESSAGES: Final = {
    DataFault.ENDS_EARLY: "the data ends too early",
    DataFault.BAD_NUMBER: "a number has too many bytes",
    DataFault.BAD_LENGTH: "a length or count is negative, or larger than the data",
    DataFault.BAD_BRANCH: "the union has no such branch",
    DataFault.BAD_SYMBOL: "the enum has no such symbol",
    DataFault.NOT_UTF8: "a string is not valid UTF-8",
    DataFault.OUT_OF_RANGE: "a number is out of the range of its type",
    DataFault.LARGE_DECIMAL: "a decimal has more digits than its type",
    DataFault.TOO_MANY_ITEMS: f"an array or map has more than {MAX_EMPTY_ITEMS} items without data",
    DataFault.TOO_DEEP: f"values are nested in more than {MAX_DEPTH} levels",
    DataFault.COLUMN_FULL: "the column has more than 2 GiB or 2^31 entries; decode fewer rows at a time",
}


@dataclass(frozen=True)
class DecodeStep:
    """One step. Which parts are used depends on `op`."""

    op: DecodeOp
    column: int = NO_COLUMN
    children: tuple[int, ...] = ()
    size: int = 0
    """Bytes (fixed), the member's number (MEMBER)."""
    digits: int = 0
    """The precision of a decimal."""
    low: int = -(2**63)
    high: int = 2**63 - 1
    """The range of a number."""
    symbols: tuple[bytes | None, ...] = ()
    """The reader's symbol for each of the writer's; None: none."""
    data: bytes = b""
    """The default value of CONSTANT."""
    may_be_empty: bool = False
    """Items may have no bytes (ARRAY)."""
    where: str = ""
    """The field, for errors."""
    why: str = ""
    """The message of FAIL."""


@dataclass(frozen=True)
class DecodeProgram:
    """The program of a pair of schemas. DecodeStep and column 0 are those of the whole value."""

    steps: tuple[DecodeStep, ...]
    columns: tuple[AvroColumn, ...]

    def describe(self, fault: int, step: int) -> str:
        """The reason why a row is bad."""
        found = self.steps[step]
        if fault == DataFault.UNRESOLVED:
            return found.why  # names the field itself
        message = _MESSAGES[DataFault(fault)]
        return f"field {found.where}: {message}" if found.where else message


def compile_decoder(writer: AvroType, reader: AvroType) -> DecodeProgram:
    """The program that reads data of `writer` into columns of `reader`. Raises SchemaError if they do not resolve."""
    columns = columns_of(reader)
    compiler = _Compiler(columns)
    compiler.put(0, compiler.resolved(writer, reader, 0, ""))
    return DecodeProgram(tuple(one for one in compiler.steps if one is not None), tuple(columns))


_DAY_MS: Final = 86_400_000
_INT32: Final = (-(2**31), 2**31 - 1)

_PROMOTIONS: Final = {
    ("null", "null"): DecodeOp.NULL,
    ("boolean", "boolean"): DecodeOp.BOOL,
    ("int", "int"): DecodeOp.INT,
    ("int", "long"): DecodeOp.LONG,
    ("int", "float"): DecodeOp.VARINT_TO_FLOAT,
    ("int", "double"): DecodeOp.VARINT_TO_DOUBLE,
    ("long", "long"): DecodeOp.LONG,
    ("long", "float"): DecodeOp.VARINT_TO_FLOAT,
    ("long", "double"): DecodeOp.VARINT_TO_DOUBLE,
    ("float", "float"): DecodeOp.FLOAT,
    ("float", "double"): DecodeOp.FLOAT_TO_DOUBLE,
    ("double", "double"): DecodeOp.DOUBLE,
    ("bytes", "bytes"): DecodeOp.BYTES,
    ("string", "bytes"): DecodeOp.BYTES,
    ("bytes", "string"): DecodeOp.STRING,
    ("string", "string"): DecodeOp.STRING,
}

_SKIPPED: Final = {
    "null": DecodeStep(DecodeOp.NOTHING),
    "boolean": DecodeStep(DecodeOp.SKIP_FIXED, size=1),
    "int": DecodeStep(DecodeOp.SKIP_VARINT),
    "long": DecodeStep(DecodeOp.SKIP_VARINT),
    "float": DecodeStep(DecodeOp.SKIP_FIXED, size=4),
    "double": DecodeStep(DecodeOp.SKIP_FIXED, size=8),
    "bytes": DecodeStep(DecodeOp.SKIP_BYTES),
    "string": DecodeStep(DecodeOp.SKIP_BYTES),
    "enum": DecodeStep(DecodeOp.SKIP_VARINT),
}


class _Compiler:
    def __init__(self, columns: list[AvroColumn]) -> None:
        self.columns = columns
        self.steps: list[DecodeStep | None] = [None]
        self.skipped: dict[int, int] = {}

    def put(self, number: int, step: DecodeStep) -> None:
        self.steps[number] = step

    def add(self, step: DecodeStep) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def resolved(self, writer: AvroType, reader: AvroType, column: int, where: str) -> DecodeStep:
        """The step that reads the writer's type into the column of the reader's."""
        if isinstance(writer, UnionType):
            return self._writer_union(writer, reader, column, where)
        if isinstance(reader, UnionType):
            return self._reader_union(writer, reader, column, where)
        match writer, reader:
            case RecordType(), RecordType() if _same_name(writer, reader):
                return self._record(writer, reader, column, where)
            case EnumType(), EnumType() if _same_name(writer, reader):
                return DecodeStep(DecodeOp.ENUM, column, symbols=_symbols(writer, reader), where=where)
            case ArrayType(), ArrayType():
                item = self.add(self.resolved(writer.items, reader.items, self.columns[column].children[0], where))
                return DecodeStep(
                    DecodeOp.ARRAY, column, (item,), may_be_empty=_may_be_empty(writer.items), where=where
                )
            case MapType(), MapType():
                item = self.add(self.resolved(writer.values, reader.values, self.columns[column].children[1], where))
                return DecodeStep(DecodeOp.MAP, column, (item,), where=where)
            case FixedType(), FixedType() if _same_name(writer, reader) and writer.size == reader.size:
                return _decimal(writer, reader, DecodeStep(DecodeOp.FIXED, column, size=reader.size, where=where))
        op = _PROMOTIONS.get((writer.kind, reader.kind))
        if op is None:
            raise SchemaError(f"{_of(where)}data of type {_name(writer)} cannot be read as {_name(reader)}")
        low, high = _range(op, reader)
        return _decimal(writer, reader, DecodeStep(op, column, low=low, high=high, where=where))

    def _writer_union(self, writer: UnionType, reader: AvroType, column: int, where: str) -> DecodeStep:
        children = []
        last: SchemaError | None = None
        for one in writer.branches:
            try:
                step = self.resolved(one, reader, column, where)
            except SchemaError as error:
                step = DecodeStep(DecodeOp.FAIL, where=where, why=str(error))
                last = error
            children.append(step)
        if last is not None and all(one.op is DecodeOp.FAIL for one in children):
            raise last
        return DecodeStep(DecodeOp.UNION, NO_COLUMN, tuple(self.add(one) for one in children), where=where)

    def _reader_union(self, writer: AvroType, reader: UnionType, column: int, where: str) -> DecodeStep:
        rest, _ = branches(reader)
        if writer.kind == "null" and any(one.kind == "null" for one in reader.branches):
            return DecodeStep(DecodeOp.NULL, column, where=where)
        same = [one for one in rest if _is_same(writer, one)]
        for one in (*same, *rest):
            number = next(i for i, branch in enumerate(rest) if branch is one)
            member = column if len(rest) == 1 else self.columns[column].children[number]
            try:
                step = self.resolved(writer, one, member, where)
            except SchemaError:
                continue
            if len(rest) == 1:
                return step
            return DecodeStep(DecodeOp.MEMBER, column, (self.add(step),), size=number, where=where)
        raise SchemaError(f"{_of(where)}no branch of the reader's union can hold data of type {_name(writer)}")

    def _record(self, writer: RecordType, reader: RecordType, column: int, where: str) -> DecodeStep:
        columns = self.columns[column].children
        left = dict(enumerate(reader.fields))
        children = []
        for one in writer.fields:
            found = _reader_field(one, left)
            path = f"{where}.{one.name}" if where else one.name
            if found is None:
                children.append(self._skip(one.type, path))
            else:
                number, target = found
                del left[number]
                children.append(self.add(self.resolved(one.type, target.type, columns[number], path)))
        for number, missing in left.items():
            path = f"{where}.{missing.name}" if where else missing.name
            if missing.default is NO_DEFAULT:
                raise SchemaError(f"field {path}: the writer's schema has no such field, and it has no default value")
            step = self.add(self.resolved(missing.type, missing.type, columns[number], path))
            data = default_bytes(missing.type, missing.default)
            children.append(self.add(DecodeStep(DecodeOp.CONSTANT, NO_COLUMN, (step,), data=data, where=path)))
        return DecodeStep(DecodeOp.RECORD, column, tuple(children), where=where)

    def _skip(self, kind: AvroType, where: str) -> int:
        """The number of a step that skips a value. A type that contains itself has a step that refers to itself."""
        if id(kind) in self.skipped:
            return self.skipped[id(kind)]
        number = self.add(DecodeStep(DecodeOp.NOTHING))
        self.skipped[id(kind)] = number
        self.put(number, self._skip_step(kind, where))
        return number

    def _skip_step(self, kind: AvroType, where: str) -> DecodeStep:
        match kind:
            case RecordType():
                children = tuple(self._skip(one.type, f"{where}.{one.name}") for one in kind.fields)
                return DecodeStep(DecodeOp.RECORD, NO_COLUMN, children, where=where)
            case UnionType():
                return DecodeStep(
                    DecodeOp.UNION, NO_COLUMN, tuple(self._skip(one, where) for one in kind.branches), where=where
                )
            case ArrayType():
                item = self._skip(kind.items, where)
                return DecodeStep(
                    DecodeOp.ARRAY, NO_COLUMN, (item,), may_be_empty=_may_be_empty(kind.items), where=where
                )
            case MapType():
                return DecodeStep(DecodeOp.MAP, NO_COLUMN, (self._skip(kind.values, where),), where=where)
            case FixedType():
                return DecodeStep(DecodeOp.SKIP_FIXED, size=kind.size, where=where)
        return replace(_SKIPPED[kind.kind], where=where)


def _of(where: str) -> str:
    return f"field {where}: " if where else ""


def _name(kind: AvroType) -> str:
    return f"{kind.kind} {kind.name.full}" if isinstance(kind, NamedType) else kind.kind


def _same_name(writer: NamedType, reader: NamedType) -> bool:
    """Whether two names match: without namespace, or by an alias of the reader."""
    return writer.name.name == reader.name.name or any(
        writer.name.full == alias.full or writer.name.name == alias.name for alias in reader.aliases
    )


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    """Whether a branch of the reader's union is of the writer's type: preferred to one that the data is promoted to."""
    if isinstance(writer, NamedType) and isinstance(reader, NamedType):
        return writer.kind == reader.kind and writer.name.full == reader.name.full
    return writer.kind == reader.kind


def _reader_field(written: RecordField, left: dict[int, RecordField]) -> tuple[int, RecordField] | None:
    named = next((found for found in left.items() if found[1].name == written.name), None)
    return named or next((found for found in left.items() if written.name in found[1].aliases), None)


def _symbols(writer: EnumType, reader: EnumType) -> tuple[bytes | None, ...]:
    default = None if reader.default is None else reader.default.encode()
    return tuple(one.encode() if one in reader.symbols else default for one in writer.symbols)


def _range(op: DecodeOp, reader: AvroType) -> tuple[int, int]:
    logical = reader.logical.name if reader.logical is not None else ""
    if op is DecodeOp.INT and logical == "time-millis":
        return 0, _DAY_MS - 1
    if op is DecodeOp.LONG and logical == "time-micros":
        return 0, _DAY_MS * 1000 - 1
    return _INT32 if op is DecodeOp.INT else (-(2**63), 2**63 - 1)


def _decimal(writer: AvroType, reader: AvroType, step: DecodeStep) -> DecodeStep:
    """The step of a decimal, if the reader's type is one. Two decimals have to have the same scale."""
    if not is_decimal(reader):
        return step
    assert reader.logical is not None
    if is_decimal(writer):
        assert writer.logical is not None
        if writer.logical.scale != reader.logical.scale:
            raise SchemaError(
                f"{_of(step.where)}a decimal with {writer.logical.scale} digits after the point cannot be read as one "
                f"with {reader.logical.scale}"
            )
    op = DecodeOp.FIXED_DECIMAL if step.op is DecodeOp.FIXED else DecodeOp.DECIMAL
    return replace(step, op=op, digits=reader.logical.precision or 0)


def _may_be_empty(kind: AvroType, seen: tuple[str, ...] = ()) -> bool:
    """Whether values of a type may have no bytes."""
    match kind:
        case RecordType():
            if kind.name.full in seen:
                return True
            return all(_may_be_empty(one.type, (*seen, kind.name.full)) for one in kind.fields)
        case FixedType():
            return kind.size == 0
    return kind.kind == "null"
