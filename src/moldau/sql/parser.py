"""Parser of statements: splits a text at its semicolons, and makes data of each statement.

Only the statements of `statements.py` are known here. A SELECT is Spark's; `query_clauses.py` takes our clauses out of
it. Every error has the line and the column in the text that the user gave.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, Final

from moldau.sql import ksql_differences
from moldau.sql.create_parser import QUERY_STARTS, read_create, read_insert, starts_query
from moldau.sql.declarations import RelationKind
from moldau.sql.query_clauses import read_query
from moldau.sql.statements import (
    ChangeQueryStatement,
    CreateAsStatement,
    DefineStatement,
    DescribeStatement,
    DropStatement,
    ExplainStatement,
    InsertSelectStatement,
    PrintStatement,
    QueryAction,
    RunScriptStatement,
    SelectStatement,
    SetStatement,
    Shown,
    ShowStatement,
    Statement,
)
from moldau.sql.text_positions import SourceText, TextEdit
from moldau.sql.token_reader import TokenReader, did_you_mean
from moldau.sql.tokens import Token, TokenKind, UnclosedError, check_brackets, error_at, tokenise

Variables = MutableMapping[str, str]
"""Values of DEFINE by their names, in lower case."""

_VARIABLE: Final = re.compile(r"\$\{\s*(\w+)\s*\}")


def parse(text: str, variables: Variables | None = None) -> list[Statement]:
    """All statements of the text. `variables`: what DEFINE has set before; the text may change it.

    Raises SqlError for the first statement that is wrong.
    """
    variables = {} if variables is None else variables
    source = SourceText(text)
    return [_statement(part, variables) for part in _split(source)]


def is_complete(text: str) -> bool:
    """Whether the text ends with a semicolon, so that a shell may run it; also if it has no statement at all."""
    try:
        tokens = tokenise(SourceText(text))
    except UnclosedError:
        return False
    return not tokens or tokens[-1].is_symbol(";")


def _split(source: SourceText) -> Iterator[SourceText]:
    """The statements between the semicolons, without empty ones."""
    start = 0
    first: Token | None = None
    last: Token | None = None
    for token in tokenise(source):
        if not token.is_symbol(";"):
            first, last = first or token, token
            continue
        if first is not None:
            yield source.part(first.start, token.start)
        start, first = token.end, None
    if first is not None and last is not None:
        yield source.part(first.start, max(last.end, start))


def _statement(source: SourceText, variables: Variables) -> Statement:
    source = _substituted(source, variables)
    tokens = tokenise(source)
    check_brackets(tokens)
    reader = TokenReader(source, tokens, len(source.text))
    common: dict[str, Any] = {"text": source.text.rstrip(), "position": source.position(0)}
    first = tokens[0]
    _refuse_foreign(tokens)
    if starts_query(first):
        query, _ = read_query(source, tokens, reader.end, writes=False)
        return SelectStatement(**common, query=query)
    read = _STATEMENTS.get(first.upper)
    if read is None:
        hint = did_you_mean(first.text, (*_STATEMENTS, *QUERY_STARTS), "help lists the statements")
        raise error_at(first, f"{first.text} is not a statement", hint)
    reader.take()
    statement = read(reader, common)
    if isinstance(statement, DefineStatement):
        if statement.value is None:
            variables.pop(statement.name.lower(), None)
        else:
            variables[statement.name.lower()] = statement.value
    return statement


def _substituted(source: SourceText, variables: Variables) -> SourceText:
    """The statement with the values of DEFINE in place of `${name}`."""
    edits: list[TextEdit] = []
    for match in _VARIABLE.finditer(source.text):
        value = variables.get(match.group(1).lower())
        if value is None:
            where = source.position(match.start())
            token = Token(TokenKind.SYMBOL, match.group(), match.start(), where)
            hint = did_you_mean(match.group(1), variables, f"write DEFINE {match.group(1)} = 'value'; before")
            raise error_at(token, f"the variable {match.group(1)} is not defined", hint)
        edits.append(TextEdit(match.start(), match.end(), value))
    return source.edited(edits) if edits else source


def _refuse_foreign(tokens: list[Token]) -> None:
    """Refuse statements of ksqlDB and Spark that do not exist here, with what to write instead."""
    words = ["SHOW" if at == 0 and token.upper == "LIST" else token.upper for at, token in enumerate(tokens[:3])]
    for size in range(len(words), 0, -1):
        instead = ksql_differences.STATEMENTS.get(tuple(words[:size]))
        if instead is not None:
            written = " ".join(token.text.upper() for token in tokens[:size])
            raise error_at(tokens[0], f"{written} is not a statement here", instead)


def _show(reader: TokenReader, common: dict[str, Any]) -> Statement:
    if reader.took_words("PROPERTIES"):
        what = Shown.SETTINGS
    else:
        what = Shown(reader.expect_word(*Shown, after=reader.tokens[0].upper))
    if reader.at_words("EXTENDED"):
        raise reader.missing("the end of the statement", f"SHOW {what}", "write DESCRIBE name EXTENDED")
    reader.finish(f"SHOW {what}")
    return ShowStatement(**common, what=what)


def _describe(reader: TokenReader, common: dict[str, Any]) -> Statement:
    if reader.at_words("FUNCTION") and reader.peek(1) is not None:  # Spark's own statement, which needs no relation
        query, _ = read_query(reader.source, reader.tokens, reader.end, writes=False)
        return SelectStatement(**common, query=query)
    extended = reader.peek(1) is not None and reader.took_words("EXTENDED")
    name = reader.name("the name of a stream, table or topic", "DESCRIBE EXTENDED" if extended else "DESCRIBE")
    extended = reader.took_words("EXTENDED") or extended
    reader.finish("DESCRIBE")
    return DescribeStatement(**common, name=name, extended=extended)


def _print(reader: TokenReader, common: dict[str, Any]) -> Statement:
    topic = reader.name("the name of a topic", "PRINT")
    from_beginning = reader.took_words("FROM", "BEGINNING")
    if reader.at_words("FROM"):
        reader.take()
        reader.expect_word("BEGINNING", after="FROM")
    if reader.at_words("INTERVAL") or reader.at_words("SAMPLE"):
        raise reader.missing("LIMIT", topic, "PRINT shows every record: write LIMIT 10 to see ten")
    limit = reader.whole_number("a whole number", "LIMIT") if reader.took_words("LIMIT") else None
    if reader.at_words("FROM", "BEGINNING"):
        from_beginning = reader.took_words("FROM", "BEGINNING")
    reader.finish("PRINT")
    return PrintStatement(**common, topic=topic, from_beginning=from_beginning, limit=limit)


def _explain(reader: TokenReader, common: dict[str, Any]) -> Statement:
    if starts_query(reader.peek()):
        query, _ = read_query(reader.source, reader.tokens[reader.at :], reader.end, writes=False)
        return ExplainStatement(**common, query=query)
    if reader.at_words("CREATE") or reader.at_words("INSERT"):
        read = read_create if reader.take().upper == "CREATE" else read_insert
        inner = read(reader, dict(common))
        if not isinstance(inner, CreateAsStatement | InsertSelectStatement):
            raise error_at(
                reader.tokens[1], "EXPLAIN needs a query: this statement starts none", "write EXPLAIN SELECT …"
            )
        return ExplainStatement(**common, query=inner.query)
    name = reader.name("SELECT or the name of a query", "EXPLAIN")
    reader.finish("EXPLAIN")
    return ExplainStatement(**common, name=name)


def _change_query(reader: TokenReader, common: dict[str, Any]) -> Statement:
    action = QueryAction(reader.tokens[0].upper)
    if reader.peek(1) is not None:
        reader.took_words("QUERY")
    name = None if reader.took_words("ALL") else reader.name("the name of a query or ALL", action)
    reader.finish(action)
    return ChangeQueryStatement(**common, action=action, name=name)


def _drop(reader: TokenReader, common: dict[str, Any]) -> Statement:
    kind = RelationKind(reader.expect_word("STREAM", "TABLE", after="DROP"))
    if_exists = reader.took_words("IF", "EXISTS")
    name = reader.name(f"the name of the {kind.lower()}", "IF EXISTS" if if_exists else kind)
    delete_topic = False
    if reader.took_words("DELETE"):
        reader.expect_word("TOPIC", after="DELETE")
        delete_topic = True
    reader.finish(f"DROP {kind}")
    return DropStatement(**common, kind=kind, name=name, if_exists=if_exists, delete_topic=delete_topic)


def _set(reader: TokenReader, common: dict[str, Any]) -> Statement:
    if reader.peek() is None:
        return ShowStatement(**common, what=Shown.SETTINGS)
    name = reader.name("the name of a setting", "SET")
    reader.expect_symbol("=", name)
    first = reader.peek()
    if first is None:
        raise reader.missing("a value", "=", f"write UNSET {name} to remove the setting")
    if first.kind is TokenKind.STRING and reader.peek(1) is None:
        return SetStatement(**common, name=name, value=first.value)
    return SetStatement(**common, name=name, value=reader.source.text[first.start : reader.tokens[-1].end])


def _unset(reader: TokenReader, common: dict[str, Any]) -> Statement:
    name = reader.name("the name of a setting", "UNSET")
    reader.finish("UNSET")
    return SetStatement(**common, name=name, value=None)


def _define(reader: TokenReader, common: dict[str, Any]) -> Statement:
    name = reader.column_name("the name of a variable", "DEFINE")
    reader.expect_symbol("=", name)
    value = reader.string("a value in quotes", "=")
    reader.finish("DEFINE")
    return DefineStatement(**common, name=name, value=value)


def _undefine(reader: TokenReader, common: dict[str, Any]) -> Statement:
    name = reader.column_name("the name of a variable", "UNDEFINE")
    reader.finish("UNDEFINE")
    return DefineStatement(**common, name=name, value=None)


def _run(reader: TokenReader, common: dict[str, Any]) -> Statement:
    reader.expect_word("SCRIPT", after="RUN")
    path = reader.string("the name of a file in quotes", "RUN SCRIPT")
    reader.finish("RUN SCRIPT")
    return RunScriptStatement(**common, path=path)


_STATEMENTS: Final[dict[str, Callable[[TokenReader, dict[str, Any]], Statement]]] = {
    "CREATE": read_create,
    "INSERT": read_insert,
    "SHOW": _show,
    "LIST": _show,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "PRINT": _print,
    "EXPLAIN": _explain,
    "PAUSE": _change_query,
    "RESUME": _change_query,
    "TERMINATE": _change_query,
    "DROP": _drop,
    "SET": _set,
    "UNSET": _unset,
    "DEFINE": _define,
    "UNDEFINE": _undefine,
    "RUN": _run,
}
