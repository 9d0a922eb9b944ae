"""Date patterns of Java's SimpleDateFormat over columns: times as text and text as times, in UTC.

The letters G, y, M, L, d, D, E, u, F, a, H, k, K, h, m, s, S, z, Z and X are supported, in English. The letters w, W
and Y are refused: their weeks depend on Java's locale. Text is parsed leniently, as in Java: numbers may be out of
range (month 13 is January of the next year), and text after the pattern's end is ignored. Names of zones other than
UTC, GMT and Z are not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.config_def import ConfigError
from moldau.connect.transforms.java_calendar import Numbers as _Numbers
from moldau.connect.transforms.java_calendar import dates, days_of
from moldau.host.clock import SystemClock

DAY_MS: Final = 86_400_000
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_LETTERS: Final = "GyMLdDEuFaHkKhmsSzZX"
_OF_LOCALE: Final = "wWY"
_UNITS: Final = {"S": 1, "s": 1000, "m": _MINUTE_MS, **dict.fromkeys("HkKha", _HOUR_MS)}
"""The time in which the text of a letter does not change; a day for all others."""
_NUMERIC: Final = "ydDuFHkKhmsS"
_CENTURY_BACK: Final = 80
"""A year of two digits is in the hundred years that begin so many years ago, as in Java."""

_LONG_DIGITS: Final = 18
_FIRST_WEEKDAY: Final = 3
"""1970-01-01 was a Thursday; Monday is 0."""

_MONTHS: Final = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


@dataclass(frozen=True)
class _PatternPiece:
    """A part of a pattern: some equal letters, or fixed text (count 0)."""

    text: str
    count: int = 0

    @property
    def numeric(self) -> bool:
        return self.count > 0 and (self.text in _NUMERIC or (self.text in "ML" and self.count < 3))


class DatePattern:
    """A pattern of SimpleDateFormat, ready to format and to parse columns."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.pieces = _pieces(pattern)
        letters = {piece.text for piece in self.pieces if piece.count}
        self.unit_ms = min((_UNITS.get(letter, DAY_MS) for letter in letters), default=DAY_MS)
        self._regex, self._groups = _regex(self.pieces)

    def format(self, times: pa.Array) -> pa.Array:
        """The text of times in milliseconds since 1970 (int64). Null stays null."""
        if times.null_count == len(times):
            return pa.nulls(len(times), pa.string())
        encoded = floored(times, self.unit_ms).dictionary_encode()
        return self._format(_Parts(encoded.dictionary, self.unit_ms)).take(encoded.indices)

    def _format(self, parts: _Parts) -> pa.Array:
        texts = [_text(piece, parts) for piece in self.pieces]
        if not texts:
            return pa.repeat(pa.scalar(""), parts.rows)
        return pc.binary_join_element_wise(*texts, pa.repeat(pa.scalar(""), parts.rows))

    def parse(self, texts: pa.Array) -> tuple[pa.Array, pa.BooleanArray]:
        """The times of texts in milliseconds since 1970, and the rows whose text does not match the pattern."""
        if not self._groups:
            matches = pc.fill_null(pc.match_substring_regex(texts, self._regex), False)
            return pc.if_else(matches, pa.scalar(0, pa.int64()), None), pc.and_(texts.is_valid(), pc.invert(matches))
        found = pc.extract_regex(texts, self._regex)
        bad = pc.and_(texts.is_valid(), found.is_null())
        groups = dict(zip((one.name for one in found.type), found.flatten(), strict=True))
        values = {letter: _values(piece, groups[name]) for name, (letter, piece) in self._groups.items()}
        return pc.if_else(found.is_valid(), _milliseconds(values, len(texts)), None), bad


def floored(times: pa.Array, unit: int) -> pa.Array:
    """Times in whole units, rounded down also before 1970."""
    if unit == 1:
        return times
    quotient = pc.divide(times, unit)
    too_high = pc.greater(pc.multiply(quotient, unit), times)
    return pc.subtract(quotient, too_high.cast(pa.int64()))


def _pieces(pattern: str) -> tuple[_PatternPiece, ...]:
    found: list[_PatternPiece] = []
    for part in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(')|([^A-Za-z']+)", pattern):
        quoted, letter, open_quote, fixed = part.groups()
        if open_quote:
            raise ConfigError(f"Date pattern {pattern!r} has a quote without its pair")
        if letter:
            found.append(_PatternPiece(letter, len(part.group())))
        else:
            found.append(_PatternPiece(fixed if fixed is not None else quoted.replace("''", "'") or "'"))
    refused = sorted({one.text for one in found if one.count and one.text not in _LETTERS})
    if refused:
        weeks = [letter for letter in refused if letter in _OF_LOCALE]
        why = " (weeks depend on Java's locale; for the year write y)" if weeks else ""
        raise ConfigError(
            f"Date pattern {pattern!r} has letters that are not supported: {', '.join(refused)}{why}; "
            f"supported are {', '.join(_LETTERS)}, and any text in single quotes"
        )
    return tuple(found)


