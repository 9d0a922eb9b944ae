"""A bell that one waiter hears: set from callbacks of the loop, waited for until a deadline."""

from __future__ import annotations

import asyncio


class Signal:
    """Remembers that it was set until somebody has waited for it. Loop-owned; one waiter at a time."""

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
        """Until it is set, which clears it, or until `deadline` on the loop's clock."""
        if not self._set:
            loop = asyncio.get_running_loop()
            self._waiter = waiter = loop.create_future()
            timer = loop.call_at(deadline, _let_go, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        self._set = False


def _let_go(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
