"""Log warnings while no broker can be reached: the addresses that were tried, and the error of each.

A client that cannot reach any broker retries until the timeout of a call, one minute by default. It logs a warning
after FIRST_WARNING_S, and again at intervals that double up to MAX_INTERVAL_S, for any number of attempts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from moldau.host.event_log import event_logger

log = event_logger(__name__)

FIRST_WARNING_S: Final = 3.0
MAX_INTERVAL_S: Final = 60.0
MAX_REASONS: Final = 5
"""The maximum number of addresses in one warning."""


class UnreachableWarning:
    """The warnings of one client. Runs in its loop."""

    def __init__(self, client_id: str, reasons: Callable[[], Sequence[str]], first_s: float | None = None) -> None:
        """`reasons` returns the error of each address; empty if a broker is connected or none is needed."""
        self._client_id = client_id
        self._reasons = reasons
        self._first_s = FIRST_WARNING_S if first_s is None else first_s
        self._since = 0.0
        self._warnings = 0
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Start the timer of the first warning. Called for each attempt to connect without another connection."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            self._timer = loop.call_later(self._first_s, self._warn)

    def reached(self) -> None:
        """Stop the warnings, because a broker has answered."""
        if self._warnings:
            log.info("a broker was reached", extra={"client_id": self._client_id})
        self.stop()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._warnings = 0

    def _warn(self) -> None:
        reasons = self._reasons()
        if not reasons:
            self.stop()
            return
        loop = asyncio.get_running_loop()
        more = f"; and {len(reasons) - MAX_REASONS} more addresses" if len(reasons) > MAX_REASONS else ""
        log.warning(
            "no broker reached, still trying",
            extra={
                "client_id": self._client_id,
                "seconds": round(loop.time() - self._since),
                "reason": "; ".join(reasons[:MAX_REASONS]) + more,
            },
        )
        self._warnings += 1
        self._timer = loop.call_later(min(self._first_s * 2.0**self._warnings, MAX_INTERVAL_S), self._warn)
