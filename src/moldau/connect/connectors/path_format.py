"""Directories by time: Joda's patterns, as `path.format` of Confluent's sinks has them.

`'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH` gives `year=2026/month=01/day=31/hour=07`. Letters outside of quotes are
numbers of the time; `''` is a quote. Names of months and days are not supported, so that no locale matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 (local times, as Arrow's local_timestamp gives them)

_TOKEN: Final = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+")

_NUMBERS: Final[Mapping[str, Callable[[datetime], int]]] = {
    "y": lambda at: at.year,
    "Y": lambda at: at.year,
    "M": lambda at: at.month,
    "d": lambda at: at.day,
    "D": lambda at: at.timetuple().tm_yday,
    "H": lambda at: at.hour,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
    "x": lambda at: at.isocalendar().year,
    "w": lambda at: at.isocalendar().week,
    "e": lambda at: at.isocalendar().weekday,
}


class PathFormat:
    """A parsed pattern. ValueError says what is wrong with it."""

    def __init__(self, pattern: str) -> None:
        self._parts: list[str | tuple[str, int]] = []
        position = 0
        while position < len(pattern):
            match = _TOKEN.match(pattern, position)
            if match is None:
                raise ValueError(f"the quote at character {position + 1} of {pattern} has no end")
            self._parts.append(_part(match.group(), match.group(1), pattern))
            position = match.end()
        letters = [part[0] for part in self._parts if isinstance(part, tuple)]
        if not letters:
            raise ValueError(f"{pattern} has no letter of a time: every record would be in one directory")
        text = "".join(part for part in self._parts if isinstance(part, str))
        if ".." in text or text.startswith("/") or "\0" in text:
            raise ValueError(f"{pattern} leaves the directory of the topic")
        self.step_ms = 1000 if "s" in letters else 60_000
        """Times that are in the same step have the same directory."""

    def directory(self, local_ms: int) -> str:
        """The directory of a local time."""
        at = EPOCH + timedelta(milliseconds=local_ms)
        return "".join(part if isinstance(part, str) else _number(at, *part) for part in self._parts)


def _part(text: str, letter: str | None, pattern: str) -> str | tuple[str, int]:
    if letter is None:
        return text[1:-1].replace("''", "'") or "'" if text.startswith("'") else text
    if letter not in _NUMBERS or (letter == "M" and len(text) > 2):
        raise ValueError(f"{text} in {pattern} is not supported; letters are {', '.join(_NUMBERS)}, as numbers only")
    return letter, len(text)


def _number(at: datetime, letter: str, width: int) -> str:
    value = _NUMBERS[letter](at)
    if letter in "yYx" and width == 2:
        value %= 100
    return f"{value:0{width}d}"
