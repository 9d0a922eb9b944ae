"""Values of results as text, as JSON and as fields of CSV."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

NULL: Final = "NULL"


def json_value(value: Any) -> Any:
    """A value that JSON has: times as text, bytes in Base64, rows as objects, numbers that JSON has not as text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        as_float = float(value)
        return as_float if Decimal(repr(as_float)) == value else str(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(bytes(value)).decode()
    if hasattr(value, "asDict"):  # a Row of Spark
        return {name: json_value(one) for name, one in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return {plain_text(name): json_value(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(one) for one in value]
    return plain_text(value)


def plain_text(value: Any) -> str:
    """A value for people. A value with parts is JSON."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray):
        return _bytes_text(bytes(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, dict | list | tuple):
        return json.dumps(json_value(value), ensure_ascii=False)
    return str(value)


def _bytes_text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return text if text.isprintable() else f"0x{value.hex()}"


def csv_field(value: Any) -> str:
    """A value as a field of CSV: null is empty."""
    return "" if value is None else plain_text(value)


def one_line(text: str) -> str:
    """A text for a cell of a table: control characters would move the terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def is_numeric(type_name: str) -> bool:
    """Whether a column of this type is aligned to the right."""
    return type_name.partition("(")[0] in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
