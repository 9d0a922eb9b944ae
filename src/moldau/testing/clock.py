"""Movable time: a clock with an offset, and an event loop whose timers follow that clock.

A broker reads time only from its `Clock` and waits only with its loop's timers. This module has both. The clock is the
machine's time plus the offset of the test, and the loop uses that clock for its timers. `advance` moves the clock from
timer to timer, in order, and lets the loop become idle after each. So the work that a timer starts (an abort, its
markers, the next timer) happens at its own time, before the next timer.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from itertools import count
from math import ceil
from typing import Any, NamedTuple, TypeVarTuple

import uvloop

Ts = TypeVarTuple("Ts")

MAX_STOPS = 200
"""A long jump is divided into at most this many steps. Timers that are closer together run in the same step, in order,
and late by at most a two-hundredth of the jump. A week would have 40,000 runs of the log cleaner."""

POLL_S = 0.005
"""How often a loop that waits for its threads checks whether they are done, if none of them reports it."""

PURGE_FROM = 64
"""Cancelled timers are removed when there are at least this many, and at least half of all timers are cancelled."""


class MovableClock:
    """The machine's clocks plus the offset of the test."""

    __slots__ = ("ahead_s",)

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + int(self.ahead_s * 1000)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


class _Timer(NamedTuple):
    when: float
    number: int  # order of the calls, for timers that are due at the same time
    handle: asyncio.TimerHandle
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context


class MovableLoop(uvloop.Loop):
    """A uvloop whose time is that of a MovableClock. One real timer (the alarm) is set for the earliest of its
    timers."""

    def __init__(self, clock: MovableClock) -> None:
        super().__init__()
        self._clock = clock
        self._timers: list[_Timer] = []
        self._numbers = count()
        self._cancelled = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._begun = 0  # number of callbacks ever scheduled: it does not change while the loop is idle
        self._news: asyncio.Future[None] | None = None  # resolved at the next scheduled callback

    # -- asyncio interface -----------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._clock.monotonic()

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self._begun += 1
        if self._news is not None:
            news, self._news = self._news, None
            super().call_soon(_resolve, news)
        return super().call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        timer = _Timer(when, next(self._numbers), handle, callback, args, context or copy_context())
        heapq.heappush(self._timers, timer)
        if self._alarm is None or when < self._alarm_at:
            self._set_alarm()
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by a handle, which may have run long ago. So the count is only a hint when a purge is worthwhile."""
        self._cancelled += 1
        if self._cancelled >= PURGE_FROM and self._cancelled * 2 >= len(self._timers):
            self._timers = [timer for timer in self._timers if not timer.handle.cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    # -- timers ----------------------------------------------------------------------------------------------------

    def _next_due(self) -> float | None:
        """The due time of the earliest timer that is not cancelled."""
        timers = self._timers
        while timers and timers[0].handle.cancelled():
            heapq.heappop(timers)
        return timers[0].when if timers else None

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        when = self._next_due()
        if when is not None:
            # Whole milliseconds, rounded up: libuv has no finer timers, and an early alarm would find nothing due.
            delay_s = max(1, ceil((when - self.time()) * 1000)) / 1000
            self._alarm_at = when
            self._alarm = super().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._run_due()
        self._set_alarm()

    def _run_due(self) -> None:
        """Schedule every timer that is due, the earliest first."""
        now = self.time()
        while (when := self._next_due()) is not None and when <= now:
            timer = heapq.heappop(self._timers)
            self.call_soon(_fire, timer, context=timer.context)

    def forget_timers(self) -> None:
        """Drop all timers: their broker has crashed."""
        self._timers.clear()
        self._set_alarm()

    # -- moving time -----------------------------------------------------------------------------------------------

    async def advance(self, seconds: float, busy: Callable[[], bool]) -> None:
        """Move the clock, and wait until everything that was due, and its consequences, have happened."""
        target = self.time() + seconds
        step_s = seconds / MAX_STOPS
        stop = self.time()
        await self.rest(busy)
        while (when := self._next_due()) is not None and when <= target:
            stop = min(max(when, stop + step_s), target)
            await self._go_to(stop, busy)
        await self._go_to(target, busy)

    async def _go_to(self, moment: float, busy: Callable[[], bool]) -> None:
        self._clock.ahead_s += max(0.0, moment - self.time())
        self._run_due()
        await self.rest(busy)
        self._set_alarm()

    async def rest(self, busy: Callable[[], bool]) -> None:
        """Wait until a whole turn of the loop has scheduled nothing new, and `busy` is false for other threads."""
        while True:
            before = self._begun
            turned: asyncio.Future[None] = self.create_future()
            if busy():
                self._news = turned
                alarm = super().call_later(POLL_S, _resolve, turned)
                await turned
                alarm.cancel()
                self._news = None
                continue
            super().call_soon(_resolve, turned)
            await turned
            if self._begun == before + 1 and not busy():  # one callback is our own wake-up
                return


def _fire(timer: _Timer) -> None:
    if not timer.handle.cancelled():  # another timer of the same time may have cancelled it
        timer.callback(*timer.args)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
