"""Completion in the shell: which words fit at the cursor. Pure: the names come from `known_names.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau.sql.column_types import NAMES as TYPE_NAMES
from moldau.sql.column_types import quoted
from moldau.sql.statements import Shown
from moldau.sql.text_positions import SourceText
from moldau.sql.tokens import Token, TokenKind, UnclosedError, tokenise
from moldau.sql.window_clause import KINDS
from moldau.sql.with_settings import SETTINGS

STATEMENTS: Final = (
    "SELECT", "WITH", "CREATE STREAM", "CREATE TABLE", "CREATE OR REPLACE", "INSERT INTO", "SHOW", "DESCRIBE", "PRINT",
    "EXPLAIN", "PAUSE", "RESUME", "TERMINATE", "DROP STREAM", "DROP TABLE", "SET", "UNSET", "DEFINE", "UNDEFINE",
    "RUN SCRIPT", "help", "exit",
)  # fmt: skip
CLAUSES: Final = (
    "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "FULL JOIN", "ON", "AS", "AND",
    "OR", "NOT", "IS NULL", "IS NOT NULL", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT", "UNION ALL",
    "EMIT CHANGES", "WINDOW", "WITHIN", "GRACE PERIOD", "PARTITION BY", "AT OFFSET", "AT TIMESTAMP", "INTERVAL",
    "SELECT", "DESC", "VALUES",
)  # fmt: skip
AFTER: Final[Mapping[str, tuple[str, ...]]] = {
    "SHOW": tuple(Shown),
    "LIST": tuple(Shown),
    "CREATE": ("STREAM", "TABLE", "OR REPLACE"),
    "REPLACE": ("STREAM", "TABLE"),
    "DROP": ("STREAM", "TABLE"),
    "EMIT": ("CHANGES",),
    "WINDOW": tuple(KINDS),
    "GROUP": ("BY",),
    "ORDER": ("BY",),
    "GRACE": ("PERIOD",),
    "RUN": ("SCRIPT",),
    "INSERT": ("INTO",),
    "PRIMARY": ("KEY",),
}
"""What may follow after one word, and nothing else."""
BEFORE_RELATION: Final = frozenset({"FROM", "JOIN", "INTO"})
BEFORE_NAME: Final = frozenset({"DESCRIBE", "DESC", "PRINT", "EXTENDED"})
"""Words of our statements: a topic's name needs no quotes after them, unless it has other characters."""
BEFORE_QUERY: Final = frozenset({"PAUSE", "RESUME", "TERMINATE", "EXPLAIN", "QUERY"})
_WORD: Final = re.compile(r"`[^`]*$|\w*$")
_PLAIN_TOPIC: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class KnownNames:
    """What can be named at the moment."""

    relations: Sequence[str] = ()
    """Streams, tables and topics."""
    queries: Sequence[str] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By relation, in lower case. A relation may be missing: its columns are not known yet."""
    functions: Sequence[str] = ()


@dataclass(frozen=True)
class Candidate:
    text: str
    kind: str
    """What it is, for the list of completions: keyword, stream or topic, column, function …"""


def relations_in(text: str) -> list[str]:
    """The relations that the last statement of the text names after FROM, JOIN or INTO."""
    return [relation for relation, _ in _relations(_last_statement(text) or [])]


def candidates(before: str, after: str, known: KnownNames) -> tuple[int, list[Candidate]]:
    """How many characters before the cursor the candidates replace, and the candidates that begin with them."""
    found = _WORD.search(before)
    prefix = found.group() if found is not None else ""
    tokens = _last_statement(before[: len(before) - len(prefix)])
    if tokens is None:  # in a string, or in a comment
        return 0, []
    wanted = prefix.lstrip("`").lower()
    words = _fitting(tokens, after, known, has_prefix=bool(wanted))
    matches = [word for word in words if word.text.lstrip("`").lower().startswith(wanted)]
    return len(prefix), list(dict.fromkeys(matches))


def _last_statement(text: str) -> list[Token] | None:
    try:
        tokens = tokenise(SourceText(text))
    except UnclosedError:
        return None
    ends = [at for at, token in enumerate(tokens) if token.is_symbol(";")]
    return tokens[ends[-1] + 1 :] if ends else tokens


def _fitting(tokens: Sequence[Token], after: str, known: KnownNames, *, has_prefix: bool) -> list[Candidate]:
    if not tokens:
        return _keywords(STATEMENTS)
    last, first = tokens[-1], tokens[0].upper
    if last.is_symbol("."):
        return _columns_of(tokens, after, known)
    if last.upper in AFTER:
        return _keywords(AFTER[last.upper])
    if first == "DROP" and last.upper in ("STREAM", "TABLE", "EXISTS"):
        return _names(known.relations, _topic_name)
    if last.upper in BEFORE_NAME:
        return _names(known.relations, _topic_name)
    if last.upper in BEFORE_RELATION or (last.is_symbol(",") and _in_from(tokens)):
        return _names(known.relations, quoted)
    if last.upper in BEFORE_QUERY:
        queries = [Candidate(quoted(name), "query") for name in known.queries]
        return [*queries, *_keywords(("SELECT",) if last.upper == "EXPLAIN" else ("ALL",))]
    if _in_settings(tokens):
        return [Candidate(name, "setting") for name in SETTINGS] if last.text in ("(", ",") else []
    if first == "CREATE" and not any(token.upper == "AS" for token in tokens):
        return _keywords(("WITH", "AS", "KEY", "PRIMARY KEY", "IF NOT EXISTS", *TYPE_NAMES))
    if first in ("SHOW", "LIST", "DESCRIBE", "DESC", "PRINT", "PAUSE", "RESUME", "TERMINATE", "DROP"):
        return _keywords({"PRINT": ("FROM BEGINNING", "LIMIT"), "DROP": ("DELETE TOPIC",)}.get(first, ("EXTENDED",)))
    if first in ("SET", "UNSET", "DEFINE", "UNDEFINE", "RUN"):
        return []
    found = [*_columns_of_all(tokens, after, known), *_keywords(CLAUSES)]
    return [*found, *(Candidate(name, "function") for name in known.functions)] if has_prefix else found


def _keywords(texts: Iterable[str]) -> list[Candidate]:
    return [Candidate(text, "keyword") for text in texts]


def _names(names: Iterable[str], write: Callable[[str], str]) -> list[Candidate]:
    return [Candidate(write(name), "relation") for name in names]


def _topic_name(name: str) -> str:
    return name if _PLAIN_TOPIC.fullmatch(name) else quoted(name)


def _in_from(tokens: Sequence[Token]) -> bool:
    """Whether the comma at the end separates relations: `FROM a, `."""
    for token in reversed(tokens[:-1]):
        if token.upper in BEFORE_RELATION:
            return True
        if token.kind is TokenKind.SYMBOL and token.text not in (",", "."):
            return False
        if token.upper in ("SELECT", "BY", "WHERE", "ON", "HAVING"):
            return False
    return False


def _in_settings(tokens: Sequence[Token]) -> bool:
    """Whether the cursor is in the brackets after WITH."""
    depth = 0
    for at in range(len(tokens) - 1, -1, -1):
        depth += tokens[at].is_symbol(")") - tokens[at].is_symbol("(")
        if depth < 0:
            return at > 0 and tokens[at - 1].upper == "WITH"
    return False


def _relations(tokens: Sequence[Token]) -> list[tuple[str, str]]:
    """Each relation of a query with its alias, or with its name again."""
    found: list[tuple[str, str]] = []
    for at in range(len(tokens) - 1):
        if tokens[at].upper not in BEFORE_RELATION or tokens[at + 1].kind not in _NAME_KINDS:
            continue
        name = tokens[at + 1].value
        alias = tokens[at + 2 : at + 4]
        if alias and alias[0].upper == "AS":
            alias = alias[1:]
        is_alias = bool(alias) and alias[0].kind in _NAME_KINDS and alias[0].upper not in _NO_ALIAS
        found.append((name, alias[0].value if is_alias else name))
    return found


_NAME_KINDS: Final = (TokenKind.WORD, TokenKind.QUOTED_NAME)
_NO_ALIAS: Final = frozenset(
    word for text in (*CLAUSES, "RIGHT", "INNER", "CROSS", "AT", "GRACE", "OFFSET") for word in text.split()[:1]
)


def _all_tokens(tokens: Sequence[Token], after: str) -> list[Token]:
    """Of the whole statement: FROM usually comes after the columns that are being typed."""
    try:
        more = tokenise(SourceText(after))
    except UnclosedError:
        more = []
    end = next((at for at, token in enumerate(more) if token.is_symbol(";")), len(more))
    return [*tokens, *more[:end]]


def _columns_of_all(tokens: Sequence[Token], after: str, known: KnownNames) -> list[Candidate]:
    relations = _relations(_all_tokens(tokens, after))
    names = (name for relation, _ in relations for name in known.columns.get(relation.lower(), ()))
    return [Candidate(quoted(name), "column") for name in names]


def _columns_of(tokens: Sequence[Token], after: str, known: KnownNames) -> list[Candidate]:
    """After `name.`: the columns of that relation or alias."""
    if len(tokens) < 2:
        return []
    wanted = tokens[-2].value.lower()
    for relation, alias in _relations(_all_tokens(tokens, after)):
        if wanted in (alias.lower(), relation.lower()):
            return [Candidate(quoted(name), "column") for name in known.columns.get(relation.lower(), ())]
    return []
