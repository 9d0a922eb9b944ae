"""Record logs of the herder: a state topic, or a list in memory for a standalone worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from moldau.service.state_topic import StateRecord

Records = Sequence[tuple[bytes | None, bytes | None]]


class RecordLog(Protocol):
    """What the herder needs of a state topic (`service/state_topic.py`)."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def read_to_end(self) -> None: ...

    async def write_all(self, records: Records) -> Any:
        """Write the records in this order, in one transaction if the log has transactions; return when this process
        has applied them."""


class MemoryLog:
    """A log without a topic: every record is applied at once, and forgotten with the process."""

    def __init__(self, on_record: Callable[[StateRecord], None], now_ms: Callable[[], int]) -> None:
        self._on_record = on_record
        self._now_ms = now_ms
        self._end = 0

    async def start(self) -> None:
        """Nothing is stored."""

    async def close(self) -> None:
        """Nothing is open."""

    async def read_to_end(self) -> None:
        """Every record was applied when it was written."""

    async def write_all(self, records: Records) -> None:
        for key, value in records:
            self._on_record(StateRecord(0, self._end, self._now_ms(), key, value))
            self._end += 1
