"""Parser of CREATE STREAM, CREATE TABLE and INSERT INTO."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moldau.sql.column_types import read_type
from moldau.sql.declarations import ColumnDeclaration, RelationKind
from moldau.sql.query_clauses import read_query
from moldau.sql.statements import (
    CreateAsStatement,
    CreateDeclaredStatement,
    InsertSelectStatement,
    InsertValuesStatement,
    QueryText,
    Statement,
)
from moldau.sql.token_reader import TokenReader, did_you_mean
from moldau.sql.tokens import Token, error_at
from moldau.sql.with_settings import read_settings

QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")


def starts_query(token: Token | None) -> bool:
    return token is not None and (token.upper in QUERY_STARTS or token.is_symbol("("))


def read_create(reader: TokenReader, common: dict[str, Any]) -> Statement:
    """The statement after CREATE."""
    or_replace = reader.took_words("OR", "REPLACE")
    kind = RelationKind(reader.expect_word("STREAM", "TABLE", after="CREATE OR REPLACE" if or_replace else "CREATE"))
    if_not_exists = reader.took_words("IF", "NOT", "EXISTS")
    name = reader.name(f"the name of the {kind.lower()}", "IF NOT EXISTS" if if_not_exists else kind)
    common |= {"name": name, "kind": kind, "or_replace": or_replace, "if_not_exists": if_not_exists}
    columns: tuple[ColumnDeclaration, ...] = ()
    bracket = reader.peek()
    if reader.took_symbol("("):
        columns = _columns(reader)
    settings: dict[str, str] = {}
    settings_token = reader.peek()
    if reader.took_words("WITH"):
        settings = read_settings(reader, query=_has_query(reader))
    if not reader.took_words("AS"):
        if starts_query(reader.peek()):
            raise reader.missing("AS", settings_token.text if settings_token and settings else name)
        reader.finish(f"CREATE {kind}")
        return CreateDeclaredStatement(
            **common, columns=_with_keys(columns, settings, settings_token), settings=settings
        )
    if columns:
        assert bracket is not None
        hint = "remove the columns: their names and types come from SELECT"
        raise error_at(bracket, f"CREATE {kind} … AS SELECT declares no columns", hint)
    query, key = _written_query(reader, "AS")
    return CreateAsStatement(**common, settings=_with_partition_by(reader, settings, key), query=query)


def _has_query(reader: TokenReader) -> bool:
    """Whether AS or a query follows after the brackets that open here."""
    depth = 0
    for ahead, token in enumerate(reader.tokens[reader.at :]):
        depth += token.is_symbol("(") - token.is_symbol(")")
        if depth <= 0:
            following = reader.peek(ahead + 1)
            return following is not None and (following.upper == "AS" or starts_query(following))
    return False


def _columns(reader: TokenReader) -> tuple[ColumnDeclaration, ...]:
    found: dict[str, ColumnDeclaration] = {}
    while True:
        token = reader.peek()
        name = reader.column_name("the name of a column", "," if found else "(")
        if name.lower() in found:
            assert token is not None
            raise error_at(token, f"the column {name} is declared twice", "the case of a name does not matter")
        type_ = read_type(reader, name)
        is_key = reader.took_words("PRIMARY", "KEY") or reader.took_words("KEY")
        if reader.at_words("PRIMARY"):
            raise reader.missing("PRIMARY KEY", name, "write PRIMARY KEY")
        if reader.at_words("HEADERS") or reader.at_words("HEADER"):
            raise reader.missing(", or )", f"{name} {type_}", "every relation has the column headers")
        found[name.lower()] = ColumnDeclaration(name, type_, is_key)
        if reader.took_symbol(")"):
            return tuple(found.values())
        if not reader.took_symbol(","):
            token = reader.peek()
            hint = did_you_mean(token.text, ("KEY", "PRIMARY KEY")) if token is not None and token.upper else None
            raise reader.missing(", or )", f"{name} {type_}", hint)


def _with_keys(
    columns: tuple[ColumnDeclaration, ...], settings: dict[str, str], where: Token | None
) -> tuple[ColumnDeclaration, ...]:
    """The columns with those of the setting `key` marked. Without columns the setting is kept for the inference."""
    if not columns or "key" not in settings:
        return columns
    names = {name.strip().lower(): name.strip() for name in settings.pop("key").split(",")}
    known = {column.name.lower() for column in columns}
    for lower, name in names.items():
        if lower not in known:
            assert where is not None
            hint = did_you_mean(name, [column.name for column in columns])
            raise error_at(where, f"the setting key names {name}, and there is no such column", hint)
    return tuple(replace(column, is_key=column.is_key or column.name.lower() in names) for column in columns)


def _written_query(reader: TokenReader, after: str) -> tuple[QueryText, tuple[str, ...]]:
    """The query that begins here, and the columns of its PARTITION BY."""
    if not starts_query(reader.peek()):
        raise reader.missing("SELECT", after)
    query, clauses = read_query(reader.source, reader.tokens[reader.at :], reader.end, writes=True)
    return query, clauses.partition_by


def _with_partition_by(reader: TokenReader, settings: dict[str, str], key: tuple[str, ...]) -> dict[str, str]:
    if not key:
        return settings
    if "key" in settings:
        raise error_at(reader.tokens[0], "PARTITION BY and the setting key both name the key", "keep one of them")
    return {**settings, "key": ", ".join(key)}


def read_insert(reader: TokenReader, common: dict[str, Any]) -> Statement:
    """The statement after INSERT."""
    reader.expect_word("INTO", after="INSERT")
    target = reader.name("the name of the stream, table or topic", "INSERT INTO")
    columns: tuple[str, ...] = ()
    bracket = reader.peek()
    if reader.at_symbol("(") and not _is_select(reader.peek(1)):
        columns = _names(reader)
    with_token = reader.peek()
    settings: dict[str, str] = {}
    if reader.at_words("WITH") and (following := reader.peek(1)) is not None and following.is_symbol("("):
        reader.take()
        settings = read_settings(reader, query=True)
    if reader.took_words("VALUES"):
        if settings:
            assert with_token is not None
            raise error_at(with_token, "INSERT INTO … VALUES has no settings", "remove WITH (…)")
        return InsertValuesStatement(**common, target=target, columns=columns, rows=_rows(reader))
    if not starts_query(reader.peek()):
        raise reader.missing("SELECT or VALUES", target)
    if columns:
        assert bracket is not None
        hint = "remove the columns, and name those of the result in SELECT: expression AS column"
        raise error_at(bracket, "INSERT INTO … SELECT takes the columns by their names", hint)
    query, key = _written_query(reader, target)
    return InsertSelectStatement(
        **common, target=target, settings=_with_partition_by(reader, settings, key), query=query
    )


def _is_select(token: Token | None) -> bool:
    return token is not None and token.upper in ("SELECT", "WITH", "FROM")


def _names(reader: TokenReader) -> tuple[str, ...]:
    reader.take()
    found: list[str] = []
    while True:
        token = reader.peek()
        name = reader.column_name("the name of a column", "," if found else "(")
        if name.lower() in map(str.lower, found):
            assert token is not None
            raise error_at(token, f"the column {name} is named twice")
        found.append(name)
        if reader.took_symbol(")"):
            return tuple(found)
        reader.expect_symbol(",", name)


def _rows(reader: TokenReader) -> str:
    """The text after VALUES. Spark evaluates it; only that there is a row in brackets is checked here."""
    first = reader.peek()
    if first is None or not first.is_symbol("("):
        raise reader.missing("a row in brackets", "VALUES", "write VALUES ('key', 1, 'text')")
    return reader.source.text[first.start : reader.tokens[-1].end]
