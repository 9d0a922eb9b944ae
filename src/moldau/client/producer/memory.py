"""Queue for buffer.memory: threads and tasks wait in the order of arrival, each until its own deadline.

Only the first one tries again when memory is freed. While the queue is not empty, new callers are added at its end
(`Accumulator.memory_wanted`), so that nobody can starve.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import Lock

from moldau.client.producer.engine import Accumulator


class Waiter:
    """A waiting thread or task. `wake` may be called from any thread, repeatedly, and also without free memory."""

    __slots__ = ("wake",)

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake


class MemoryRow:
    """The threads and tasks that wait for memory of one producer."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._lock = Lock()
        self._row: deque[Waiter] = deque()

    def __len__(self) -> int:
        return len(self._row)

    def join(self, waiter: Waiter) -> None:
        """Add a waiter at the end. The first one is woken at once, because memory may have been freed meanwhile."""
        with self._lock:
            self._row.append(waiter)
            self._accumulator.memory_wanted = True
            first = self._row[0] is waiter
        if first:
            waiter.wake()

    def leave(self, waiter: Waiter) -> None:
        """Remove a waiter, with or without success, and wake the next one."""
        with self._lock:
            self._row.remove(waiter)
            others = self._accumulator.memory_wanted = bool(self._row)
        self.freed()
        if others:
            self._accumulator.wake()  # the record just added must not linger while others wait for its memory

    def freed(self) -> None:
        """Wake the first waiter, because memory was freed."""
        if not self._row:
            return
        with self._lock:
            first = self._row[0] if self._row else None
        if first is not None:
            first.wake()
