"""Arrow types of Avro schemas: the columns into which values are decoded.

| Avro | Arrow |
|---|---|
| null, boolean, int, long, float, double, bytes, string | null, bool, int32, int64, float, double, binary, string |
| record, array, map, fixed, enum | struct, list, map, fixed_size_binary, string |
| union of null and one type | that type, nullable |
| other unions | struct with a nullable field per branch: the field of the value's branch is set, all others are null |
| decimal | decimal128, or decimal256 beyond 38 digits; beyond 76 digits the bytes |
| date, time-millis, time-micros | date32, time32(ms), time64(us) |
| timestamp-millis, -micros, -nanos | timestamp(ms, us, ns) in UTC; local-timestamp-… without a time zone |
| uuid, duration | string or fixed_size_binary |

A record that contains itself has no Arrow type: it is refused with SchemaError.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from moldau.records.arrow import require_pyarrow
from moldau.schemas.avro.types import (
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    MapType,
    NamedType,
    RecordType,
    UnionType,
)
from moldau.schemas.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

MAX_COLUMNS: Final = 10_000
"""Columns of one schema, nested ones included: each costs memory for every batch."""
MAX_DECIMAL_128: Final = 38
MAX_DECIMAL: Final = 76

NO_COLUMN: Final = -1
"""The column of what is skipped."""


class Storage(IntEnum):
    """How a column keeps its entries. The native code has the same numbers."""

    NULL = 0
    BOOL = 1
    INT32 = 2
    INT64 = 3
    FLOAT = 4
    DOUBLE = 5
    BINARY = 6
    FIXED = 7
    STRUCT = 8
    LIST = 9
    MAP = 10


@dataclass(frozen=True)
class AvroColumn:
    """A column of a schema; `children` are the numbers of nested columns."""

    storage: Storage
    arrow: pa.DataType
    nullable: bool
    children: tuple[int, ...] = ()
    size: int = 0
    """The bytes of an entry with storage FIXED."""


def branches(union: UnionType) -> tuple[list[AvroType], bool]:
    """The branches of a union without null, and whether null is one of its branches."""
    rest = [one for one in union.branches if one.kind != "null"]
    return rest, len(rest) < len(union.branches)


def branch_names(found: list[AvroType]) -> list[str]:
    """The field names of a union's branches: the name without namespace; with it where two would be the same."""
    short = [one.name.name if isinstance(one, NamedType) else one.kind for one in found]
    full = [one.name.full if isinstance(one, NamedType) else one.kind for one in found]
    return [name if short.count(name) == 1 else full[i] for i, name in enumerate(short)]


def is_decimal(kind: AvroType) -> bool:
    logical = kind.logical
    return logical is not None and logical.name == "decimal" and 0 < (logical.precision or 0) <= MAX_DECIMAL


def arrow_type(kind: AvroType) -> pa.DataType:
    """The Arrow type of values of an Avro type."""
    return columns_of(kind)[0].arrow


def columns_of(kind: AvroType) -> list[AvroColumn]:
    """The columns of a type; the first one is that of the whole value, which may be null: a record without value."""
    made = _Columns()
    made.add(kind, nullable=True)
    return [one for one in made.columns if one is not None]


