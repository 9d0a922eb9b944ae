"""Binary form of default values: what a record without the field would have had in its bytes."""

from __future__ import annotations

import struct
from typing import Any

from moldau.schemas.avro.default_values import fits
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
from moldau.schemas.errors import SchemaError


def varint(number: int) -> bytes:
    """A number in zigzag form, seven bits per byte, lowest first."""
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def default_bytes(kind: AvroType, value: Any) -> bytes:
    """The Avro data of a default value in its JSON form. Raises SchemaError if it does not fit the type."""
    try:
        return _encoded(kind, value)
    except (TypeError, ValueError, KeyError, AttributeError, struct.error) as error:
        raise SchemaError(f"the default value {value!r} does not fit the Avro type {kind.kind}: {error}") from None


def _encoded(kind: AvroType, value: Any) -> bytes:
    match kind:
        case RecordType():
            return b"".join(_encoded(one.type, _field_value(value, one.name, one.default)) for one in kind.fields)
        case EnumType():
            return varint(kind.symbols.index(value))
        case ArrayType():
            return _blocks([_encoded(kind.items, one) for one in value])
        case MapType():
            return _blocks([_text(key) + _encoded(kind.values, one) for key, one in value.items()])
        case UnionType():
            return _branch(kind, value)
        case FixedType():
            data = value.encode("latin-1")
            if len(data) != kind.size:
                raise ValueError(f"{len(data)} bytes instead of {kind.size}")
            return bytes(data)
    match kind.kind:
        case "null":
            if value is not None:
                raise ValueError("not null")
            return b""
        case "boolean":
            return b"\1" if value else b"\0"
        case "int" | "long":
            return varint(int(value))
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "bytes":
            data = value.encode("latin-1")
            return varint(len(data)) + bytes(data)
    return _text(value)


def _field_value(value: Any, name: str, default: Any) -> Any:
    if name not in value and default is not NO_DEFAULT:
        return default
    return value[name]


def _branch(union: UnionType, value: Any) -> bytes:
    """The first branch that the value fits; up to Avro 1.11 it had to be the first branch of all."""
    number = next((i for i, one in enumerate(union.branches) if fits(value, one)), None)
    if number is None:
        raise ValueError("no branch of the union fits")
    return varint(number) + _encoded(union.branches[number], value)


def _text(value: str) -> bytes:
    data = value.encode()
    return varint(len(data)) + data


def _blocks(items: list[bytes]) -> bytes:
    return (varint(len(items)) + b"".join(items) if items else b"") + b"\0"
