"""The batches of one segment in order, in chunks that the inner loops may go over on their own.

What they leave is taken batch by batch, and looked at closely: its checksum, and its offsets, which no checksum covers.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.host.fs import File
from moldau.log.errors import DamagedLog
from moldau.log.scan import Batch, header_at
from moldau.records import HEADER_SIZE, crc_ok


class Reader:
    """Where the reading of a segment is. `chunk[at:]` is what comes next, if `more` says that there is any."""

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
        """Where in the file the chunk begins."""
        self.at = 0
        self.expected = base_offset
        """No batch from here on may begin before this offset."""
        self.end_offset = end_offset
        """Nor reach this one."""

    def more(self) -> bool:
        """Whether the end has not come; then a header, at least, is in the chunk."""
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
        """Somebody has gone over the chunk up to `at`."""
        if at > self.at:
            self._spend(at - self.at)
            self.at, self.expected = at, expected

    def take(self) -> Batch:
        """The next batch. DamagedLog where it is not what must stand here."""
        position = self.chunk_at + self.at
        path, size = self._file.path, self._file.size
        header = header_at(path, self.chunk, self.at, position, size)
        if self.at + header.size > len(self.chunk):
            self._load(position, max(header.size, self._read_bytes))
        if not crc_ok(self.chunk, self.at, header.size):
            raise DamagedLog(path, position, f"the checksum of the batch at offset {header.base_offset} is wrong")
        if header.base_offset < self.expected or header.last_offset >= self.end_offset:
            raise DamagedLog(path, position, f"offset {header.base_offset} does not belong here")
        data = memoryview(self.chunk)[self.at : self.at + header.size]
        self.jump(self.at + header.size, header.last_offset + 1)
        return Batch(position, header, data)
