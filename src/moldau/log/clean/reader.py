"""Sequential reader of a segment for the cleaner, in chunks that the inner loops process on their own.

Batches that the inner loops do not handle are taken one by one and checked fully: the checksum, and the offsets, which
the checksum does not cover.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.host.fs import File
from moldau.log.errors import DamagedLog
from moldau.log.scan import ScannedBatch, header_at
from moldau.records import HEADER_SIZE, crc_ok


class SegmentReader:
    """The read position in a segment. `chunk[at:]` holds the next batches if `more` returns True."""

    __slots__ = ("_file", "_read_bytes", "_spend", "at", "chunk", "chunk_at", "end_offset", "expected")

    def __init__(
        self,
        file: File,
        position: int,
        base_offset: int,
        end_offset: int,
        read_bytes: int,
        spend: Callable[[int], None],
    ) -> None:
        self._file = file
        self._read_bytes = read_bytes
        self._spend = spend
        self.chunk = bytearray()
        self.chunk_at = position
        """The position of the chunk in the file."""
        self.at = 0
        self.expected = base_offset
        """No batch from here on may start before this offset."""
        self.end_offset = end_offset
        """No batch may reach this offset."""

    def more(self) -> bool:
        """Whether a batch is left; then the chunk contains at least its header."""
        position = self.chunk_at + self.at
        if position >= self._file.size:
            return False
        if self.at + HEADER_SIZE > len(self.chunk):
            self._load(position, self._read_bytes)
        return True

    def _load(self, position: int, count: int) -> None:
        self.chunk = self._file.read(position, count)
        self.chunk_at, self.at = position, 0

    def jump(self, at: int, expected: int) -> None:
        """Continue at `at`, after an inner loop has processed the chunk up to there."""
        if at > self.at:
            self._spend(at - self.at)
            self.at, self.expected = at, expected

    def take(self) -> ScannedBatch:
        """The next batch. DamagedLog if it is invalid or has wrong offsets."""
        position = self.chunk_at + self.at
        path, size = self._file.path, self._file.size
        header = header_at(path, self.chunk, self.at, position, size)
        if self.at + header.size > len(self.chunk):
            self._load(position, max(header.size, self._read_bytes))
        if not crc_ok(self.chunk, self.at, header.size):
            raise DamagedLog(path, position, f"the checksum of the batch at offset {header.base_offset} is wrong")
        if header.base_offset < self.expected or header.last_offset >= self.end_offset:
            raise DamagedLog(path, position, f"offset {header.base_offset} is out of order")
        data = memoryview(self.chunk)[self.at : self.at + header.size]
        self.jump(self.at + header.size, header.last_offset + 1)
        return ScannedBatch(position, header, data)
