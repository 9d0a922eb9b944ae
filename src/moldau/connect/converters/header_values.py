"""Header values from their texts: the type is inferred as Kafka Connect's `Values.parseString` does.

    true            boolean                 [1, 2, 3]       array of the smallest common type
    12, 1200        int8, int16 and so on   {"a": 1}        map
    1.5             float or double         2024-01-31, 10:15:30.000Z, 2024-01-31T10:15:30.000Z     logical types

Everything else is a string. So are, unlike in Kafka, texts of which Kafka reads only the beginning (`1,5` as 1), arrays
and maps whose elements have no common type, and decimals that Arrow cannot hold. An empty array has elements of type
string here, and of no type in Kafka.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from moldau.connect.schemas import DATE, SCALE, TIME, TIMESTAMP, Schema, SchemaType, decimal_schema

Parsed = tuple[Schema, Any] | None
"""A value with its schema; None: null."""

_INTEGERS: Final = (
    (SchemaType.INT8, 2**7),
    (SchemaType.INT16, 2**15),
    (SchemaType.INT32, 2**31),
    (SchemaType.INT64, 2**63),
)
_NUMERIC: Final = (*(kind for kind, _ in _INTEGERS), SchemaType.FLOAT32, SchemaType.FLOAT64)
_FLOAT_MAX: Final = 3.4028235677973366e38
"""From here on a float is infinite."""

_STRING: Final = Schema(SchemaType.STRING)
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_TOKEN: Final = re.compile(r'\\.|["\[\]{},:]|[^\\"\[\]{},:]+', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_TIME: Final = re.compile(r"(\d{2}):(\d{2}):(\d{2})\.(\d{3})Z", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
MAX_NESTING: Final = 100
"""Levels of arrays and maps; a deeper text is a string."""


class _NotParsed(Exception):
    """The text is neither an array nor a map."""


def parse_header(text: str) -> Parsed:
    """The value of a header's text."""
    stripped = text.strip()
    if stripped == "null":
        return None
    if stripped in ("true", "false"):
        return Schema(SchemaType.BOOLEAN), stripped == "true"
    if stripped[:1] in ("[", "{"):
        try:
            return _Container(stripped).parse()
        except _NotParsed:
            return _STRING, text
    return _temporal(stripped) or _number(stripped) or (_STRING, text)


def _temporal(text: str) -> Parsed:
    date = _DATE.match(text)
    time = _TIME.fullmatch(text[11:] if date else text)
    try:
        if date and len(text) == 10:
            return Schema(SchemaType.INT32, name=DATE, version=1), datetime.date(*map(int, date.groups()))
        if time and not date:
            return Schema(SchemaType.INT32, name=TIME, version=1), _time(time)
        if time and date and text[10] == "T":
            moment = datetime.datetime.combine(datetime.date(*map(int, date.groups())), _time(time), datetime.UTC)
            return Schema(SchemaType.INT64, name=TIMESTAMP, version=1), moment
    except ValueError:  # the 31st of February
        pass
    return None


def _time(found: re.Match[str]) -> datetime.time:
    hour, minute, second, milli = map(int, found.groups())
    return datetime.time(hour, minute, second, milli * 1000)


def _number(text: str) -> Parsed:
    if not _NUMBER.fullmatch(text) or text[0] == ".":
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if abs(value.adjusted()) < 40 and value == value.to_integral_value():
        for kind, limit in _INTEGERS:
            if -limit <= value < limit:
                return Schema(kind), int(value)
    _, _, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if exponent != 0:
        real = float(value)
        if abs(real) < _FLOAT_MAX:
            return Schema(SchemaType.FLOAT32), real
        if real not in (float("inf"), float("-inf")):
            return Schema(SchemaType.FLOAT64), real
    return _decimal(value, -exponent)


