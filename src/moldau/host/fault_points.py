"""Named places where a test may make the process die or fail. In production they do nothing.

A crash between two steps is hard to hit from outside. Code whose safety depends on the order of its steps passes a
point between them; a test arms one, by name, in its own process (`armed`) or in another's environment
(`MOLDAU_FAULT_POINT=name`, and the process that reaches it is killed as with `kill -9`). Every point is in `POINTS`,
so that a test can try them all.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

VARIABLE = "MOLDAU_FAULT_POINT"

POINTS: dict[str, FaultPoint] = {}


class FaultPoint:
    """One place. Made once, at import; called whenever the code passes it."""

    __slots__ = ("_action", "name")

    def __init__(self, name: str) -> None:
        if name in POINTS:
            raise ValueError(f"there is a fault point {name!r} already")
        self.name = name
        self._action: Callable[[], None] | None = _die if os.environ.get(VARIABLE) == name else None
        POINTS[name] = self

    def __call__(self) -> None:
        if self._action is not None:
            self._action()

    @contextmanager
    def armed(self, action: Callable[[], None]) -> Iterator[None]:
        """Inside of the block whoever passes the point runs `action`, which may raise."""
        self._action = action
        try:
            yield
        finally:
            self._action = None


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
