"""Formats of keys: from the bytes of a record's key to key columns, and back.

    string    the text of the only key column
    json      the only key column as a JSON value, or an object of all key columns
    int, long, short, double    Kafka's big-endian serialisations, for one key column
    bytes     the bytes as they are, for one BINARY column
    none      no key

Several key columns are a JSON object, whatever the format.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from moldau.sql.declarations import ColumnDeclaration, Declaration
from moldau.sql.relation_names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

KEY_FORMATS: Final = ("string", "json", "int", "long", "short", "double", "bytes", "none")
KEY_FORMAT_NAMES: Final = {
    "kafka": "string",
    "text": "string",
    "varchar": "string",
    "integer": "int",
    "bigint": "long",
    "smallint": "short",
    "binary": "bytes",
}
"""Other names of the same formats."""
LATER_FORMATS: Final = ("avro", "protobuf", "json_sr")
"""Formats that need a schema registry."""

BINARY_NUMBERS: Final = {"short": (4, "smallint"), "int": (8, "int"), "long": (16, "bigint"), "double": (16, "double")}
"""The number of hex digits, and the type of the column."""


def is_object(declaration: Declaration) -> bool:
    """Whether the key is a JSON object of several columns."""
    return len(declaration.key_columns) > 1


def decoded_key(declaration: Declaration, key: Column) -> dict[str, Column]:
    """An expression for each key column. `key` is BINARY. A key that does not fit gives null."""
    from pyspark.sql import functions as f

    columns = declaration.key_columns
    if not columns or declaration.key_format == "none":
        return {column.name: f.lit(None).cast(column.type) for column in columns}
    text = key.cast("string")
    if is_object(declaration):
        parsed = f.from_json(text, ", ".join(f"{quoted(column.name)} {column.type}" for column in columns))
        return {column.name: parsed.getField(column.name) for column in columns}
    (column,) = columns
    match declaration.key_format:
        case "json":
            return {column.name: _from_json_value(column, text)}
        case "bytes":
            return {column.name: key if column.type.lower() == "binary" else text.try_cast(column.type)}
        case name if name in BINARY_NUMBERS:
            return {column.name: _from_number(name, key).try_cast(column.type)}
        case _:
            return {column.name: text.try_cast(column.type) if column.type.lower() != "string" else text}


def _from_json_value(column: ColumnDeclaration, text: Column) -> Column:
    """A bare JSON value, or an object with one field of the column's name."""
    from pyspark.sql import functions as f

    bare = f.from_json(f.concat(f.lit("["), text, f.lit("]")), f"ARRAY<{column.type}>")
    wrapped = f.from_json(text, f"{quoted(column.name)} {column.type}").getField(column.name)
    if column.type.lower().startswith("struct"):
        return f.get(bare, f.lit(0))
    return f.when(f.ltrim(text).startswith("{"), wrapped).otherwise(f.get(bare, f.lit(0)))


def _from_number(name: str, key: Column) -> Column:
    """The number in big-endian bytes; null if the key has another length."""
    from pyspark.sql import functions as f

    digits, _ = BINARY_NUMBERS[name]
    bits = f.conv(f.hex(key), 16, -10).cast("bigint")
    if name == "double":
        number = _double(bits)
    elif name == "long":
        number = bits
    else:
        size = 1 << (4 * digits)
        number = f.when(bits >= size // 2, bits - size).otherwise(bits)
    return f.when(f.octet_length(key) == digits // 2, number)


def _double(bits: Column) -> Column:
    """The IEEE 754 number with these 64 bits. Spark has no function for it."""
    from pyspark.sql import functions as f

    exponent = f.shiftright(bits, 52).bitwiseAND(f.lit(0x7FF)).cast("int")
    fraction = bits.bitwiseAND(f.lit((1 << 52) - 1))
    sign = f.when(bits < 0, f.lit(-1.0)).otherwise(f.lit(1.0))
    normal = (fraction + f.lit(1 << 52)).cast("double") * f.pow(f.lit(2.0), (exponent - 1075).cast("double"))
    subnormal = fraction.cast("double") * f.lit(5e-324)
    special = f.when(fraction == 0, f.lit(float("inf"))).otherwise(f.lit(float("nan")))
    return sign * f.when(exponent == 0, subnormal).when(exponent == 0x7FF, special).otherwise(normal)


def encoded_key(declaration: Declaration) -> Column:
    """The record's key, BINARY or STRING, from the key columns of a frame; null if all key columns are null."""
    from pyspark.sql import functions as f

    columns = declaration.key_columns
    if not columns or declaration.key_format == "none":
        return f.lit(None).cast("string")
    if is_object(declaration):
        whole = f.struct(*(f.col(quoted(column.name)).alias(column.name) for column in columns))
        empty = f.lit(True)
        for column in columns:
            empty = empty & f.col(quoted(column.name)).isNull()
        return f.when(~empty, f.to_json(whole, {"ignoreNullFields": "false"}))
    (column,) = columns
    value = f.col(quoted(column.name))
    match declaration.key_format:
        case "json":
            text = f.to_json(f.array(value))
            return f.when(value.isNotNull(), f.substring(text, f.lit(2), f.length(text) - 2))
        case "bytes":
            return value.cast("binary")
        case "double":
            # A lambda has no type hints, from which Spark would choose a kind of function that it then refuses.
            return f.udf(lambda number: _double_bytes(number), "binary")(value.cast("double"))  # noqa: PLW0108
        case name if name in BINARY_NUMBERS:
            digits, kind = BINARY_NUMBERS[name]
            return f.unhex(f.right(f.lpad(f.hex(value.cast(kind).cast("bigint")), 16, "0"), f.lit(digits)))
        case _:
            return value.cast("string")


def _double_bytes(value: float | None) -> bytes | None:
    return None if value is None else struct.pack(">d", value)
