"""Formats of keys and values in JSON: binary as base64, JSON, text, and the formats with a schema.

`plain_bytes` and `plain_value` need nothing. The formats with a schema (Avro, JSON Schema, Protobuf) need the registry
and are in `schema_formats.py`.
"""

from __future__ import annotations

import base64
import binascii
import json
from enum import StrEnum
from typing import Any, Final

from moldau.rest.errors import ProxyError, unprocessable

CONVERSION_CODE: Final = 42203


class RecordFormat(StrEnum):
    """A format, by its name in API v3."""

    BINARY = "BINARY"
    JSON = "JSON"
    STRING = "STRING"
    AVRO = "AVRO"
    JSONSCHEMA = "JSONSCHEMA"
    PROTOBUF = "PROTOBUF"
    AUTO = "AUTO"
    """JSON if it is, otherwise text, otherwise base64. For followers only."""

    @property
    def has_schema(self) -> bool:
        return self in WITH_SCHEMA


WITH_SCHEMA: Final = frozenset({RecordFormat.AVRO, RecordFormat.JSONSCHEMA, RecordFormat.PROTOBUF})
PLAIN: Final = (RecordFormat.BINARY, RecordFormat.JSON, RecordFormat.STRING)


def json_bytes(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def plain_bytes(kind: str, data: Any, part: str) -> bytes | None:
    """The bytes of a key or value in a format without a schema. ProxyError 422: the data does not have the format."""
    if data is None:
        return None
    if kind == "JSON":
        return json_bytes(data)
    if kind == "BINARY":
        if not isinstance(data, str):
            raise unprocessable(f"the {part} is not base64: it is no text", CONVERSION_CODE)
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise unprocessable(f"the {part} is not base64", CONVERSION_CODE) from None
    if not isinstance(data, str):
        raise unprocessable(f"the {part} is no text", CONVERSION_CODE)
    return data.encode()


def plain_value(kind: RecordFormat, data: bytes | None, part: str) -> Any:
    """The JSON value of the bytes of a record. ProxyError 422: they do not have the format."""
    if data is None:
        return None
    if kind is RecordFormat.BINARY:
        return base64.b64encode(data).decode()
    if kind is RecordFormat.AUTO:
        return _any_value(data)
    try:
        return json.loads(data, parse_constant=_as_text) if kind is RecordFormat.JSON else data.decode()
    except (ValueError, RecursionError):
        what = "JSON" if kind is RecordFormat.JSON else "text in UTF-8"
        raise ProxyError(422, CONVERSION_CODE, f"the {part} is not {what}; ask for the format binary") from None


def _any_value(data: bytes) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()
    try:
        return json.loads(text, parse_constant=_as_text)
    except (ValueError, RecursionError):
        return text


def _as_text(name: str) -> Any:
    raise ValueError(name)
