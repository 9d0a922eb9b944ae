"""Formats of values: from the bytes of a record's value to columns, and back.

    json      an object with a field for each column
    csv       fields separated by `value_delimiter`, a comma if it is not given; also called delimited
    string    the text of the only value column
    bytes     the bytes of the only value column; also called binary

A value that does not fit gives null columns, and is counted. It is no error: one bad record must not stop a query.
Avro and Protobuf need a schema registry and are refused; `parsed_value` and `encoded_value` are where they belong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.sql.declarations import ColumnDeclaration, Declaration
from moldau.sql.relation_names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

VALUE_FORMATS: Final = ("json", "csv", "string", "bytes")
VALUE_FORMAT_NAMES: Final = {
    "delimited": "csv",
    "text": "string",
    "varchar": "string",
    "kafka": "string",
    "binary": "bytes",
}
"""Other names of the same formats."""

BAD: Final = "_moldau_bad_record"
"""The field of a parsed value that has the text of a record that does not fit."""

DELIMITERS: Final = {"tab": "\t", "space": " "}
"""ksqlDB's names of delimiters."""


@dataclass(frozen=True)
class ParsedValue:
    """How a value is read: `struct` is computed once for each row; the columns are its fields."""

    struct: Column | None
    """None if the value has no columns, or only one that is the whole value."""
    single: Column
    """The whole value as the only column, of the formats string and bytes."""


def parsed_value(declaration: Declaration, value: Column) -> ParsedValue:
    """Expressions for the value columns. `value` is BINARY, null for a tombstone."""
    from pyspark.sql import functions as f

    columns = declaration.value_columns
    if not columns:
        return ParsedValue(None, value)
    text = value.cast("string")
    schema = _schema(columns)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD}
    match declaration.value_format:
        case "csv":
            return ParsedValue(f.from_csv(text, f.lit(schema), {**options, **_csv_options(declaration)}), value)
        case "string":
            kind = columns[0].type
            return ParsedValue(None, text if kind.lower() == "string" else text.try_cast(kind))
        case "bytes":
            return ParsedValue(None, value)
        case _:
            return ParsedValue(f.from_json(text, schema, {**options, **_time_options(declaration)}), value)


def encoded_value(declaration: Declaration) -> Column:
    """The record's value, STRING or BINARY, from the value columns of a frame. It is never null: a tombstone is the
    caller's decision."""
    from pyspark.sql import functions as f

    columns = declaration.value_columns
    if not columns:
        return f.lit("{}") if declaration.value_format == "json" else f.lit("")
    whole = f.struct(*(f.col(quoted(column.name)).alias(column.name) for column in columns))
    match declaration.value_format:
        case "csv":
            return f.to_csv(whole, _csv_options(declaration))
        case "string":
            return f.coalesce(f.col(quoted(columns[0].name)).cast("string"), f.lit(""))
        case "bytes":
            return f.col(quoted(columns[0].name)).cast("binary")
        case _:
            return f.to_json(whole, {"ignoreNullFields": "false", **_time_options(declaration)})


def _schema(columns: tuple[ColumnDeclaration, ...]) -> str:
    fields = [f"{quoted(column.name)} {column.type}" for column in columns]
    return ", ".join([*fields, f"{BAD} STRING"])


def _csv_options(declaration: Declaration) -> dict[str, str]:
    given = declaration.options.get("value_delimiter", ",")
    return {"sep": DELIMITERS.get(given.lower(), given), **_time_options(declaration)}


def _time_options(declaration: Declaration) -> dict[str, str]:
    """`timestamp_format` is the format of the event time; it counts for every TIMESTAMP column of the value."""
    pattern = declaration.options.get("timestamp_format")
    column = next((one for one in declaration.value_columns if one.name == declaration.timestamp), None)
    if pattern is None or column is None or column.type.lower() != "timestamp":
        return {}
    return {"timestampFormat": pattern}
