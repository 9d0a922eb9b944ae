"""How fast a cleaner may read and write. Pure: it says how long to wait, and waits for nobody."""

from __future__ import annotations

LEAST_WAIT_S = 0.02
"""Shorter waits are saved up: a sleep has its own price."""

MOST_WAIT_S = 1.0
"""Longer waits are taken in parts, so that whoever waits can look around."""


class Throttle:
    """At most `bytes_per_second`, on average."""

    __slots__ = ("_bytes_per_second", "_paid_until")

    def __init__(self, bytes_per_second: float, now: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._paid_until = now

    def spend(self, count: int) -> None:
        """`count` bytes were moved."""
        self._paid_until += count / self._bytes_per_second

    def wait(self, now: float) -> float:
        """How long to wait before moving more; 0 where there is no need to. Time that was not used is not saved."""
        owed = self._paid_until - now
        if owed < 0:
            self._paid_until = now
        return min(owed, MOST_WAIT_S) if owed >= LEAST_WAIT_S else 0.0