# -- times to text ---------------------------------------------------------------------------------------------------


class _Parts:
    """Calendar fields of times, which are given in units: a whole part of a day."""

    def __init__(self, units: pa.Array, unit_ms: int) -> None:
        self.rows = len(units)
        # In units, not in milliseconds: the start of the first day that 64 bits hold is out of their range.
        per_day = DAY_MS // unit_ms
        days = floored(units, per_day)
        self.of_day = pc.multiply(pc.subtract(units, pc.multiply(days, per_day)), unit_ms)
        self.hour = pc.divide(self.of_day, _HOUR_MS)
        numbers = days.to_numpy(zero_copy_only=False)
        year, month, day, of_year = dates(numbers)
        self.era = pa.array(year > 0)
        self.year = pa.array(np.where(year > 0, year, 1 - year))
        self.month, self.day, self.day_of_year = pa.array(month), pa.array(day), pa.array(of_year)
        self.weekday = pa.array((numbers + _FIRST_WEEKDAY) % 7)


def _modulo(values: pa.Array, divisor: int) -> pa.Array:
    return pc.subtract(values, pc.multiply(pc.divide(values, divisor), divisor))


def _or(values: pa.Array, zero: int) -> pa.Array:
    return pc.if_else(pc.equal(values, 0), zero, values)


_NUMBERS: Final[Mapping[str, Callable[[_Parts], pa.Array]]] = {
    "y": lambda parts: parts.year,
    "M": lambda parts: parts.month,
    "L": lambda parts: parts.month,
    "d": lambda parts: parts.day,
    "D": lambda parts: parts.day_of_year,
    "u": lambda parts: pc.add(parts.weekday, 1),
    "F": lambda parts: pc.add(pc.divide(pc.subtract(parts.day, 1), 7), 1),
    "H": lambda parts: parts.hour,
    "k": lambda parts: _or(parts.hour, 24),
    "K": lambda parts: _modulo(parts.hour, 12),
    "h": lambda parts: _or(_modulo(parts.hour, 12), 12),
    "m": lambda parts: _modulo(pc.divide(parts.of_day, _MINUTE_MS), 60),
    "s": lambda parts: _modulo(pc.divide(parts.of_day, 1000), 60),
    "S": lambda parts: _modulo(parts.of_day, 1000),
}


def _text(piece: _PatternPiece, parts: _Parts) -> pa.Array:
    letter, count = piece.text, piece.count
    rows = parts.rows
    if not count:
        return pa.repeat(pa.scalar(letter), rows)
    if letter in "ML" and count >= 3:
        return _name(_MONTHS, pc.subtract(parts.month, 1), long=count >= 4)
    if letter == "E":
        return _name(_DAYS, parts.weekday, long=count >= 4)
    if letter == "a":
        return pa.array(["AM", "PM"]).take(pc.divide(parts.hour, 12))
    if letter == "G":
        return pc.if_else(parts.era, "AD", "BC")
    fixed = {"X": "Z", "Z": "+0000", "z": "Coordinated Universal Time" if count >= 4 else "UTC"}
    if letter in fixed:
        return pa.repeat(pa.scalar(fixed[letter]), rows)
    number = _NUMBERS[letter](parts)
    if letter == "y" and count == 2:
        number = _modulo(number, 100)
    return pc.utf8_lpad(number.cast(pa.string()), count, "0")


def _name(names: list[str], number: pa.Array, *, long: bool) -> pa.Array:
    return pa.array([name if long else name[:3] for name in names]).take(number)


# -- text to times ---------------------------------------------------------------------------------------------------


def _regex(pieces: tuple[_PatternPiece, ...]) -> tuple[str, dict[str, tuple[str, _PatternPiece]]]:
    """The regular expression of a pattern, with the letter and piece of each of its groups."""
    groups: dict[str, tuple[str, _PatternPiece]] = {}
    parts = ["^"]
    for number, piece in enumerate(pieces):
        if not piece.count:
            parts.append("".join(f"\\x{{{ord(char):x}}}" for char in piece.text))
            continue
        name = f"g{number}"
        abutting = piece.numeric and number + 1 < len(pieces) and pieces[number + 1].numeric
        parts.append(rf"[ \t]*(?P<{name}>{_expected(piece, abutting=abutting)})")
        groups[name] = (piece.text, piece)
    return "".join(parts), groups


