"""Handling of Ctrl-C in commands that must not be interrupted in the middle of an operation."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class CtrlC:
    """Inside `with`, the first Ctrl-C sets `pressed` and calls `wake`, which may end a wait. The command checks
    `pressed` where it can stop safely. A second Ctrl-C raises KeyboardInterrupt, so that a blocked pipe cannot hold the
    user up."""

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
