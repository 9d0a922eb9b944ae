"""Progress of one connector: counters since its start, and rates over the last seconds. No I/O."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Final

from moldau.connect.engine import ConnectorProgress
from moldau.connect.engine.batch_result import BatchResult

WINDOW_S: Final = 10.0
MAX_SAMPLES: Final = 1_000
"""Batches within the window that are remembered; with more, the window is shorter."""


class ProgressMeter:
    """Collects the results of batches. One thread owns it."""

    def __init__(self) -> None:
        self._total = ConnectorProgress()
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=MAX_SAMPLES)
        self._since: float | None = None
        self.changed_since_told = False
        """Whether there is something new to report."""

    def add(self, result: BatchResult, now: float) -> None:
        """Count a committed batch."""
        if self._since is None:
            self._since = now - result.duration_s
        self.changed_since_told = True
        total = self._total
        self._samples.append((now, result.records, result.bytes))
        self._total = replace(
            total,
            batches=total.batches + 1,
            records=total.records + result.records,
            bytes=total.bytes + result.bytes,
            skipped=total.skipped + result.skipped,
            dead_letters=total.dead_letters + result.dead_letters,
            retries=total.retries + result.retries,
            last_batch_ms=result.duration_s * 1000,
            topics=total.topics | result.topics,
        )

    def failed(self) -> None:
        self._total = replace(self._total, failures=self._total.failures + 1)

    def lag(self, lag: int | None) -> None:
        self.changed_since_told |= lag != self._total.lag
        self._total = replace(self._total, lag=lag)

    def progress(self, now: float) -> ConnectorProgress:
        """The counters, with the rates at this time."""
        while self._samples and self._samples[0][0] < now - WINDOW_S:
            self._samples.popleft()
        if self._since is None or not self._samples:
            return self._total
        seconds = max(min(now - self._since, WINDOW_S), 0.001)
        return replace(
            self._total,
            records_per_s=sum(records for _, records, _ in self._samples) / seconds,
            bytes_per_s=sum(size for _, _, size in self._samples) / seconds,
        )
