"""Looking until something is so, for a bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from tests.support.raw import ConnectionClosedError

LOOK_EVERY_S = 0.03

T = TypeVar("T")


class NotYet(Exception):
    """What is still missing, in words; raised by whatever `eventually` looks with."""


def eventually(look: Callable[[], T], within_s: float) -> T:
    """What `look` returns, once it does. It raises NotYet, or an error of the network, while it is too early."""
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while True:
        try:
            return look()
        except (NotYet, OSError, ConnectionClosedError) as error:
            if time.monotonic() > deadline:
                what = str(error) or type(error).__name__
                raise AssertionError(f"after {within_s:.1f} s: {what}") from error
        pause.wait(LOOK_EVERY_S)
