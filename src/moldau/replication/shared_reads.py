"""Shared reads: caches records that were sent to one follower for the other followers.

So records are read once, not once per follower.
"""

from __future__ import annotations

from typing import Final

from moldau.log.log import Log

KEPT_BYTES: Final = 16 << 20
"""Size limit of the cache. Followers that keep up fetch within milliseconds. For followers that lag, the cache is
useless, and its entries are soon dropped."""

LEAST_BYTES: Final = 4096
"""Smaller reads are not cached: reading them is as fast as the cache lookup."""


class SharedReads:
    __slots__ = ("_kept", "_kept_bytes")

    def __init__(self) -> None:
        self._kept: dict[tuple[Log, int], tuple[int, memoryview]] = {}  # oldest first
        self._kept_bytes = 0

    def read(self, log: Log, offset: int, max_bytes: int, *, min_one: bool) -> memoryview | None:
        """Whole batches from `offset` up to the log end offset, like `Log.read` with `cached_only`."""
        kept = self._kept.get((log, offset))
        if kept is not None:
            truncations, records = kept
            if truncations == log.truncations and len(records) <= max_bytes and offset >= log.start_offset:
                return records
        found = log.read(offset, max_bytes, log.end_offset, min_one=min_one, cached_only=True)
        if found is not None and len(found) >= LEAST_BYTES:
            self._keep((log, offset), (log.truncations, found))
        return found

    def _keep(self, key: tuple[Log, int], entry: tuple[int, memoryview]) -> None:
        former = self._kept.pop(key, None)
        if former is not None:
            self._kept_bytes -= len(former[1])
        self._kept[key] = entry
        self._kept_bytes += len(entry[1])
        while self._kept_bytes > KEPT_BYTES:
            oldest = next(iter(self._kept))
            self._kept_bytes -= len(self._kept.pop(oldest)[1])
