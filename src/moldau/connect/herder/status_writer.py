"""Writer of the status topic: keeps the newest state of each key until it is stored.

States are reported faster than a slow broker stores them. Only the last one of each key is written: the number of
waiting records is bounded by the connectors and tasks of this worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from moldau.client.errors import MoldauError
from moldau.connect.herder.record_log import RecordLog
from moldau.connect.stores.status_store import Entry
from moldau.host.event_log import event_logger

log = event_logger(__name__)

MAX_RECORDS: Final = 200
"""The most records of one write."""
RETRY_PAUSE_S: Final = 1.0


class StatusWriter:
    """The writer of one worker. `run` is a task of the worker's loop."""

    def __init__(self, status_log: RecordLog) -> None:
        self._log = status_log
        self._waiting: dict[bytes, bytes | None] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, entries: Iterable[Entry]) -> None:
        """Write these records soon, in place of those of the same keys that still wait."""
        self._waiting.update(entries)
        if self._waiting:
            self._idle.clear()
            self._wake.set()

    def drop(self) -> None:
        """Forget what waits: this worker no longer speaks for its connectors."""
        self._waiting.clear()

    async def flush(self, timeout_s: float) -> bool:
        """Wait until everything is written; False if it took longer than `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch = dict(list(self._waiting.items())[:MAX_RECORDS])
                for key in batch:
                    del self._waiting[key]
                try:
                    await self._log.write_all(list(batch.items()))
                except MoldauError as error:
                    log.warning("states not stored, trying again", extra={"reason": str(error)})
                    self._waiting = {**batch, **self._waiting}
                    await asyncio.sleep(RETRY_PAUSE_S)
            self._idle.set()