def _expected(piece: _PatternPiece, *, abutting: bool) -> str:
    if piece.numeric:
        if abutting:
            return rf"\d{{{piece.count}}}" + (rf"|-\d{{{piece.count - 1}}}" if piece.count > 1 else "")
        return r"-?\d+"
    if piece.text in "MLE":
        names = _DAYS if piece.text == "E" else _MONTHS
        return "(?i:" + "|".join([*names, *(name[:3] for name in names)]) + ")"
    if piece.text == "X":
        return "Z|[+-]" + {1: r"\d{2}", 2: r"\d{4}"}.get(piece.count, r"\d{2}:\d{2}")
    return {"a": "(?i:am|pm)", "G": "(?i:ad|bc)"}.get(piece.text, r"(?:(?:GMT)?[+-]\d{1,2}:?\d{2}|UTC|GMT|Z)")


def _values(piece: _PatternPiece, texts: pa.Array) -> _Numbers:
    """The number of a group in every row; rows that do not match have 0."""
    if piece.numeric:
        numbers = _integers(texts)
        if piece.text == "y" and piece.count <= 2:
            numbers = _with_century(numbers, pc.fill_null(pc.match_substring_regex(texts, r"^\d\d$"), False))
        return numbers
    if piece.text in "zZX":
        return _zone(texts)
    names = {"E": _DAYS, "a": ["am", "pm"], "G": ["bc", "ad"]}.get(piece.text, _MONTHS)
    short = pa.array([name[:3].lower() for name in names])
    found = pc.fill_null(pc.index_in(pc.utf8_slice_codeunits(pc.utf8_lower(texts), 0, 3), short), 0)
    indices: _Numbers = found.cast(pa.int64()).to_numpy()
    return indices + 1 if piece.text in "ML" else indices


def _where(mask: Any, yes: Any, no: Any) -> _Numbers:
    chosen: _Numbers = np.where(mask, yes, no)
    return chosen


def _integers(texts: pa.Array) -> _Numbers:
    """Numbers of any length, as Java takes them: the low 32 bits, and the bounds for more digits than 64 bits hold."""
    given = pc.fill_null(texts, "0")
    long = pc.greater(pc.utf8_length(given), _LONG_DIGITS)
    numbers: _Numbers = pc.if_else(long, "0", given).cast(pa.int64()).to_numpy(zero_copy_only=False)
    numbers = numbers.astype(np.int32).astype(np.int64)
    if pc.any(long).as_py():
        negative = pc.starts_with(given, "-").to_numpy(zero_copy_only=False)
        bounds = _where(negative, -(2**31), 2**31 - 1)
        numbers = _where(long.to_numpy(zero_copy_only=False), bounds, numbers)
    return numbers


def _with_century(years: _Numbers, short: pa.BooleanArray) -> _Numbers:
    first = int(np.datetime64(SystemClock().now_ms(), "ms").astype("datetime64[Y]").astype(int)) + 1970 - _CENTURY_BACK
    full = years + first // 100 * 100
    full = _where(full < first, full + 100, full)
    return _where(short.to_numpy(zero_copy_only=False), full, years)


def _zone(texts: pa.Array) -> _Numbers:
    """Offsets from UTC in milliseconds."""
    found = pc.extract_regex(texts, r"(?P<sign>[+-])(?P<hours>\d{1,2}):?(?P<minutes>\d{2})?$")
    sign, hours, minutes = found.flatten()
    offset = _integers(hours) * _HOUR_MS + _integers(pc.replace_substring_regex(minutes, "^$", "0")) * _MINUTE_MS
    return _where(pc.fill_null(pc.equal(sign, "-"), False).to_numpy(zero_copy_only=False), -offset, offset)


def _milliseconds(values: Mapping[str, _Numbers], rows: int) -> pa.Array:
    zero = np.zeros(rows, np.int64)
    year = values.get("y", zero + 1970)
    if "G" in values:
        year = _where(values["G"] == 0, 1 - year, year)
    month = values.get("M", values.get("L", zero + 1))
    day = values.get("d", values.get("D", zero + 1) if "M" not in values and "L" not in values else zero + 1)
    days = days_of(year, month, day)
    of_day = _hour(values, zero) * _HOUR_MS + values.get("m", zero) * _MINUTE_MS + values.get("s", zero) * 1000
    zone = sum((values[letter] for letter in "zZX" if letter in values), start=zero)
    return pa.array(days * DAY_MS + of_day + values.get("S", zero) - zone)


def _hour(values: Mapping[str, _Numbers], zero: _Numbers) -> _Numbers:
    if "H" in values:
        return values["H"]
    if "k" in values:
        return _where(values["k"] == 24, 0, values["k"])
    hour: _Numbers = values.get("a", zero) * 12
    if "h" in values:
        hour = hour + _where(values["h"] == 12, 0, values["h"])
    elif "K" in values:
        hour = hour + values["K"]
    return hour