def _decimal(value: Decimal, scale: int) -> Parsed:
    digits = max(len(value.as_tuple().digits), scale, 1)
    if digits > 76 or scale < -76:  # Arrow has no wider decimals
        return None
    schema = decimal_schema(digits, scale, optional=False)
    return (schema if digits > 38 else _plain_decimal(schema)), value


def _plain_decimal(schema: Schema) -> Schema:
    return Schema(schema.type, name=schema.name, version=1, parameters={SCALE: schema.parameters[SCALE]})


class _Container:
    """Parser of arrays and maps."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = _TOKEN.findall(text)
        self.at = 0
        if "".join(self.tokens) != text:  # a backslash at the end
            raise _NotParsed

    def parse(self) -> Parsed:
        found = self._value(0)
        if self.at < len(self.tokens):
            raise _NotParsed
        return found

    def _peek(self) -> str:
        """The next token that is not white space."""
        while self.at < len(self.tokens) and not self.tokens[self.at].strip():
            self.at += 1
        if self.at == len(self.tokens):
            raise _NotParsed
        return self.tokens[self.at].strip()

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self.at += 1
        return True

    def _value(self, depth: int) -> Parsed:
        if depth > MAX_NESTING:
            raise _NotParsed
        if self._take('"'):
            return self._string()
        if self._take("["):
            return self._array(depth)
        if self._take("{"):
            return self._map(depth)
        return self._plain()

    def _string(self) -> Parsed:
        parts = []
        while self.at < len(self.tokens) and self.tokens[self.at] != '"':
            parts.append(self.tokens[self.at])
            self.at += 1
        if self.at == len(self.tokens):
            raise _NotParsed
        self.at += 1
        content = _ESCAPE.sub(r"\1", "".join(parts))
        return _temporal(content) or (_STRING, content)

    def _plain(self) -> Parsed:
        token = self._peek()
        if token in ("null", "true", "false"):
            self.at += 1
            return parse_header(token)
        # A time has two colons, which are tokens.
        for count in (5, 1):
            text = "".join(self.tokens[self.at : self.at + count]).strip()
            found = _temporal(text) or (_number(text) if count == 1 else None)
            if found is not None:
                self.at += count
                return found
        raise _NotParsed

    def _elements(self, end: str) -> Iterator[None]:
        """Once for each element, up to the end."""
        if self._take(end):
            return
        while True:
            yield
            if self._take(end):
                return
            if not self._take(","):
                raise _NotParsed
            if self._take(end):
                return

    def _array(self, depth: int) -> Parsed:
        values = [self._value(depth + 1) for _ in self._elements("]")]
        element = common_schema(values)
        schema = Schema(SchemaType.ARRAY, value_schema=element)
        return schema, [None if one is None else one[1] for one in values]

    def _map(self, depth: int) -> Parsed:
        keys: list[Parsed] = []
        values: list[Parsed] = []
        for _ in self._elements("}"):
            key = self._value(depth + 1)
            if key is None or not self._take(":"):
                raise _NotParsed
            keys.append(key)
            values.append(self._value(depth + 1))
        key_schema = Schema(**{**common_schema(keys).__dict__, "optional": False})
        schema = Schema(SchemaType.MAP, key_schema=key_schema, value_schema=common_schema(values))
        pairs = dict(
            zip((key[1] for key in keys if key), (None if one is None else one[1] for one in values), strict=True)
        )
        return schema, list(pairs.items())


def common_schema(values: list[Parsed]) -> Schema:
    """The smallest schema that holds all values."""
    schemas = [one[0] for one in values if one is not None]
    if not schemas:
        return Schema(SchemaType.STRING, optional=True)
    if len(schemas) < len(values):  # nulls beside values
        raise _NotParsed
    if all(one.type in _NUMERIC and one.name is None for one in schemas):
        return Schema(max((one.type for one in schemas), key=_NUMERIC.index))
    if any(one != schemas[0] for one in schemas):
        raise _NotParsed
    return schemas[0]
