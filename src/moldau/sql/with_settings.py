"""Settings of the WITH clause: their names, ksqlDB's names for the same, and the check of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.sql import ksql_differences
from moldau.sql.token_reader import TokenReader, did_you_mean
from moldau.sql.tokens import Token, TokenKind, error_at

SETTINGS: Final[Mapping[str, str]] = {
    "topic": "the topic of the relation (default: its name)",
    "value_format": "json, csv, string, avro …: how the value of a record becomes columns (default: json)",
    "key_format": "the same for the key (default: string)",
    "key": "the names of the columns of the key, separated by commas",
    "timestamp": "the column that is the event time (default: the timestamp of the record)",
    "timestamp_format": "the pattern of that column, if it is text",
    "partitions": "the number of partitions, if the topic is created",
    "replicas": "the replication factor, if the topic is created",
    "retention_ms": "the retention time, if the topic is created",
    "value_delimiter": "the character between the columns of csv",
    "key_delimiter": "the same for the key",
    "query_id": "the name of the query that CREATE … AS SELECT or INSERT INTO … SELECT starts",
}
"""Every setting, with its meaning."""

ALIASES: Final[Mapping[str, str]] = {"kafka_topic": "topic", "format": "value_format"}
"""Other names of settings."""

FORMATS: Final[Mapping[str, str]] = {"delimited": "csv", "kafka": "string"}
"""ksqlDB's names of formats. All others are kept, in lower case."""

DELIMITERS: Final[Mapping[str, str]] = {"space": " ", "tab": "\t"}
NUMBERS: Final = ("partitions", "replicas", "retention_ms")
ONLY_FOR_QUERIES: Final = ("query_id",)


def read_settings(reader: TokenReader, *, query: bool) -> dict[str, str]:
    """`(name = value, …)` after WITH. `query`: of a statement that starts a query."""
    reader.expect_symbol("(", "WITH")
    found: dict[str, str] = {}
    while not reader.took_symbol(")"):
        if found:
            reader.expect_symbol(",", "a setting")
        token = reader.peek()
        name = _name(reader, token, query)
        if name in found:
            assert token is not None
            raise error_at(token, f"the setting {name} is given twice", "keep one of them")
        reader.expect_symbol("=", name)
        found[name] = _value(reader, name)
    return found


def _name(reader: TokenReader, token: Token | None, query: bool) -> str:
    if token is None or token.kind is TokenKind.NUMBER or token.kind is TokenKind.SYMBOL:
        raise reader.missing("the name of a setting", "WITH (")
    written = reader.take().value
    name = ALIASES.get(written.lower(), written.lower())
    if name in ksql_differences.SETTINGS:
        raise error_at(token, f"the setting {written} has no meaning here", ksql_differences.SETTINGS[name])
    if name not in SETTINGS:
        otherwise = f"the settings are {', '.join(SETTINGS)}"
        raise error_at(token, f"there is no setting {written}", did_you_mean(name, (*SETTINGS, *ALIASES), otherwise))
    if name in ONLY_FOR_QUERIES and not query:
        raise error_at(token, f"{written} names a query, and this statement starts none", "remove it")
    return name


def _value(reader: TokenReader, name: str) -> str:
    token = reader.peek()
    if token is None or token.kind is TokenKind.SYMBOL:
        raise reader.missing(f"the value of {name}", "=")
    value = reader.name(f"the value of {name}", "=")
    if name in NUMBERS and not (value.isdecimal() and int(value) > 0):
        raise error_at(token, f"{name} must be a whole number above 0, and not {value}")
    if name.endswith("_format") and name != "timestamp_format":
        return FORMATS.get(value.lower(), value.lower())
    if name.endswith("_delimiter"):
        return DELIMITERS.get(value.lower(), value)
    if not value:
        raise error_at(token, f"the value of {name} is empty", SETTINGS[name])
    return value
