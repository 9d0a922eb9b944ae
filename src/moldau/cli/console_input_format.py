"""Input format of the console producer: parses lines of text into records.

Pure functions, except `chunks`, which calls the given read function.
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

CHUNK_BYTES = 1 << 20
MAX_LINE_BYTES = 64 << 20
"""A longer line is an error: brokers accept records of one megabyte by default."""

Header = tuple[str, bytes | None]


class Format(StrEnum):
    """The encoding of keys and values in lines."""

    STRING = "string"
    JSON = "json"
    HEX = "hex"


class LineError(ValueError):
    """A line that does not have the requested format."""


class NewRecord(NamedTuple):
    """A record parsed from a line."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp: int | None = None


class LineForm(NamedTuple):
    """The format of a line: Kafka's reader properties, and the encoding of keys and values."""

    format: Format = Format.STRING
    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False
    json_key: bool = False
    """Whether keys are passed on as JSON, also if they are texts: the producer has a serializer for them."""
    json_value: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether a line is only a value."""
        return self.format is Format.STRING and not (self.parse_key or self.parse_headers or self.null_marker)


READER_PROPERTIES = {
    "parse.key": "parse_key",
    "key.separator": "key_separator",
    "parse.headers": "parse_headers",
    "headers.delimiter": "headers_delimiter",
    "headers.separator": "headers_separator",
    "headers.key.separator": "headers_key_separator",
    "null.marker": "null_marker",
    "ignore.error": "ignore_error",
}


def line_form(properties: Mapping[str, str], format_: Format, key_separator: str | None = None) -> LineForm:
    """Parse Kafka's reader properties; ValueError for an unknown one. A `key_separator` implies parsing of keys."""
    fields: dict[str, Any] = {"format": format_}
    for name, text in properties.items():
        if name not in READER_PROPERTIES:
            raise ValueError(f"unknown property {name!r}; known properties: {', '.join(sorted(READER_PROPERTIES))}")
        field = READER_PROPERTIES[name]
        fields[field] = is_true(name, text) if field in ("parse_key", "parse_headers", "ignore_error") else _bytes(text)
    if key_separator is not None:
        fields |= {"parse_key": True, "key_separator": _bytes(key_separator)}
    form = LineForm(**fields)
    if form.parse_key and not form.key_separator:
        raise ValueError("the separator between key and value cannot be empty")
    return form


def is_true(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, not {text!r}")
    return text.lower() == "true"


def _bytes(text: str) -> bytes:
    """The bytes of a shell argument, including bytes that are not UTF-8. Replaces `\\t` and `\\n` by tab and
    newline."""
    return text.replace("\\t", "\t").replace("\\n", "\n").encode("utf-8", "surrogateescape")


def parser(form: LineForm) -> Callable[[bytes], NewRecord]:
    """The function that parses a line into a record. It raises LineError."""
    if form.format is Format.JSON:
        return lambda line: parse_json(line, json_key=form.json_key, json_value=form.json_value)
    return lambda line: parse_text(line, form)


def parse_text(line: bytes, form: LineForm) -> NewRecord:
    """Parse headers, key and value, in this order, if they are configured."""
    headers: Sequence[Header] = ()
    key: bytes | None = None
    rest = line
    if form.parse_headers:
        text, rest = _cut(rest, form.headers_delimiter, "headers", form)
        headers = [] if text is None else _headers(text, form)
    if form.parse_key:
        key, rest = _cut(rest, form.key_separator, "key", form)
        key = _decode(key, form)
    return NewRecord(_decode(rest, form), key, headers)


def _cut(line: bytes, separator: bytes, what: str, form: LineForm) -> tuple[bytes | None, bytes]:
    before, found, behind = line.partition(separator)
    if found:
        return before, behind
    if form.ignore_error:
        return None, line
    raise LineError(f"no {what}: the separator {separator.decode(errors='replace')!r} is not in the line")


def _headers(text: bytes, form: LineForm) -> list[Header]:
    if text == form.null_marker:
        return []
    headers: list[Header] = []
    for one in text.split(form.headers_separator):
        name, found, value = one.partition(form.headers_key_separator)
        if not found and not form.ignore_error:
            raise LineError(f"header {one.decode(errors='replace')!r} has no {form.headers_key_separator.decode()!r}")
        if name == form.null_marker:
            raise LineError("a header's name cannot be null")
        headers.append((name.decode(errors="replace"), None if value == form.null_marker else value))
    return headers


def _decode(text: bytes | None, form: LineForm) -> bytes | None:
    if text is None or text == form.null_marker:
        return None
    if form.format is Format.HEX:
        try:
            return binascii.unhexlify(text)
        except binascii.Error as error:
            raise LineError(f"not hexadecimal: {error}") from None
    return text


# -- JSON --------------------------------------------------------------------------------------------------------------

JSON_FIELDS = frozenset(
    {"value", "value_base64", "key", "key_base64", "headers", "partition", "timestamp"}
    | {"topic", "offset", "timestamp_type", "leader_epoch"}  # fields that `consume` prints but a producer cannot set
)


def parse_json(line: bytes, *, json_key: bool = False, json_value: bool = False) -> NewRecord:
    """Parse an object as `moldau consume --output json` prints it. A key or value that is not a string is stored as
    JSON; with `json_key` or `json_value` a string too."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise LineError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise LineError("not a JSON object with key, value, headers, partition or timestamp")
    if unknown := fields.keys() - JSON_FIELDS:
        raise LineError(f"unknown field {min(unknown)!r}; known fields: {', '.join(sorted(JSON_FIELDS))}")
    return NewRecord(
        _json_bytes(fields, "value", as_json=json_value),
        _json_bytes(fields, "key", as_json=json_key),
        _json_headers(fields.get("headers")),
        _json_integer(fields, "partition"),
        _json_integer(fields, "timestamp"),
    )


def _json_bytes(fields: Mapping[str, Any], name: str, *, as_json: bool = False) -> bytes | None:
    if (encoded := fields.get(f"{name}_base64")) is not None:
        return _base64(encoded)
    return _json_text(fields.get(name), as_json=as_json)


def _base64(text: Any) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise LineError(f"not base64: {error}") from None


def _json_text(value: Any, *, as_json: bool = False) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str) and not as_json:
        return value.encode("utf-8", "surrogatepass")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _json_headers(headers: Any) -> list[Header]:
    """A list of objects with key and value, as `consume` prints them, or one object of names and values."""
    if headers is None:
        return []
    if isinstance(headers, dict):
        return [(name, _json_text(value)) for name, value in headers.items()]
    if not isinstance(headers, list) or not all(isinstance(one, dict) and "key" in one for one in headers):
        raise LineError("headers must be an object, or a list of objects with key and value")
    return [(str(one["key"]), _json_bytes(one, "value")) for one in headers]


def _json_integer(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise LineError(f"{name} is {value!r}, not a whole number")
    return value


# -- reading -----------------------------------------------------------------------------------------------------------


def chunks(read: Callable[[int], bytes]) -> Iterator[list[bytes]]:
    """The lines from `read`, without line ends, in lists of lines that arrived together."""
    parts: list[bytes] = []  # the parts of an incomplete line
    size = 0
    while data := read(CHUNK_BYTES):
        first, *others = data.split(b"\n")
        parts.append(first)
        size += len(first)
        if size > MAX_LINE_BYTES:
            raise LineError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        if others:
            lines = [b"".join(parts), *others]
            parts = [lines.pop()]
            size = len(parts[0])
            yield lines
    if size:
        yield [b"".join(parts)]
