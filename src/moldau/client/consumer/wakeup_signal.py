"""Wakeup signal: set by callbacks of the event loop, awaited by one task until a deadline."""

from __future__ import annotations

import asyncio


class WakeupSignal:
    """Stays set until `wait` has returned or `clear` is called. Owned by the event loop; one waiter at a time."""

    __slots__ = ("_set", "_waiter")

    def __init__(self) -> None:
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def clear(self) -> None:
        self._set = False

    async def wait(self, deadline: float) -> None:
        """Return when the signal is set, or at `deadline` on the loop's clock; clear the signal."""
        if not self._set:
            loop = asyncio.get_running_loop()
            self._waiter = waiter = loop.create_future()
            timer = loop.call_at(deadline, _release, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._set = False


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
