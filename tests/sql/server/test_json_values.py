"""Values of rows as JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from moldau.sql.results import ResultColumn
from moldau.sql.server.rest.json_values import json_line, json_row, json_value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2**63 - 1, 2**63 - 1),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("ž", "ž"),
        (Decimal("12.340"), "12.340"),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1))), "2026-01-31T11:00:00Z"),
        (datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC), "2026-01-31T12:00:00.000005Z"),
        (timedelta(minutes=1), 60.0),
        (b"\x00\xff", "AP8="),
        ([1, None, (2,)], [1, None, [2]]),
        ({"a": {1: b"x"}}, {"a": {"1": "eA=="}}),
    ],
)
def test_every_type_has_a_form_in_json(value: Any, shown: Any) -> None:
    assert json_value(value) == shown
    assert json.loads(json_line(json_value(value))) == shown


def test_a_struct_is_an_object() -> None:
    from pyspark.sql import Row

    assert json_value(Row(a=1, b=Row(c=Decimal("1.0")))) == {"a": 1, "b": {"c": "1.0"}}


def test_a_time_without_a_zone_has_no_z() -> None:
    time = datetime(2026, 1, 31, 12, tzinfo=UTC).replace(tzinfo=None)
    assert json_row((time,), (ResultColumn("t", "timestamp_ntz"),)) == ["2026-01-31T12:00:00"]
    assert json_row((time.astimezone(UTC),), (ResultColumn("t", "timestamp"),))[0].endswith("Z")
