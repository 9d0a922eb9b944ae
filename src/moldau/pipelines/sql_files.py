"""Datasets in SQL files: names, kinds, inputs and lines, read from the tokens of the text.

Spark parses the statements; this only finds what the picture and the messages need. It reads the names after FROM and
JOIN, without those that WITH defines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.pipelines.errors import SourceLine
from moldau.pipelines.graph import MATERIALIZED_VIEW, TABLE, VIEW, DataFlow, GraphNode
from moldau.sql.errors import SqlError
from moldau.sql.text_positions import SourceText
from moldau.sql.tokens import Token, TokenKind, tokenise

_SKIPPED: Final = {"OR", "REFRESH", "REPLACE", "PRIVATE"}
_KINDS: Final = {
    "STREAMING TABLE": TABLE,
    "MATERIALIZED VIEW": MATERIALIZED_VIEW,
    "TEMPORARY VIEW": VIEW,
    "TEMP VIEW": VIEW,
}


@dataclass(frozen=True)
class SqlDefinitions:
    nodes: tuple[GraphNode, ...]
    flows: tuple[DataFlow, ...]


def definitions_in(text: str, file: str) -> SqlDefinitions:
    """The datasets and flows of a file. A text that has no tokens (an open string) has none: Spark reports it."""
    try:
        tokens = tokenise(SourceText(text))
    except SqlError:
        return SqlDefinitions((), ())
    nodes: list[GraphNode] = []
    flows: list[DataFlow] = []
    for statement in _statements(tokens):
        _Statement(statement, file).add_to(nodes, flows)
    return SqlDefinitions(tuple(nodes), tuple(flows))


def text_lines(text: str) -> dict[str, int]:
    """The line of the file where the text of each flow's statement begins, which is after the semicolon before it.
    Spark counts the lines of an error from there."""
    found: dict[str, int] = {}
    begins = 1
    for statement in _statements(tokenise(SourceText(text))):
        flows: list[DataFlow] = []
        _Statement(statement, "").add_to([], flows)
        found |= {flow.name: begins for flow in flows}
        if statement:
            rest = text[statement[-1].end :]
            begins = statement[-1].position.line + rest[: rest.find(";") + 1].count("\n")
    return found


def _statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    current: list[Token] = []
    for token in tokens:
        if token.is_symbol(";"):
            yield current
            current = []
        else:
            current.append(token)
    yield current


class _Statement:
    def __init__(self, tokens: list[Token], file: str) -> None:
        self._tokens = tokens
        self._file = file

    def add_to(self, nodes: list[GraphNode], flows: list[DataFlow]) -> None:
        if not self._tokens or self._tokens[0].upper != "CREATE":
            return
        where = SourceLine(self._file, self._tokens[0].position.line)
        at = 1
        while at < len(self._tokens) and self._tokens[at].upper in _SKIPPED:
            at += 1
        words = " ".join(token.upper for token in self._tokens[at : at + 2])
        if words.startswith("FLOW "):
            name, at = self._name(at + 1)
            into = next((i for i in range(at, len(self._tokens)) if self._tokens[i].upper == "INTO"), None)
            if into is not None:
                target, at = self._name(into + 1)
                flows.append(DataFlow(name, target, self._inputs(at), where))
        elif (kind := _KINDS.get(words)) is not None:
            name, at = self._name(self._after_if_not_exists(at + 2))
            nodes.append(GraphNode(name, kind, name, where))
            inputs = self._inputs(at)
            if inputs:
                flows.append(DataFlow(name, name, inputs, where))

    def _after_if_not_exists(self, at: int) -> int:
        return at + 3 if at < len(self._tokens) and self._tokens[at].upper == "IF" else at

    def _name(self, at: int) -> tuple[str, int]:
        """The last part of the name that begins here, and the place after it."""
        name = ""
        while at < len(self._tokens) and self._tokens[at].kind in (TokenKind.WORD, TokenKind.QUOTED_NAME):
            name, at = self._tokens[at].value, at + 1
            if at >= len(self._tokens) or not self._tokens[at].is_symbol("."):
                break
            at += 1
        return name, at

    def _inputs(self, start: int) -> tuple[str, ...]:
        defined = self._with_names(start)
        found: list[str] = []
        for at in range(start, len(self._tokens)):
            if self._tokens[at].upper not in ("FROM", "JOIN"):
                continue
            following = at + 1
            if following < len(self._tokens) and self._tokens[following].upper == "STREAM":
                following += 1
                if following < len(self._tokens) and self._tokens[following].is_symbol("("):
                    following += 1
            name, after = self._name(following)
            is_function = after < len(self._tokens) and self._tokens[after].is_symbol("(")
            if name and name.lower() not in defined and not is_function:
                found.append(name)
        return tuple(dict.fromkeys(found))

    def _with_names(self, start: int) -> set[str]:
        tokens = self._tokens
        return {
            tokens[at].value.lower()
            for at in range(start, len(tokens) - 2)
            if tokens[at + 1].upper == "AS"
            and tokens[at + 2].is_symbol("(")
            and tokens[at - 1].text.upper() in ("WITH", ",")
        }
