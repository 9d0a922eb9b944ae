"""Encode plan: the parts of an Arrow array that become Avro data, each in the layout that the encoders read.

Columns are matched with fields by name. A field without column takes its default value. Types are cast where no value
changes: wider integers that fit, other units of time, dictionaries. A column that the schema does not have is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from moldau.records.arrow import require_pyarrow
from moldau.schemas.avro.types import (
    NO_DEFAULT,
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    MapType,
    RecordType,
    UnionType,
)
from moldau.schemas.avro_columns.arrow_types import Storage, branch_names, branches, columns_of, is_decimal
from moldau.schemas.avro_columns.default_data import default_bytes
from moldau.schemas.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa


class EncodeOp(IntEnum):
    """What becomes of an entry. The native code has the same numbers."""

    NULL = 0
    BOOL = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    FIXED = 7
    ENUM = 8  # numbers of symbols; -1: none
    DECIMAL = 9
    FIXED_DECIMAL = 10
    RECORD = 11
    ARRAY = 12
    MAP = 13
    UNION = 14  # a struct with a field per branch
    CONSTANT = 15


class EncodeFault(IntEnum):
    """Why a row has no Avro data. The native code has the same numbers."""

    NO_VALUE = 1
    NO_SYMBOL = 2
    NO_BRANCH = 3
    MANY_BRANCHES = 4
    LARGE_DECIMAL = 5
    COLUMN_FULL = 6


_MESSAGES: Final = {
    EncodeFault.NO_VALUE: "null for a required value",
    EncodeFault.NO_SYMBOL: "the enum has no such symbol",
    EncodeFault.NO_BRANCH: "no branch of the union has a value",
    EncodeFault.MANY_BRANCHES: "more than one branch of the union has a value",
    EncodeFault.LARGE_DECIMAL: "the decimal has more bytes than its fixed type",
    EncodeFault.COLUMN_FULL: "the data has more than 2 GiB; encode fewer rows at a time",
}


@dataclass
class EncodeNode:
    """A part of the schema with its column."""

    op: EncodeOp
    where: str
    array: Any = None
    """The column in Arrow's layout of its storage: times are integers, symbols are numbers."""
    children: list[EncodeNode] = field(default_factory=list)
    size: int = 0
    data: bytes = b""
    """The default value of CONSTANT."""
    value_branches: tuple[int, ...] = ()
    """The numbers of the union's branches that have a value; empty: this is not a union."""
    null_branch: int = -1

    def describe(self, fault: int) -> str:
        message = _MESSAGES[EncodeFault(fault)]
        return f"field {self.where}: {message}" if self.where else message


def plan_encoder(kind: AvroType, array: pa.Array, where: str = "") -> EncodeNode:
    """The plan of a column. Raises SchemaError if its type does not fit the schema."""
    array = _plain(array)
    if isinstance(kind, UnionType):
        return _union(kind, array, where)
    match kind:
        case RecordType():
            return _record(kind, array, where)
        case ArrayType():
            return _list(kind, array, where)
        case MapType():
            return _map(kind, array, where)
    return _leaf(kind, array, where)


def _plain(array: Any) -> Any:
    """Without extension type, dictionary or run ends."""
    pa = require_pyarrow()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        import pyarrow.compute as pc

        return pc.run_end_decode(array)
    return array


def _refused(where: str, array: Any, wanted: str) -> SchemaError:
    place = f"field {where}" if where else "the value"
    return SchemaError(f"{place}: Arrow type {array.type} does not become Avro's {wanted}")


def _union(kind: UnionType, array: Any, where: str) -> EncodeNode:
    rest, with_null = branches(kind)
    numbers = tuple(i for i, one in enumerate(kind.branches) if one.kind != "null")
    null_branch = next((i for i, one in enumerate(kind.branches) if one.kind == "null"), -1) if with_null else -1
    if len(rest) <= 1:
        node = plan_encoder(rest[0], array, where) if rest else EncodeNode(EncodeOp.NULL, where, array)
        node.value_branches, node.null_branch = numbers or (null_branch,), null_branch
        return node
    pa = require_pyarrow()
    names = branch_names(rest)
    if not pa.types.is_struct(array.type) or not {one.name for one in array.type} <= set(names):
        raise _refused(where, array, f"union of {', '.join(names)}: that is a struct with these fields")
    node = EncodeNode(EncodeOp.UNION, where, array, null_branch=null_branch)
    found = [(i, name, one) for i, name, one in zip(numbers, names, rest, strict=True) if name in _names(array)]
    node.value_branches = tuple(one[0] for one in found)
    node.children = [plan_encoder(one[2], array.field(one[1]), f"{where}.{one[1]}") for one in found]
    return node


