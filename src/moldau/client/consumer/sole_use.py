"""A consumer belongs to one thread or task at a time: two at once is a mistake that is told, not a race that is run."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable
from types import TracebackType

from moldau.client.errors import ConcurrentUseError


class SoleUse:
    """`with` it around a call. The same thread or task may enter again: listeners call the consumer inside poll."""

    __slots__ = ("_depth", "_lock", "_owner", "_who")

    def __init__(self, who: Callable[[], object]) -> None:
        self._who = who
        self._lock = allocate_lock()
        self._owner: object = None  # set and read for equality with oneself only, so nobody else's change matters
        self._depth = 0

    def __enter__(self) -> None:
        me = self._who()
        if self._owner != me:
            if not self._lock.acquire(blocking=False):
                raise ConcurrentUseError(
                    "this consumer is in use by another thread or task; a consumer is for one at a time, only wakeup() "
                    "may be called from elsewhere"
                )
            self._owner = me
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()
