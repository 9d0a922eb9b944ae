"""Our clauses of a SELECT, taken out of the text that Spark gets.

EMIT CHANGES, its LIMIT, AT, WITHIN, GRACE PERIOD and PARTITION BY: only their words are read, everything else is
Spark's. A clause is replaced by blanks, so that Spark reports the user's lines and columns. ksqlDB's WINDOW clause is
in `window_clause.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from moldau.sql import ksql_differences
from moldau.sql.intervals import Interval, interval_at
from moldau.sql.statements import QueryText, ReadBound
from moldau.sql.text_positions import SourceText, TextEdit, blanked
from moldau.sql.tokens import Token, TokenKind, error_at
from moldau.sql.window_clause import WindowClause, depths, window_clauses, window_edits

PARTITION_END: Final = frozenset({"EMIT", "LIMIT", "GROUP", "HAVING", "WHERE", "ORDER", "WINDOW", "GRACE"})


@dataclass
class QueryClauses:
    """What was found in one query. `edits` takes it out of the text."""

    source: SourceText
    tokens: Sequence[Token]
    edits: list[TextEdit] = field(default_factory=list)
    continuous: bool = False
    limit: int | None = None
    as_of: dict[str, ReadBound] = field(default_factory=dict)
    within: Interval | None = None
    grace: Interval | None = None
    windows: list[WindowClause] = field(default_factory=list)
    partition_by: tuple[str, ...] = ()

    def cut(self, first: int, end: int) -> None:
        """Take the tokens from `first` to before `end` out of the text."""
        self.edits.append(blanked(self.source.text, self.tokens[first].start, self.tokens[end - 1].end))


def read_query(
    source: SourceText, tokens: Sequence[Token], end: int, *, writes: bool
) -> tuple[QueryText, QueryClauses]:
    """The query of these tokens, up to the offset `end`. `writes`: it writes a topic, therefore it is continuous."""
    found = QueryClauses(source, tokens)
    depth = depths(tokens)
    _refuse_functions(tokens)
    _read_end(found, writes)
    _refuse_emit(found, depth)
    _read_windows(found, depth)
    for at, token in enumerate(tokens):
        if token.upper == "WITHIN" and _is_join_interval(tokens, at):
            _read_within(found, at, continuous=found.continuous or writes)
        elif token.upper == "AT" and _word(tokens, at + 1) in ("OFFSET", "TIMESTAMP"):
            _read_bound(found, at)
        elif token.upper == "GRACE" and _word(tokens, at + 1) == "PERIOD" and not _in_window(found, at):
            _read_grace(found, at)
        elif token.upper == "PARTITION" and _word(tokens, at + 1) == "BY" and depth[at] == 0:
            _read_partition_by(found, at, writes)
    start = tokens[0].start
    text = source.edited(found.edits, start, end)
    query = QueryText(
        text=text.text.rstrip(),
        continuous=found.continuous or writes,
        limit=found.limit,
        as_of=found.as_of,
        within=None if found.within is None else found.within.text,
        grace=None if found.grace is None else found.grace.text,
        window="; ".join(window.text for window in found.windows) or None,
        position=source.position(start),
        pieces=text.pieces,
    )
    return query, found


def _word(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].upper if 0 <= at < len(tokens) else ""


def _refuse_functions(tokens: Sequence[Token]) -> None:
    for token, following in pairwise(tokens):
        instead = ksql_differences.FUNCTIONS.get(token.upper)
        if instead is not None and following.is_symbol("("):
            raise error_at(token, f"Spark SQL has no function {token.text}", f"write {instead}")


def _read_end(found: QueryClauses, writes: bool) -> None:
    """The end of the query: EMIT CHANGES and LIMIT n, in either order. The LIMIT of a bounded query is Spark's."""
    tokens = found.tokens
    end = len(tokens)
    limit: tuple[int, int] | None = None
    while True:
        if end >= 2 and tokens[end - 2].upper == "EMIT" and tokens[end - 1].upper == "CHANGES" and not found.continuous:
            found.continuous = True
            end -= 2
            found.cut(end, end + 2)
        elif end >= 2 and tokens[end - 2].upper == "LIMIT" and tokens[end - 1].text.isdecimal() and limit is None:
            end -= 2
            limit = (end, int(tokens[end + 1].text))
        else:
            break
    if limit is None or not (found.continuous or writes):
        return
    if writes:
        raise error_at(
            tokens[limit[0]], "a query that writes a topic has no LIMIT", "remove LIMIT: the query runs until TERMINATE"
        )
    found.limit = limit[1]
    found.cut(limit[0], limit[0] + 2)