class _Columns:
    """Columns in the order in which a walk over the type meets them: parents before children."""

    def __init__(self) -> None:
        self.columns: list[AvroColumn | None] = []
        self.open: list[str] = []
        self.pa = require_pyarrow()

    def add(self, kind: AvroType, *, nullable: bool) -> int:
        if len(self.columns) >= MAX_COLUMNS:
            raise SchemaError(f"the Avro schema has more than {MAX_COLUMNS} columns; read it without Arrow")
        number = len(self.columns)
        self.columns.append(None)
        self.columns[number] = self._column(kind, nullable)
        return number

    def _type(self, number: int) -> Any:
        column = self.columns[number]
        assert column is not None
        return column.arrow

    def _field(self, name: str, number: int) -> Any:
        column = self.columns[number]
        assert column is not None
        return self.pa.field(name, column.arrow, nullable=column.nullable)

    def _column(self, kind: AvroType, nullable: bool) -> AvroColumn:
        pa = self.pa
        match kind:
            case RecordType():
                return self._record(kind, nullable)
            case UnionType():
                return self._union(kind, nullable)
            case ArrayType():
                item = self.add(kind.items, nullable=False)
                return AvroColumn(Storage.LIST, pa.list_(self._field("item", item)), nullable, (item,))
            case MapType():
                key = len(self.columns)
                self.columns.append(AvroColumn(Storage.BINARY, pa.string(), nullable=False))
                value = self.add(kind.values, nullable=False)
                arrow = pa.map_(self._field("key", key), self._field("value", value))
                return AvroColumn(Storage.MAP, arrow, nullable, (key, value))
            case EnumType():
                return AvroColumn(Storage.BINARY, pa.string(), nullable)
        if is_decimal(kind):
            return self._decimal(kind, nullable)
        if isinstance(kind, FixedType):
            return AvroColumn(Storage.FIXED, pa.binary(kind.size), nullable, size=kind.size)
        if kind.logical is not None and (kind.kind, kind.logical.name) in _LOGICAL:
            storage, make = _LOGICAL[kind.kind, kind.logical.name]
            return AvroColumn(storage, make(pa), nullable)
        storage, name = _PRIMITIVES[kind.kind]
        return AvroColumn(storage, getattr(pa, name)(), nullable or storage is Storage.NULL)

    def _record(self, kind: RecordType, nullable: bool) -> AvroColumn:
        name = kind.name.full
        if name in self.open:
            raise SchemaError(
                f"the Avro record {name} contains itself; Arrow has no recursive types: read it without Arrow, or "
                "with a reader's schema that leaves the field out"
            )
        self.open.append(name)
        numbers = [self.add(one.type, nullable=False) for one in kind.fields]
        self.open.pop()
        fields = [self._field(one.name, number) for one, number in zip(kind.fields, numbers, strict=True)]
        return AvroColumn(Storage.STRUCT, self.pa.struct(fields), nullable, tuple(numbers))

    def _union(self, kind: UnionType, nullable: bool) -> AvroColumn:
        rest, with_null = branches(kind)
        if not rest:
            return AvroColumn(Storage.NULL, self.pa.null(), nullable=True)
        if len(rest) == 1:
            return self._column(rest[0], nullable or with_null)
        numbers = [self.add(one, nullable=True) for one in rest]
        fields = [self._field(name, number) for name, number in zip(branch_names(rest), numbers, strict=True)]
        return AvroColumn(Storage.STRUCT, self.pa.struct(fields), nullable or with_null, tuple(numbers))

    def _decimal(self, kind: AvroType, nullable: bool) -> AvroColumn:
        assert kind.logical is not None
        precision, scale = kind.logical.precision or 0, kind.logical.scale
        if precision > MAX_DECIMAL_128:
            return AvroColumn(Storage.FIXED, self.pa.decimal256(precision, scale), nullable, size=32)
        return AvroColumn(Storage.FIXED, self.pa.decimal128(precision, scale), nullable, size=16)


_PRIMITIVES: Final = {
    "null": (Storage.NULL, "null"),
    "boolean": (Storage.BOOL, "bool_"),
    "int": (Storage.INT32, "int32"),
    "long": (Storage.INT64, "int64"),
    "float": (Storage.FLOAT, "float32"),
    "double": (Storage.DOUBLE, "float64"),
    "bytes": (Storage.BINARY, "binary"),
    "string": (Storage.BINARY, "string"),
}

_LOGICAL: Final[dict[tuple[str, str], tuple[Storage, Any]]] = {
    ("int", "date"): (Storage.INT32, lambda pa: pa.date32()),
    ("int", "time-millis"): (Storage.INT32, lambda pa: pa.time32("ms")),
    ("long", "time-micros"): (Storage.INT64, lambda pa: pa.time64("us")),
    ("long", "timestamp-millis"): (Storage.INT64, lambda pa: pa.timestamp("ms", tz="UTC")),
    ("long", "timestamp-micros"): (Storage.INT64, lambda pa: pa.timestamp("us", tz="UTC")),
    ("long", "timestamp-nanos"): (Storage.INT64, lambda pa: pa.timestamp("ns", tz="UTC")),
    ("long", "local-timestamp-millis"): (Storage.INT64, lambda pa: pa.timestamp("ms")),
    ("long", "local-timestamp-micros"): (Storage.INT64, lambda pa: pa.timestamp("us")),
    ("long", "local-timestamp-nanos"): (Storage.INT64, lambda pa: pa.timestamp("ns")),
}
