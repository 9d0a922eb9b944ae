"""Delayed requests: a fetch that waits for bytes, a produce that waits for replication or a flush.

Each is completed by an event or by its timer. Nothing is polled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.requests.fetch_sessions import CopySession
    from moldau.replication.partition import Partition


HIGH_WATERMARK_NEWS_S = 0.05
"""How long the fetch of a follower that has all records waits, after the high watermark has moved, for new records to
send with it."""

NEAR_READERS_NEWS_S = 0.005
"""The same if consumers may read from followers. They see records only when the follower knows the high watermark."""


class DelayedFetches:
    """The waiting fetches: counted for the metrics, and completed when the broker stops."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: dict[DelayedFetch, None] = {}

    @property
    def waiting(self) -> int:
        return len(self._all)

    def add(self, fetch: DelayedFetch) -> None:
        self._all[fetch] = None

    def discard(self, fetch: DelayedFetch) -> None:
        self._all.pop(fetch, None)

    def complete_all(self) -> None:
        for fetch in list(self._all):
            fetch.wake()


class DelayedFetch:
    """A fetch that found too few bytes. It is completed when enough bytes were appended, when its time is up, or when
    one of its partitions changes."""

    __slots__ = ("_changed", "_complete", "_loop", "_missing", "_partitions", "_registry", "_timer", "_woken")

    def __init__(
        self,
        registry: DelayedFetches,
        partitions: Sequence[Partition],
        missing_bytes: int,
        complete: Callable[[bool], None],
    ) -> None:
        self._registry = registry
        self._partitions = partitions
        self._missing = missing_bytes
        self._complete = complete  # called with True if something has changed since the fetch has read
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._changed = False
        self._woken = False

    def start(self, wait_s: float) -> None:
        self._timer = self._loop.call_later(wait_s, self.wake)
        self._registry.add(self)
        for partition in self._partitions:
            partition.await_bytes(self)

    def bytes_arrived(self, count: int) -> None:
        self._changed = True
        self._missing -= count
        if self._missing <= 0 and not self._woken:
            # Not at once: the producer's other batches, received in the same read, should be in the log before.
            self._woken = True
            self._loop.call_soon(self.wake)

    def partition_changed(self) -> None:
        self._changed = True
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self.wake)

    def wake(self) -> None:
        if self._stop():
            self._complete(self._changed)

    def abandon(self) -> None:
        self._stop()

    def _stop(self) -> bool:
        if self._timer is None:
            return False
        self._timer.cancel()
        self._timer = None
        self._registry.discard(self)
        for partition in self._partitions:
            partition.forget_reader(self)
        return True


class DelayedCopy(DelayedFetch):
    """A follower's fetch. It waits for appended records, also above the high watermark. Its session is notified of all
    changes of its partitions. A new high watermark is sent soon, with or without records."""

    __slots__ = ("_news_s", "_session")

    def __init__(
        self,
        registry: DelayedFetches,
        session: CopySession,
        missing_bytes: int,
        complete: Callable[[bool], None],
        news_s: float,
    ) -> None:
        super().__init__(registry, (), missing_bytes, complete)
        self._session = session
        self._news_s = news_s

    def start(self, wait_s: float) -> None:
        super().start(wait_s)
        self._session.waiting = self

    def _stop(self) -> bool:
        if self._session.waiting is self:
            self._session.waiting = None
        return super()._stop()

    def high_watermark_moved(self) -> None:
        self._changed = True
        soon = self._loop.time() + self._news_s
        if self._timer is not None and not self._woken and self._timer.when() > soon:
            self._timer.cancel()
            self._timer = self._loop.call_at(soon, self.wake)


class DelayedProduce:
    """The second phase of a produce: some of its partitions are not replicated or flushed yet. `complete` is called
    once, and `errors` then has the result of each of them."""

    __slots__ = ("_complete", "_left", "_timer", "errors")

    def __init__(self, complete: Callable[[], None]) -> None:
        self._complete = complete
        self._left = 0
        self._timer: asyncio.TimerHandle | None = None
        self.errors: dict[tuple[int, int], ErrorCode] = {}
        """By (index of the topic, index of the partition) in the request; REQUEST_TIMED_OUT until the result is
        known."""

    def await_partition(
        self, place: tuple[int, int], partition: Partition, next_offset: int, *, all_replicas: bool = True
    ) -> None:
        self._left += 1
        self.errors[place] = ErrorCode.REQUEST_TIMED_OUT
        wait = partition.await_ack if all_replicas else partition.await_flush
        wait(next_offset, _ProduceAck(self, place))

    def start(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self._timer = loop.call_later(timeout_s, self._finish)

    def settled(self, place: tuple[int, int], error: ErrorCode) -> None:
        if self._left:
            self.errors[place] = error
            self._left -= 1
            if not self._left:
                self._finish()

    def _finish(self) -> None:
        self._left = 0
        if self._timer is not None:
            self._timer.cancel()
        self._complete()


class _ProduceAck:
    __slots__ = ("_place", "_produce")

    def __init__(self, produce: DelayedProduce, place: tuple[int, int]) -> None:
        self._produce = produce
        self._place = place

    def acknowledged(self, error: ErrorCode) -> None:
        self._produce.settled(self._place, error)
