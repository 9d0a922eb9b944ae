"""Types of declared columns: Spark's DDL, and ksqlDB's names for the same types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.sql.token_reader import TokenReader, did_you_mean
from moldau.sql.tokens import TokenKind, error_at

SIMPLE: Final[Mapping[str, str]] = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "BYTE": "TINYINT",
    "SMALLINT": "SMALLINT",
    "SHORT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "LONG": "BIGINT",
    "FLOAT": "FLOAT",
    "REAL": "FLOAT",
    "DOUBLE": "DOUBLE",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMP_LTZ",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ",
    "STRING": "STRING",
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "BINARY": "BINARY",
    "BYTES": "BINARY",
    "VARIANT": "VARIANT",
}
"""Every type without parts, with Spark's name."""
DECIMALS: Final = ("DECIMAL", "DEC", "NUMERIC")
NESTED: Final = ("ARRAY", "MAP", "STRUCT")
NAMES: Final = (*SIMPLE, *DECIMALS, *NESTED)
MAX_DEPTH: Final = 50
"""How deep types nest: more is a mistake, and would end in Python's limit of recursion."""


def read_type(reader: TokenReader, after: str, depth: int = 0) -> str:
    """The type that begins at the next token, as Spark's DDL."""
    token = reader.peek()
    if token is None or token.kind is not TokenKind.WORD:
        raise reader.missing("a type", after)
    name = token.upper
    if depth > MAX_DEPTH:
        raise error_at(token, f"this type nests deeper than {MAX_DEPTH} levels")
    if name == "TIME":
        raise error_at(token, "there is no type TIME", "write STRING, or TIMESTAMP")
    if name not in NAMES:
        raise error_at(token, f"{token.text} is not a type", did_you_mean(token.text, NAMES, "for example STRING"))
    reader.take()
    if name in DECIMALS:
        return _decimal(reader)
    if name == "ARRAY":
        return f"ARRAY<{_in_angles(reader, name, depth)}>"
    if name == "MAP":
        return _map(reader, depth)
    if name == "STRUCT":
        return _struct(reader, depth)
    if name in ("VARCHAR", "CHAR") and reader.took_symbol("("):  # a length, or ksqlDB's VARCHAR(STRING)
        if not reader.took_words("STRING"):
            reader.whole_number("a length", f"{name}(")
        reader.expect_symbol(")", f"{name}(")
    return SIMPLE[name]


def _decimal(reader: TokenReader) -> str:
    if not reader.took_symbol("("):
        return "DECIMAL(10, 0)"
    precision = reader.whole_number("the number of digits", "DECIMAL(")
    scale = reader.whole_number("the scale", "DECIMAL(,") if reader.took_symbol(",") else 0
    reader.expect_symbol(")", "DECIMAL(")
    return f"DECIMAL({precision}, {scale})"


def _in_angles(reader: TokenReader, name: str, depth: int) -> str:
    reader.expect_symbol("<", name)
    found = read_type(reader, f"{name}<", depth + 1)
    reader.expect_symbol(">", f"{name}<")
    return found


def _map(reader: TokenReader, depth: int) -> str:
    reader.expect_symbol("<", "MAP")
    key = read_type(reader, "MAP<", depth + 1)
    reader.expect_symbol(",", "the type of the map's keys")
    value = read_type(reader, "MAP<,", depth + 1)
    reader.expect_symbol(">", "MAP<")
    return f"MAP<{key}, {value}>"


def _struct(reader: TokenReader, depth: int) -> str:
    reader.expect_symbol("<", "STRUCT")
    fields: list[str] = []
    while True:
        name = reader.column_name("the name of a field", "STRUCT<")
        reader.took_symbol(":")
        fields.append(f"{quoted(name)}: {read_type(reader, name, depth + 1)}")
        if not reader.took_symbol(","):
            break
    reader.expect_symbol(">", "STRUCT<")
    return f"STRUCT<{', '.join(fields)}>"


def quoted(name: str) -> str:
    """A name as Spark SQL needs it: in backticks unless it is a plain word."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else f"`{name.replace('`', '``')}`"
