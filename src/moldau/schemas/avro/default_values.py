"""Default values of fields: does a JSON value fit a type, and its normalized form.

A union takes the default of any of its branches, as the specification of Avro 1.12 allows.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from moldau.schemas.avro.types import (
    NO_DEFAULT,
    ArrayType,
    AvroType,
    EnumType,
    FixedType,
    MapType,
    Primitive,
    RecordField,
    RecordType,
    UnionType,
)

INT_BITS: Final = {"int": 31, "long": 63}


def fits(value: Any, avro: AvroType, pending: frozenset[int] = frozenset()) -> bool:
    """Is this JSON value a value of the type? A record may leave out fields that have a default.

    `pending` has the ids of fields whose default is being looked at: a default that needs itself has no end.
    """
    match avro:
        case Primitive():
            return _fits_primitive(value, avro.kind)
        case EnumType() | FixedType():
            return isinstance(value, str)
        case ArrayType():
            return isinstance(value, list) and all(fits(item, avro.items, pending) for item in value)
        case MapType():
            return isinstance(value, dict) and all(fits(item, avro.values, pending) for item in value.values())
        case UnionType():
            return any(fits(value, branch, pending) for branch in avro.branches)
        case RecordType():
            return isinstance(value, dict) and all(_has_field(value, field, pending) for field in avro.fields)


def _has_field(value: dict[str, Any], field: RecordField, pending: frozenset[int]) -> bool:
    if field.name in value:
        return fits(value[field.name], field.type, pending)
    if field.default is NO_DEFAULT or id(field) in pending:
        return False
    return fits(field.default, field.type, pending | {id(field)})


def _fits_primitive(value: Any, kind: str) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            limit = 1 << INT_BITS[kind]
            return is_number and isinstance(value, int) and -limit <= value < limit
        case "float" | "double":
            return is_number
        case _:
            return isinstance(value, str)


def normalized_default(value: Any, avro: AvroType) -> Any:
    """The same value in one form: numbers as the type has them, members of maps and records sorted."""
    match avro:
        case Primitive(kind="double") if isinstance(value, int) and not isinstance(value, bool):
            number = _as_float(value)
            return value if number is None else number
        case Primitive(kind="float") if isinstance(value, int | float) and not isinstance(value, bool):
            number = _as_float(value)
            return value if number is None else _single(number)
        case ArrayType() if isinstance(value, list):
            return [normalized_default(item, avro.items) for item in value]
        case MapType() if isinstance(value, dict):
            return {key: normalized_default(value[key], avro.values) for key in sorted(value)}
        case RecordType() if isinstance(value, dict):
            types = {field.name: field.type for field in avro.fields}
            return {
                key: normalized_default(value[key], types[key]) if key in types else sorted_members(value[key])
                for key in sorted(value)
            }
        case UnionType():
            branch = next((branch for branch in avro.branches if fits(value, branch)), None)
            return value if branch is None else normalized_default(value, branch)
        case _:
            return sorted_members(value)


def sorted_members(value: Any) -> Any:
    """A JSON value with the members of its objects in the order of their names."""
    if isinstance(value, dict):
        return {key: sorted_members(value[key]) for key in sorted(value)}
    return [sorted_members(item) for item in value] if isinstance(value, list) else value


def _single(number: float) -> float:
    """The number with the fewest digits that is the same number in single precision; itself if it is too large."""
    wanted = _single_bytes(number)
    shorter = (float(f"{number:.{digits}g}") for digits in range(1, 10))
    return number if wanted is None else next((short for short in shorter if _single_bytes(short) == wanted), number)


def _single_bytes(number: float) -> bytes | None:
    try:
        return struct.pack(">f", number)
    except OverflowError:
        return None


def _as_float(number: float) -> float | None:
    """The number as a float; None for an int that is too large for one."""
    try:
        return float(number)
    except OverflowError:
        return None
