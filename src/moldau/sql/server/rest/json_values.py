"""Values of rows as JSON: what PySpark returns, in the forms that JSON has.

Times are ISO 8601 in UTC with a Z, a DATE is `2026-01-31`, a DECIMAL is text (JSON's numbers would lose digits), BINARY
is base64, an interval is its seconds. A struct is an object; NaN and infinities are text.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from moldau.sql.results import ResultColumn

NTZ: Final = "timestamp_ntz"
"""The type of times without a zone, which have no Z."""


def json_value(value: Any) -> Any:
    """The value in a form that `json.dumps` takes."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return str(value)
        case datetime():
            return _time(value)
        case date():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case Mapping():
            return {_name(name): json_value(one) for name, one in value.items()}
        case tuple() if (names := getattr(value, "__fields__", None)) is not None:  # PySpark's Row
            return {name: json_value(one) for name, one in zip(names, value, strict=True)}
        case list() | tuple():
            return [json_value(one) for one in value]
        case _:
            return str(value)


def json_line(value: Any) -> bytes:
    """One line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def json_row(row: Sequence[Any], columns: Sequence[ResultColumn]) -> list[Any]:
    """The values of a row."""
    return [
        value.isoformat() if isinstance(value, datetime) and column.type == NTZ else json_value(value)
        for value, column in zip(row, columns, strict=True)
    ]


def _time(value: datetime) -> str:
    # PySpark gives a TIMESTAMP without a zone, in the zone of this machine.
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _name(name: Any) -> str:
    return name if isinstance(name, str) else json.dumps(json_value(name), ensure_ascii=False)
