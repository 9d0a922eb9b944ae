"""Avro values as JSON, for people: `moldau consume` prints them, `moldau produce` reads them.

Numbers, texts, lists and objects stand for themselves. Bytes are a text with one character per byte, as in Avro's own
JSON encoding. Dates, times and timestamps are in ISO 8601, decimals and UUIDs are texts. A value of a union is written
without the name of its branch; `{"string": "x"}`, as Avro's JSON encoding has it, is read too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

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

INT_BITS: Final = 31
LONG_BITS: Final = 63


def to_json(value: Any) -> Any:
    """A value as fastavro returns it, as JSON knows it."""
    if isinstance(value, dict):
        return {name: to_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [to_json(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, str | int | float | None):
        return value
    return str(value)  # Decimal, UUID


def from_json(kind: AvroType, value: Any, place: str = "") -> Any:
    """A value for fastavro. Raises SchemaError, which names the field."""
    match kind:
        case RecordType():
            return _record(kind, value, place)
        case UnionType():
            return _union(kind, value, place)
        case ArrayType():
            _expect(isinstance(value, list), "a list", value, place)
            return [from_json(kind.items, one, f"{place}[{index}]") for index, one in enumerate(value)]
        case MapType():
            _expect(isinstance(value, dict), "an object", value, place)
            return {name: from_json(kind.values, one, f"{place}.{name}") for name, one in value.items()}
        case EnumType():
            _expect(value in kind.symbols, f"one of {', '.join(kind.symbols)}", value, place)
            return value
    if kind.logical is not None and (convert := _LOGICAL.get(kind.logical.name)) is not None and _is_text(value, kind):
        try:
            return convert(value)
        except (ValueError, InvalidOperation):
            raise SchemaError(f"{_where(place)}: {value!r} is not of type {kind.logical.name}") from None
    return _plain(kind, value, place)


def _record(kind: RecordType, value: Any, place: str) -> dict[str, Any]:
    _expect(isinstance(value, dict), f"an object ({kind.name.full})", value, place)
    types = {field.name: field.type for field in kind.fields}
    unknown = [name for name in value if name not in types]
    if unknown:
        raise SchemaError(f"{_where(place)}: {kind.name.full} has no field {unknown[0]!r}; it has {', '.join(types)}")
    return {name: from_json(types[name], one, f"{place}.{name}") for name, one in value.items()}


def _union(kind: UnionType, value: Any, place: str) -> Any:
    """The value of the branch that is named, or else of the first branch that it fits."""
    if isinstance(value, dict) and len(value) == 1:
        name, inner = next(iter(value.items()))
        for branch in kind.branches:
            if _branch_name(branch) == name:
                found = from_json(branch, inner, place)
                return (name, found) if isinstance(branch, NamedType) else found
    problems: list[str] = []
    for branch in kind.branches:
        try:
            found = from_json(branch, value, place)
        except SchemaError as error:
            problems.append(str(error))
        else:
            return (branch.name.full, found) if isinstance(branch, RecordType) else found
    raise SchemaError(problems[-1] if len(kind.branches) == 2 else f"{_where(place)}: no branch of the union fits")


def _branch_name(kind: AvroType) -> str:
    return kind.name.full if isinstance(kind, NamedType) else kind.kind


def _plain(kind: AvroType, value: Any, place: str) -> Any:
    match kind.kind:
        case "null":
            _expect(value is None, "null", value, place)
        case "boolean":
            _expect(isinstance(value, bool), "true or false", value, place)
        case "int" | "long":
            bits = INT_BITS if kind.kind == "int" else LONG_BITS
            is_number = isinstance(value, int) and not isinstance(value, bool)
            _expect(is_number and -(1 << bits) <= value < 1 << bits, f"an {kind.kind}", value, place)
        case "float" | "double":
            _expect(isinstance(value, int | float) and not isinstance(value, bool), "a number", value, place)
            return float(value)
        case "string":
            _expect(isinstance(value, str), "a text", value, place)
        case _:
            return _bytes(kind, value, place)
    return value


def _bytes(kind: AvroType, value: Any, place: str) -> bytes:
    _expect(isinstance(value, str), "a text with one character per byte", value, place)
    try:
        found: bytes = value.encode("latin-1")
    except UnicodeEncodeError:
        raise SchemaError(f"{_where(place)}: a character of {value!r} is no byte") from None
    if isinstance(kind, FixedType):
        _expect(len(found) == kind.size, f"a text of {kind.size} characters", value, place)
    return found


def _is_text(value: Any, kind: AvroType) -> bool:
    """Whether the value is the text of a logical type. Bytes of a decimal are texts too: it must look like a number."""
    if kind.logical is not None and kind.logical.name == "decimal":
        return isinstance(value, str | int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def _timestamp(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _local_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


_LOGICAL: Final[dict[str, Callable[[Any], Any]]] = {
    "timestamp-millis": _timestamp,
    "timestamp-micros": _timestamp,
    "local-timestamp-millis": _local_timestamp,
    "local-timestamp-micros": _local_timestamp,
    "date": date.fromisoformat,
    "time-millis": time.fromisoformat,
    "time-micros": time.fromisoformat,
    "decimal": lambda value: Decimal(str(value)),
}


def _expect(fits: bool, wanted: str, value: Any, place: str) -> None:
    if not fits:
        raise SchemaError(f"{_where(place)}: expected {wanted}, got {value!r}")


def _where(place: str) -> str:
    return f"field {place.removeprefix('.')}" if place else "the value"
