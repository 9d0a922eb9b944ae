"""Parsing of times and durations on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MS_OF = {"weeks": 7 * 86_400_000, "days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}

_DURATION = re.compile(
    r"(?P<sign>[+-])?P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)


def parse_datetime_ms(text: str) -> int:
    """Parse `2026-01-31T09:30:00.000`, optionally followed by `Z` or an offset such as `+02:00`; the default is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a date and time of the form YYYY-MM-DDThh:mm:ss.sss, with Z or +hh:mm if not UTC"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration of weeks or less: `PT1H30M`, `P7D`."""
    found = _DURATION.fullmatch(text.strip())
    parts = {name: found[name] for name in MS_OF if found[name] is not None} if found else {}
    if found is None or not parts or text.upper().endswith("T"):
        raise ValueError(f"{text!r} is not a duration of the form PnDTnHnMnS, such as PT1H or P7D")
    total = sum(round(float(number) * MS_OF[name]) for name, number in parts.items())
    return -total if found["sign"] == "-" else total
