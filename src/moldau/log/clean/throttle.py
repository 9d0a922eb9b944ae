"""I/O throttle of the cleaner. Pure: it computes how long to wait, and the caller waits."""

from __future__ import annotations

LEAST_WAIT_S = 0.02
"""Shorter waits are accumulated, because each sleep has a cost of its own."""

MOST_WAIT_S = 1.0
"""Longer waits are split, so that the caller can check other conditions in between."""


class CleanerThrottle:
    """Limits the average rate to `bytes_per_second`."""

    __slots__ = ("_bytes_per_second", "_paid_until")

    def __init__(self, bytes_per_second: float, now: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._paid_until = now

    def spend(self, count: int) -> None:
        """Record that `count` bytes were read or written."""
        self._paid_until += count / self._bytes_per_second

    def wait(self, now: float) -> float:
        """Seconds to wait before the next bytes; 0 if none. Unused time is not credited."""
        owed = self._paid_until - now
        if owed < 0:
            self._paid_until = now
        return min(owed, MOST_WAIT_S) if owed >= LEAST_WAIT_S else 0.0
