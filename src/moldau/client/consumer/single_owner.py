"""Ownership of a consumer by one thread or task at a time; a second one gets ConcurrentUseError."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable
from types import TracebackType

from moldau.client.errors import ConcurrentUseError


class SingleOwner:
    """A context manager around each call. The same thread or task may enter it again: listeners call the consumer.

    `who` returns the current thread or task.
    """

    __slots__ = ("_depth", "_lock", "_owner", "_who")

    def __init__(self, who: Callable[[], object]) -> None:
        self._who = who
        self._lock = allocate_lock()
        # Read without the lock. A thread compares it only with itself, and no other thread sets it to that value, so a
        # change by another thread at the same time does not change the result.
        self._owner: object = None
        self._depth = 0

    def __enter__(self) -> None:
        me = self._who()
        if self._owner != me:
            if not self._lock.acquire(blocking=False):
                raise ConcurrentUseError(
                    "this consumer is in use by another thread or task; one at a time may use it, and others may only "
                    "call wakeup()"
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
