"""Progress of a continuous query: rows, rate, lag and dropped records, from the progress reports of Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from moldau.sql.queries import QueryStatus

RATE_OVER_S: Final = 10.0
"""The rate is that of about the last so many seconds."""


@dataclass(frozen=True)
class BatchFacts:
    """One progress report: what a micro-batch has done."""

    started: str
    """When it began, as Spark writes it: reports are in this order."""
    rows: int
    lag: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)


class QueryMeter:
    """The counts of one query. They go on when the query is started again, here or on another server."""

    def __init__(self, last: QueryStatus | None = None) -> None:
        self.rows = 0 if last is None else last.rows
        self.dropped: dict[str, int] = {} if last is None else dict(last.dropped)
        self.lag: int | None = None
        self.newest = ""
        """When the newest counted batch began."""
        self._recent: deque[tuple[float, int]] = deque()

    def add(self, reports: Iterable[BatchFacts], now: float) -> int:
        """Count the reports that are newer than all before, and return the number of their rows."""
        added = 0
        for report in sorted(reports, key=lambda one: one.started):
            if report.started <= self.newest:
                continue
            self.newest = report.started
            added += report.rows
            self.lag = report.lag if report.lag is not None else self.lag
            for reason, count in report.dropped.items():
                if count:
                    self.dropped[reason] = self.dropped.get(reason, 0) + count
        self.rows += added
        if added:
            self._recent.append((now, added))
        return added

    def restarted(self) -> None:
        """The query begins another run."""
        self.newest = ""
        self._recent.clear()

    def rate(self, now: float) -> float:
        """Rows per second."""
        while self._recent and self._recent[0][0] < now - RATE_OVER_S:
            self._recent.popleft()
        return round(sum(rows for _, rows in self._recent) / RATE_OVER_S, 1)
