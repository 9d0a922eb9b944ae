"""Ctrl-C for commands that must not be torn out of the middle of something."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class CtrlC:
    """Inside of its `with` the first Ctrl-C is noted, and `wake` called, which may end a wait; whoever works looks at
    `pressed` where stopping is safe. A second Ctrl-C is a KeyboardInterrupt: nobody has to wait for a hanging pipe."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._before: Any = None
        self.pressed = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
        self._wake()