def _refuse_emit(found: QueryClauses, depth: Sequence[int]) -> None:
    taken = {edit.start for edit in found.edits}
    for at, token in enumerate(found.tokens):
        following = _word(found.tokens, at + 1)
        if token.upper != "EMIT" or token.start in taken or _is_column(found.tokens, at):
            continue
        if following == "FINAL":
            raise error_at(
                token,
                "EMIT FINAL is not supported",
                "write EMIT CHANGES: the last row of a window is its result, and no row follows after its grace period",
            )
        if following == "CHANGES":
            where = "belongs to the end of the statement" if depth[at] == 0 else "does not belong into a subquery"
            raise error_at(token, f"EMIT CHANGES {where}", "write it once, at the end")


def _is_column(tokens: Sequence[Token], at: int) -> bool:
    """Whether a word that is the first one of a clause is a column or an alias here: `SELECT emit changes, …`."""
    before = tokens[at - 1] if at > 0 else None
    return before is not None and (before.upper in ("SELECT", "DISTINCT", "AS", "BY") or before.text in (",", ".", "("))


def _read_windows(found: QueryClauses, depth: Sequence[int]) -> None:
    found.windows = window_clauses(found.source, found.tokens)
    for window in found.windows:
        found.edits += window_edits(found.source, found.tokens, depth, window)
        if window.grace is not None:
            _set_grace(found, window.grace, found.tokens[window.first])


def _in_window(found: QueryClauses, at: int) -> bool:
    return any(window.first <= at < window.end for window in found.windows)


def _is_join_interval(tokens: Sequence[Token], at: int) -> bool:
    """`WITHIN GROUP (ORDER BY …)` is Spark's; a column may have the name too."""
    following = tokens[at + 1] if at + 1 < len(tokens) else None
    return following is not None and (following.kind is TokenKind.NUMBER or following.is_symbol("("))


def _read_within(found: QueryClauses, at: int, *, continuous: bool) -> None:
    token = found.tokens[at]
    if not continuous:
        raise error_at(
            token,
            "WITHIN joins the streams of a continuous query, and this query is bounded",
            "add EMIT CHANGES, or write a condition on both times in ON: "
            "b.timestamp BETWEEN a.timestamp - INTERVAL 1 HOUR AND a.timestamp + INTERVAL 1 HOUR",
        )
    if found.tokens[at + 1].is_symbol("("):
        raise error_at(
            token,
            "WITHIN with two intervals is not supported",
            "write WITHIN 10 MINUTES, or a condition on both times in ON: "
            "b.timestamp BETWEEN a.timestamp - INTERVAL 1 HOUR AND a.timestamp + INTERVAL 2 HOURS",
        )
    interval = interval_at(found.source, found.tokens, at + 1, "WITHIN")
    if found.within is not None and found.within.text != interval.text:
        raise error_at(token, f"this query has WITHIN {found.within.text} already", "use one interval for all joins")
    found.within = interval
    found.cut(at, at + 1 + interval.tokens)