def _names(array: Any) -> list[str]:
    return [one.name for one in array.type]


def _record(kind: RecordType, array: Any, where: str) -> EncodeNode:
    if not require_pyarrow().types.is_struct(array.type):
        raise _refused(where, array, f"record {kind.name.full}")
    names = _names(array)
    unknown = sorted(set(names) - {one.name for one in kind.fields})
    if unknown:
        path = f"{where}.{unknown[0]}" if where else unknown[0]
        raise SchemaError(f"field {path}: the Avro record {kind.name.full} has no such field")
    children = []
    for one in kind.fields:
        path = f"{where}.{one.name}" if where else one.name
        if one.name in names:
            children.append(plan_encoder(one.type, array.field(one.name), path))
        elif one.default is not NO_DEFAULT:
            children.append(EncodeNode(EncodeOp.CONSTANT, path, data=default_bytes(one.type, one.default)))
        else:
            raise SchemaError(f"field {path}: there is no such column, and the field has no default value")
    return EncodeNode(EncodeOp.RECORD, where, array, children)


def _list(kind: ArrayType, array: Any, where: str) -> EncodeNode:
    pa = require_pyarrow()
    if pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if not pa.types.is_list(array.type):
        raise _refused(where, array, "array")
    return EncodeNode(EncodeOp.ARRAY, where, array, [plan_encoder(kind.items, array.values, where)])


def _map(kind: MapType, array: Any, where: str) -> EncodeNode:
    pa = require_pyarrow()
    if not pa.types.is_map(array.type):
        raise _refused(where, array, "map")
    keys = EncodeNode(EncodeOp.BYTES, where, _cast(array.keys, pa.string(), where, "map key"))
    return EncodeNode(EncodeOp.MAP, where, array, [keys, plan_encoder(kind.values, array.items, where)])


_OPS: Final = {
    Storage.NULL: EncodeOp.NULL,
    Storage.BOOL: EncodeOp.BOOL,
    Storage.INT32: EncodeOp.INT,
    Storage.INT64: EncodeOp.LONG,
    Storage.FLOAT: EncodeOp.FLOAT,
    Storage.DOUBLE: EncodeOp.DOUBLE,
    Storage.BINARY: EncodeOp.BYTES,
    Storage.FIXED: EncodeOp.FIXED,
}


def _leaf(kind: AvroType, array: Any, where: str) -> EncodeNode:
    pa = require_pyarrow()
    column = columns_of(kind)[0]
    array = _cast(array, column.arrow, where, kind.kind)
    if isinstance(kind, EnumType):
        return EncodeNode(EncodeOp.ENUM, where, _symbol_numbers(kind, array))
    if is_decimal(kind):
        size = kind.size if isinstance(kind, FixedType) else 0
        return EncodeNode(EncodeOp.FIXED_DECIMAL if size else EncodeOp.DECIMAL, where, array, size=size)
    if column.storage in (Storage.INT32, Storage.INT64):
        array = array.cast(pa.int32() if column.storage is Storage.INT32 else pa.int64())
    return EncodeNode(_OPS[column.storage], where, array, size=column.size)


def _cast(array: Any, wanted: Any, where: str, name: str) -> Any:
    pa = require_pyarrow()
    if array.type == wanted:
        return array
    if _is_text(array.type) != _is_text(wanted) and not pa.types.is_null(array.type):
        raise _refused(where, array, name)  # Arrow would parse or print numbers
    try:
        # A double becomes a float as Avro's writers make one: rounded.
        return array.cast(wanted, safe=not pa.types.is_float32(wanted))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"{_refused(where, array, name)}: {error}") from None


def _is_text(kind: Any) -> bool:
    """Strings and bytes: a cast between them changes no byte."""
    types = require_pyarrow().types
    checks = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary)
    return any(one(kind) for one in (*checks, types.is_binary_view, types.is_fixed_size_binary))


def _symbol_numbers(kind: EnumType, array: Any) -> Any:
    """The number of each symbol; -1 for a text that is no symbol."""
    pa = require_pyarrow()
    import pyarrow.compute as pc

    numbers = pc.index_in(array, value_set=pa.array(kind.symbols, pa.string()))
    if numbers.null_count == array.null_count:
        return numbers
    return pc.if_else(pc.and_(numbers.is_null(), array.is_valid()), pa.scalar(-1, pa.int32()), numbers)
