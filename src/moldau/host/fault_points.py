"""Fault points: named places where a test can make the process die or fail. In production they do nothing.

A crash between two steps is hard to hit from outside. Code whose safety depends on the order of its steps calls a fault
point between them. A test arms one by name, in its own process (`armed`) or through the environment of another one
(`MOLDAU_FAULT_POINT=name`: the process that reaches the point is killed as with `kill -9`). `POINTS` holds all of them,
so that a test can try each.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

VARIABLE = "MOLDAU_FAULT_POINT"

POINTS: dict[str, FaultPoint] = {}


class FaultPoint:
    """One fault point. Created once, at import; called each time the code reaches it."""

    __slots__ = ("_action", "name")

    def __init__(self, name: str) -> None:
        if name in POINTS:
            raise ValueError(f"fault point {name!r} exists already")
        self.name = name
        self._action: Callable[[], None] | None = _die if os.environ.get(VARIABLE) == name else None
        POINTS[name] = self

    def __call__(self) -> None:
        if self._action is not None:
            self._action()

    @contextmanager
    def armed(self, action: Callable[[], None]) -> Iterator[None]:
        """Inside the block, code that reaches the point runs `action`, which may raise."""
        self._action = action
        try:
            yield
        finally:
            self._action = None


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