def _read_grace(found: QueryClauses, at: int) -> None:
    following = found.tokens[at + 2] if at + 2 < len(found.tokens) else None
    if _is_column(found.tokens, at) and (following is None or following.kind is not TokenKind.NUMBER):
        return
    interval = interval_at(found.source, found.tokens, at + 2, "GRACE PERIOD")
    _set_grace(found, interval, found.tokens[at])
    found.cut(at, at + 2 + interval.tokens)


def _set_grace(found: QueryClauses, interval: Interval, token: Token) -> None:
    if found.grace is not None and found.grace.text != interval.text:
        raise error_at(token, f"this query has GRACE PERIOD {found.grace.text} already", "use one grace period")
    found.grace = interval


def _read_bound(found: QueryClauses, at: int) -> None:
    """`orders AT OFFSET 12 [PARTITION 0]`, `orders AT TIMESTAMP '2026-01-01 12:00:00'`."""
    tokens = found.tokens
    relation = tokens[at - 1] if at > 0 else None
    if relation is None or relation.kind not in (TokenKind.WORD, TokenKind.QUOTED_NAME) or _before(tokens, at) == "":
        return
    value = tokens[at + 2] if at + 2 < len(tokens) else tokens[at + 1]
    kind = tokens[at + 1].upper
    size = 3
    if kind == "OFFSET":
        if not (value.kind is TokenKind.NUMBER and value.text.isdecimal()):
            raise error_at(value, "AT OFFSET needs a whole number", f"write {relation.text} AT OFFSET 0")
        partition = None
        if _word(tokens, at + 3) == "PARTITION" and _word(tokens, at + 4) != "BY":
            named = tokens[at + 4] if at + 4 < len(tokens) else tokens[at + 3]
            if not named.text.isdecimal():
                raise error_at(named, "PARTITION needs a whole number", "write AT OFFSET 12 PARTITION 0")
            partition = int(named.text)
            size = 5
        bound = ReadBound(offset=int(value.text), partition=partition)
    else:
        if value.kind is not TokenKind.STRING:
            hint = f"write {relation.text} AT TIMESTAMP '2026-01-31 12:00:00'"
            raise error_at(value, "AT TIMESTAMP needs a time in quotes", hint)
        bound = ReadBound(timestamp=value.value)
    name = relation.value.lower()
    if found.as_of.setdefault(name, bound) != bound:
        raise error_at(tokens[at], f"{relation.text} is read with two different bounds", "use the same AT everywhere")
    found.cut(at, at + size)


def _before(tokens: Sequence[Token], at: int) -> str:
    """FROM, JOIN or a comma before the relation that ends before `at`."""
    first = at - 1
    while first >= 2 and tokens[first - 1].is_symbol("."):
        first -= 2
    before = tokens[first - 1] if first > 0 else None
    if before is None:
        return ""
    return before.text.upper() if before.upper in ("FROM", "JOIN", "TABLE") or before.is_symbol(",") else ""


def _read_partition_by(found: QueryClauses, at: int, writes: bool) -> None:
    tokens = found.tokens
    token = tokens[at]
    if not writes:
        raise error_at(
            token, "PARTITION BY sets the key of a topic, and this query writes none", "write ORDER BY, or leave it out"
        )
    columns: list[str] = []
    end = at + 2
    while end < len(tokens) and tokens[end].upper not in PARTITION_END:
        end += 1
    for number, part in enumerate(tokens[at + 2 : end]):
        if number % 2 == 0 and part.kind in (TokenKind.WORD, TokenKind.QUOTED_NAME) and part.upper != "NULL":
            columns.append(part.value)
        elif number % 2 == 0 or not part.is_symbol(","):
            raise error_at(
                part,
                "PARTITION BY takes the names of columns of the result",
                "give the expression a name in SELECT: expression AS name … PARTITION BY name",
            )
    if not columns or (end - at) % 2 == 0:
        raise error_at(token, "the name of a column is missing after PARTITION BY")
    found.partition_by = tuple(columns)
    found.cut(at, end)
