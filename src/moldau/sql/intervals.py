"""Intervals of ksqlDB's clauses: `10 MINUTES`, as Spark's intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from moldau.sql.text_positions import SourceText
from moldau.sql.token_reader import did_you_mean
from moldau.sql.tokens import Token, TokenKind, error_at

UNITS: Final = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
"""Units of a fixed length. A month has none, therefore Spark refuses it as a window too."""


@dataclass(frozen=True)
class Interval:
    text: str
    """As Spark reads it, for example `10 MINUTES`."""
    start: int
    tokens: int = 2


def interval_at(source: SourceText, tokens: Sequence[Token], at: int, after: str) -> Interval:
    """The interval of the tokens from `at` on: a number and a unit."""
    number = tokens[at] if at < len(tokens) else tokens[-1]
    if at >= len(tokens) or not (number.kind is TokenKind.NUMBER and number.text.isdecimal()):
        raise error_at(number, f"a number is missing after {after}", f"write {after} 10 MINUTES")
    if int(number.text) == 0 and after != "GRACE PERIOD":
        raise error_at(number, f"{after} 0 is empty", f"write {after} 10 MINUTES")
    unit = tokens[at + 1] if at + 1 < len(tokens) else number
    if unit.upper.removesuffix("S") not in UNITS:
        hint = did_you_mean(unit.text, [f"{one}S" for one in UNITS], f"the units are {', '.join(UNITS)}")
        raise error_at(unit, f"a unit of time is missing after {number.text}", hint)
    return Interval(f"{number.text} {unit.upper}", number.start)
