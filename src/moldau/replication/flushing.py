"""Flushing of appended records to disk, off the loop.

If records must not be acknowledged before they are on disk, they are flushed at once, otherwise when a flush is due. At
most one flush per partition runs at a time; records that are appended during a flush share the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.host.clock import Clock
from moldau.host.threads import Threads
from moldau.log.errors import StorageError
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode

FLUSH_TICK_S = 0.1
"""The maximum delay of a flush beyond `flush.ms`."""

RETRY_S = 1.0
"""Delay after a flush that failed because the disk was full."""


class Flushing:
    def __init__(
        self, threads: Threads, clock: Clock, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    ) -> None:
        self._threads = threads
        self._clock = clock
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._unflushed: dict[Partition, None] = {}
        self._stopped = False

    def appended(self, partition: Partition) -> None:
        """Handle an append: flush at once if the records must not be acknowledged before, otherwise when a flush is
        due."""
        if partition.log.flush_barrier != partition.log.end_offset:
            self.flush(partition)
        elif partition not in self._unflushed:
            self._unflushed[partition] = None
            if len(self._unflushed) == 1:
                self._loop.call_later(FLUSH_TICK_S, self._flush_due)

    def _flush_due(self) -> None:
        """Check all partitions with unflushed records: `flush.ms` may have passed, or a segment may be complete."""
        now_ms = self._clock.now_ms()
        for partition in list(self._unflushed):
            if partition.log.needs_flush(now_ms):
                self.flush(partition)
            if not partition.log.flushes_by_time or partition.failure:
                del self._unflushed[partition]
        if self._unflushed:
            self._loop.call_later(FLUSH_TICK_S, self._flush_due)

    def flush(self, partition: Partition) -> asyncio.Task[None] | None:
        """Start a flush, unless one is running."""
        if partition.flushing or partition.failure or self._stopped:
            return None
        partition.flushing = True
        return self._spawn(self._flush(partition))

    async def _flush(self, partition: Partition) -> None:
        log_ = partition.log
        try:
            while (job := log_.flush_job()) is not None:
                await self._threads.run(f"flush:{partition.topic}", job.run)
                log_.flush_done(job, self._clock.now_ms())
                partition.advance()
                if not log_.needs_flush(self._clock.now_ms()):
                    return
        except StorageError as error:
            # It is unknown what is on disk, so the records are not acknowledged. A full disk may recover; a failed disk
            # has taken its directory and all its partitions offline.
            partition.fail_acks(ErrorCode.KAFKA_STORAGE_ERROR)
            if not error.fatal:
                self._loop.call_later(RETRY_S, self.flush, partition)
        finally:
            partition.flushing = False

    def stop(self) -> None:
        """Start no further flush: the logs are about to be closed, which flushes them."""
        self._stopped = True
