"""Waiting for a condition that no event announces: one poll loop with a time limit and a readable failure.

`wait_until` is for tests in plain functions, `wait_until_async` for tests that run on an event loop. Where the awaited
change has an event (`threading.Event`, `Condition`, `asyncio.Event`, a future), a test waits for that event instead.
`loop_turns` waits for nothing: it lets a task that was just started get to its first await.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.raw import ConnectionClosedError

TIMEOUT_S = 45.0
"""Longer than anything that succeeds takes, also on a busy machine."""

QUICK_LOOKS = 10
FIRST_PAUSE_S = 0.001
MAX_PAUSE_S = 0.05

NETWORK_ERRORS = (OSError, ConnectionClosedError)
"""For `retry_on`, if the condition asks brokers that may be down."""


class NotYet(Exception):
    """Raised by a condition that does not hold, to say in words what is missing."""


def wait_until(
    condition: Callable[[], Any],
    what: str = "",
    timeout_s: float = TIMEOUT_S,
    *,
    retry_on: tuple[type[Exception], ...] = (),
) -> Any:
    """Call `condition` until it returns a true value, and return that value.

    A condition may raise `NotYet` instead of returning a false value. An exception of a type in `retry_on` also means
    "not yet"; every other exception ends the wait. Raises AssertionError after `timeout_s`, with what was awaited, the
    time, and the last value or exception.
    """
    wait = _Wait(condition, what, timeout_s, retry_on)
    pauses = _pauses()
    while not wait.is_over():
        time.sleep(next(pauses))  # the one poll loop of all tests
    return wait.last


async def wait_until_async(condition: Callable[[], Any], what: str = "", timeout_s: float = TIMEOUT_S) -> Any:
    """Like `wait_until`, but look after every turn of the event loop: the condition may hold for one turn only."""
    wait = _Wait(condition, what, timeout_s, ())
    while not wait.is_over():  # noqa: ASYNC110 - there is no event: that is what this function is for
        await asyncio.sleep(0)
    return wait.last


async def loop_turns(count: int = 1) -> None:
    """Let the other tasks of the event loop run for some turns: a step of a scenario, not a wait for a condition."""
    for _ in range(count):
        await asyncio.sleep(0)


class _Wait:
    """The state of one wait: when it began, and what the last look has found."""

    def __init__(
        self, condition: Callable[[], Any], what: str, timeout_s: float, retry_on: tuple[type[Exception], ...]
    ) -> None:
        self._condition = condition
        self._what = what
        self._timeout_s = timeout_s
        self._retry_on = (NotYet, *retry_on)
        self._began = time.monotonic()
        self._looks = 0
        self.last: Any = None

    def is_over(self) -> bool:
        """Look once: True if the condition holds, AssertionError if it does not and the time is up."""
        self._looks += 1
        try:
            self.last = self._condition()
            if self.last:
                return True
        except self._retry_on as error:
            self.last = error
        passed_s = time.monotonic() - self._began
        if passed_s <= self._timeout_s:
            return False
        what = self._what or _source(self._condition)
        cause = self.last if isinstance(self.last, Exception) else None
        message = f"not within {passed_s:.1f} s ({self._looks} looks): {what}; last value: {self.last!r}"
        raise AssertionError(message) from cause


def _pauses() -> Iterator[float]:
    """Ten looks without a pause, then pauses that double up to MAX_PAUSE_S: quick for a fast condition, cheap for a
    slow one."""
    yield from itertools.repeat(0.0, QUICK_LOOKS)
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, MAX_PAUSE_S)


def _source(condition: Callable[[], Any]) -> str:
    """The source code of the condition, for a wait whose caller gave no description."""
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return repr(condition)
