"""Waiting for memory: in the order of coming, threads and tasks alike, each until its own deadline.

Only the first in the row tries again when memory was freed. While there is a row, newcomers join its end
(`Accumulator.memory_wanted`): nobody can starve.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from moldau.client.producer.engine import Accumulator


class Waiter:
    """Somebody who waits. `wake` may be called from any thread, more than once, and for nothing."""

    __slots__ = ("wake",)

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake


class MemoryRow:
    """Those who wait for memory of one producer."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._lock = Lock()
        self._row: deque[Waiter] = deque()

    def __len__(self) -> int:
        return len(self._row)

    def join(self, waiter: Waiter) -> None:
        """Stand at the end. Whoever is first tries at once: memory may have been freed before he came."""
        with self._lock:
            self._row.append(waiter)
            self._accumulator.memory_wanted = True
            first = self._row[0] is waiter
        if first:
            waiter.wake()

    def leave(self, waiter: Waiter) -> None:
        """Go, served or not; the next one has his turn."""
        with self._lock:
            self._row.remove(waiter)
            others = self._accumulator.memory_wanted = bool(self._row)
        self.freed()
        if others:
            self._accumulator.wake()  # his record must not linger while others wait for its memory

    def freed(self) -> None:
        """There is more memory than before."""
        if not self._row:
            return
        with self._lock:
            first = self._row[0] if self._row else None
        if first is not None:
            first.wake()
