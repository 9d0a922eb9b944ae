"""Calendar of Java over columns: Julian until 1582-10-04, then Gregorian.

Days count from 1970-01-01. Years are numbered without a gap: the year before 1 is 0, which Java shows as 1 BC.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Numbers = np.ndarray[Any, Any]

_CUTOVER: Final = -141_427
"""The day 1582-10-15, the first one of the Gregorian calendar."""
_SHORT_YEAR: Final = 1582
_LEFT_OUT: Final = 10
"""The days of 1582 that no calendar has."""
_JULIAN_EPOCH: Final = 719_470
"""Days from March 1 of the Julian year 0 until 1970-01-01. A year that begins in March ends with its leap day."""
_FOUR_YEARS: Final = 1461
_FIVE_MONTHS: Final = 153


def dates(days: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Year, month, day of the month and day of the year of each day."""
    gregorian = days.astype("datetime64[D]")
    years, months = gregorian.astype("datetime64[Y]"), gregorian.astype("datetime64[M]")
    year = years.astype(np.int64) + 1970
    month = (months - years).astype(np.int64) + 1
    day = (gregorian - months).astype(np.int64) + 1
    of_year = (gregorian - years).astype(np.int64) + 1
    of_year = np.where((year == _SHORT_YEAR) & (days >= _CUTOVER), of_year - _LEFT_OUT, of_year)
    old = days < _CUTOVER
    if old.any():
        julian_year, julian_month, julian_day = _julian_date(days)
        first = _julian_days(julian_year, np.ones_like(days), np.ones_like(days))
        year, month = np.where(old, julian_year, year), np.where(old, julian_month, month)
        day, of_year = np.where(old, julian_day, day), np.where(old, days - first + 1, of_year)
    return year, month, day, of_year


def days_of(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """The days of dates. Months and days out of range count on into the next or previous year and month."""
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days: Numbers = months.astype("datetime64[D]").astype(np.int64) + day - 1
    if (days < _CUTOVER).any():
        whole_year = year + (month - 1) // 12
        days = np.where(days < _CUTOVER, _julian_days(whole_year, (month - 1) % 12 + 1, day), days)
    return days


def _julian_date(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    since = days + _JULIAN_EPOCH
    year = (4 * since + 3) // _FOUR_YEARS
    of_year = since - _FOUR_YEARS * year // 4
    number = (5 * of_year + 2) // _FIVE_MONTHS
    day = of_year - (_FIVE_MONTHS * number + 2) // 5 + 1
    month = np.where(number < 10, number + 3, number - 9)
    return year + (month <= 2), month, day


def _julian_days(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    number = (month + 9) % 12
    from_march = year - (month <= 2)
    found: Numbers = _FOUR_YEARS * from_march // 4 + (_FIVE_MONTHS * number + 2) // 5 + day - 1 - _JULIAN_EPOCH
    return found
