"""Measured clients: the limits in use of one quota, with a bound on their number."""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

MAX_MEASURED: Final = 10_000
"""Clients whose use is measured, per quota name. Idle ones make room for new ones; if all are busy, the oldest does."""

EXPIRY_CHECK_S: Final = 60.0
"""The interval at which idle clients are forgotten. A client is idle when its earlier use has no effect any more."""


class Expirable(Protocol):
    def is_idle(self, now: float) -> bool: ...


K = TypeVar("K")
L = TypeVar("L", bound=Expirable)


class MeasuredClients(dict[K, L]):
    """The limits in use of one quota name, by the clients that share them."""

    def expire(self, now: float) -> None:
        """Forget idle clients."""
        for measured in [one for one, limit in self.items() if limit.is_idle(now)]:
            del self[measured]

    def make_room(self, now: float) -> bool:
        """Make room for one more. Returns whether any was removed."""
        if len(self) < MAX_MEASURED:
            return False
        self.expire(now)
        if len(self) >= MAX_MEASURED:
            del self[next(iter(self))]
        return True
