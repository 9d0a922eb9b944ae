"""Latencies and rates of the performance tools: an HDR histogram, and rates per reporting interval."""

from __future__ import annotations

from typing import Any

MAX_US = 3_600_000_000
"""One hour. Longer durations are counted as one hour."""

DIGITS = 3
PERCENTILES = (50.0, 95.0, 99.0, 99.9)
MEGABYTE = 1024 * 1024


class Latencies:
    """Durations with three significant digits, from a microsecond to an hour."""

    def __init__(self) -> None:
        from hdrh.histogram import HdrHistogram

        self._histogram = HdrHistogram(1, MAX_US, DIGITS)
        self.count = 0
        self._sum_us = 0
        self._max_us = 0

    def add(self, seconds: float) -> None:
        microseconds = min(MAX_US, max(1, round(seconds * 1_000_000)))
        self._histogram.record_value(microseconds)
        self.count += 1
        self._sum_us += microseconds
        self._max_us = max(self._max_us, microseconds)

    @property
    def mean_ms(self) -> float:
        return self._sum_us / self.count / 1000 if self.count else 0.0

    @property
    def max_ms(self) -> float:
        return self._max_us / 1000

    def percentile_ms(self, percentile: float) -> float:
        return float(self._histogram.get_value_at_percentile(percentile)) / 1000 if self.count else 0.0

    def as_json(self) -> dict[str, float]:
        found = {f"p{percentile:g}_ms": self.percentile_ms(percentile) for percentile in PERCENTILES}
        return {"mean_ms": round(self.mean_ms, 3), "max_ms": self.max_ms, **found}

    def __str__(self) -> str:
        """The summary in the format of Kafka's tools: `1.23 ms avg latency, 9.00 ms max latency, 1.02 ms 50th, …`."""
        parts = [f"{self.mean_ms:.2f} ms avg latency", f"{self.max_ms:.2f} ms max latency"]
        parts += [f"{self.percentile_ms(percentile):.2f} ms {percentile:g}th" for percentile in PERCENTILES]
        return ", ".join(parts)


class Rate:
    """The number of records and bytes since a start time."""

    def __init__(self, now: float) -> None:
        self.began = now
        self.records = 0
        self.bytes = 0

    def add(self, records: int, size: int) -> None:
        self.records += records
        self.bytes += size

    def text(self, verb: str, now: float) -> str:
        """`1000 records sent, 500.0 records/sec (0.05 MB/sec)`."""
        numbers = self.as_json(now)
        return (
            f"{self.records} records {verb}, {numbers['records_per_second']:.1f} records/sec "
            f"({numbers['megabytes_per_second']:.2f} MB/sec)"
        )

    def as_json(self, now: float) -> dict[str, Any]:
        seconds = max(now - self.began, 1e-9)
        return {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(seconds, 3),
            "records_per_second": round(self.records / seconds, 1),
            "megabytes_per_second": round(self.bytes / MEGABYTE / seconds, 3),
        }


class Reporter:
    """Reports the rate of each interval, and the total rate at the end."""

    def __init__(self, verb: str, now: float, every_s: float) -> None:
        self.verb = verb
        self.total = Rate(now)
        self._window = Rate(now)
        self._every_s = every_s

    def add(self, records: int, size: int) -> None:
        self.total.add(records, size)
        self._window.add(records, size)

    def due(self, now: float) -> str | None:
        """The line for the interval that has just ended, or None."""
        if now - self._window.began < self._every_s:
            return None
        line = self._window.text(self.verb, now)
        self._window = Rate(now)
        return line
