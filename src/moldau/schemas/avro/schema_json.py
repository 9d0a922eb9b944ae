"""JSON of Avro schemas: read as Apache Avro reads it, written as it writes it.

Two registries compare schemas by their text. The text of one value is therefore the same here and in Java: no white
space, upper-case hexadecimal digits in escapes, and floating-point numbers in the form of `Double.toString`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from moldau.schemas.errors import InvalidSchema

_STRING_OR_COMMENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\]')
_SHORT_ESCAPES: Final = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def read_json(text: str) -> Any:
    """The value of a text. Comments are allowed, as in Apache Avro; NaN and infinity are not."""
    try:
        return _load(text)
    except InvalidSchema:
        without_comments = _STRING_OR_COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", text)
        if without_comments == text:
            raise
        return _load(without_comments)


def _load(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        if "\\u" in text:
            compact_json(value).encode()
    except UnicodeEncodeError:
        raise InvalidSchema("the schema has half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise InvalidSchema("the schema is nested too deeply") from None
    except ValueError as error:
        raise InvalidSchema(f"the schema is not valid JSON: {error}") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def compact_json(value: Any) -> str:
    """The text of a value without white space, members in the order of the dict."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + _ESCAPED.sub(_escape, value) + '"'
        case int():
            return str(value)
        case float():
            return java_double(value)
        case Mapping():
            return "{" + ",".join(f"{compact_json(key)}:{compact_json(member)}" for key, member in value.items()) + "}"
        case _:
            return "[" + ",".join(map(compact_json, value)) + "]"


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT_ESCAPES.get(character) or f"\\u{ord(character):04X}"


def java_double(number: float) -> str:
    """A number as Java's Double.toString writes it: 1.0E10 where Python writes 10000000000.0. NaN is a string."""
    if not math.isfinite(number):
        return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return _plain(number)
    mantissa, _, exponent = _scientific(number)
    return f"{mantissa}E{int(exponent)}"


def _plain(number: float) -> str:
    text = repr(number)
    return text if "e" not in text else f"{number:f}"


def _scientific(number: float) -> tuple[str, str, str]:
    """Python's shortest digits in scientific form: one digit, a point, at least one digit."""
    digits = 0
    while float(f"{number:.{digits}e}") != number:
        digits += 1
    return f"{number:.{max(digits, 1)}e}".partition("e")
