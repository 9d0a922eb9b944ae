"""Translation of ksqlDB's WINDOW clause into Spark's functions window() and session_window() in GROUP BY.

`FROM orders WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY city` becomes
`FROM orders GROUP BY window(__event_time__, '1 MINUTE'), city`. WINDOWSTART and WINDOWEND of that query become
`unix_millis(window.start)` and `unix_millis(window.end)`: they are milliseconds in ksqlDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moldau.sql.intervals import Interval, interval_at
from moldau.sql.statements import EVENT_TIME
from moldau.sql.text_positions import SourceText, TextEdit, blanked
from moldau.sql.token_reader import did_you_mean
from moldau.sql.tokens import Token, error_at

KINDS: Final = ("TUMBLING", "HOPPING", "SESSION")
_SET_OPERATORS: Final = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})
_BOUNDARY: Final = {"WINDOWSTART": "start", "WINDOWEND": "end"}


@dataclass(frozen=True)
class WindowClause:
    """The clause in the tokens from `first` to before `end`."""

    kind: str
    text: str
    first: int
    end: int
    size: Interval
    advance: Interval | None = None
    grace: Interval | None = None

    @property
    def function(self) -> str:
        if self.kind == "SESSION":
            return f"session_window({EVENT_TIME}, '{self.size.text}')"
        advance = "" if self.advance is None else f", '{self.advance.text}'"
        return f"window({EVENT_TIME}, '{self.size.text}'{advance})"

    @property
    def column(self) -> str:
        return "session_window" if self.kind == "SESSION" else "window"


def depths(tokens: Sequence[Token]) -> list[int]:
    """How many brackets are open around each token; a bracket itself counts as outside."""
    found: list[int] = []
    depth = 0
    for token in tokens:
        depth -= token.is_symbol(")") or token.is_symbol("]")
        found.append(depth)
        depth += token.is_symbol("(") or token.is_symbol("[")
    return found


def window_clauses(source: SourceText, tokens: Sequence[Token]) -> list[WindowClause]:
    return [
        _clause(source, tokens, at)
        for at, token in enumerate(tokens)
        if token.upper == "WINDOW" and _is_clause(tokens, at)
    ]


def _is_clause(tokens: Sequence[Token], at: int) -> bool:
    """Whether `WINDOW kind (` stands here. `WINDOW name AS (…)` and the function `window(…)` are Spark's."""
    kind, bracket = (tokens[at + 1], tokens[at + 2]) if at + 2 < len(tokens) else (None, None)
    if kind is None or bracket is None or not kind.upper or not bracket.is_symbol("("):
        return False
    if kind.upper not in KINDS:
        raise error_at(
            kind, f"{kind.text} is not a kind of window", did_you_mean(kind.text, KINDS, f"write {KINDS[0]}")
        )
    return True


def _clause(source: SourceText, tokens: Sequence[Token], first: int) -> WindowClause:
    kind = tokens[first + 1].upper
    parts: dict[str, Interval] = {}
    at = first + 3
    if kind == "SESSION":
        parts["SIZE"] = interval_at(source, tokens, at, "SESSION (")
        at += 2
    while not tokens[at].is_symbol(")"):
        if parts:
            if not tokens[at].is_symbol(","):
                raise error_at(tokens[at], f", or ) is missing before {tokens[at].text}")
            at += 1
        at = _part(source, tokens, at, kind, parts)
    _check_parts(tokens[first + 1], kind, parts)
    text = source.text[tokens[first].start : tokens[at].end]
    advance, grace = parts.get("ADVANCE BY"), parts.get("GRACE PERIOD")
    return WindowClause(kind, " ".join(text.split()), first, at + 1, parts["SIZE"], advance, grace)


def _part(source: SourceText, tokens: Sequence[Token], at: int, kind: str, parts: dict[str, Interval]) -> int:
    """Reads one part of the clause; returns where the next begins."""
    allowed = {"TUMBLING": ("SIZE", "GRACE PERIOD"), "HOPPING": ("SIZE", "ADVANCE BY", "GRACE PERIOD")}
    names = allowed.get(kind, ("GRACE PERIOD",))
    token = tokens[at]
    if token.upper == "RETENTION":
        hint = "remove it: the state of a window is kept until its GRACE PERIOD has passed"
        raise error_at(token, "RETENTION of a window is not supported", hint)
    for name in names:
        words = name.split()
        if [one.upper for one in tokens[at : at + len(words)]] == words:
            if name in parts:
                raise error_at(token, f"{name} is given twice")
            parts[name] = interval_at(source, tokens, at + len(words), name)
            return at + len(words) + 2
    near = did_you_mean(token.text, [name.split()[0] for name in names], f"write {' or '.join(names)}")
    raise error_at(token, f"{token.text} is not a part of a {kind} window", near)


def _check_parts(token: Token, kind: str, parts: dict[str, Interval]) -> None:
    if "SIZE" not in parts:
        raise error_at(token, f"SIZE is missing in the {kind} window", f"write {kind} (SIZE 1 MINUTE)")
    if kind == "HOPPING" and "ADVANCE BY" not in parts:
        raise error_at(
            token, "ADVANCE BY is missing in the HOPPING window", "write HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES)"
        )


def window_edits(
    source: SourceText, tokens: Sequence[Token], depth: Sequence[int], window: WindowClause
) -> list[TextEdit]:
    """Takes the clause out, puts the function into GROUP BY, and replaces WINDOWSTART and WINDOWEND of the query."""
    level = depth[window.first]
    start, end = _block(tokens, depth, window.first)
    group = next(
        (at for at in range(window.end, end - 1) if depth[at] == level and _is_group_by(tokens, at)),
        None,
    )
    if group is None:
        raise error_at(
            tokens[window.first], "a WINDOW clause needs GROUP BY", "add GROUP BY with the columns of the result's key"
        )
    place = tokens[group + 1].end
    edits = [
        blanked(source.text, tokens[window.first].start, tokens[window.end - 1].end),
        TextEdit(place, place, f" {window.function},", tokens[window.first].start),
    ]
    for at in range(start, end):
        field = _BOUNDARY.get(tokens[at].upper)
        if field is not None and not (at > 0 and (tokens[at - 1].is_symbol(".") or tokens[at - 1].upper == "AS")):
            is_item = at < window.first and depth[at] == level and _is_whole_item(tokens, at)
            alias = f" AS {tokens[at].text}" if is_item else ""
            edits.append(TextEdit(tokens[at].start, tokens[at].end, f"unix_millis({window.column}.{field}){alias}"))
    return edits


def _block(tokens: Sequence[Token], depth: Sequence[int], at: int) -> tuple[int, int]:
    """The tokens of the SELECT that has the token `at`: up to the brackets around it, or to a UNION."""

    def inside(one: int) -> bool:
        return depth[one] > depth[at] or (depth[one] == depth[at] and tokens[one].upper not in _SET_OPERATORS)

    start = end = at
    while start > 0 and inside(start - 1):
        start -= 1
    while end < len(tokens) and inside(end):
        end += 1
    return start, end


def _is_group_by(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].upper == "GROUP" and tokens[at + 1].upper == "BY"


def _is_whole_item(tokens: Sequence[Token], at: int) -> bool:
    """Whether the word alone is an item of the SELECT list: it needs its name as the name of the column."""
    before, after = tokens[at - 1], tokens[at + 1] if at + 1 < len(tokens) else None
    starts = before.upper in ("SELECT", "DISTINCT") or before.is_symbol(",")
    return starts and after is not None and (after.upper == "FROM" or after.is_symbol(","))
