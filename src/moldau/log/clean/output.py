"""Cleaned segment files: writes `.log.cleaned` and its indexes.

The segment counts as written only when all files are complete and synced. Nobody reads the files until the broker
renames them, and a start after a crash deletes them.
"""

from __future__ import annotations

from posixpath import join

from moldau.host.fault_points import FaultPoint
from moldau.host.fs import File, FileSystem
from moldau.log import file_names
from moldau.log.aborted import AbortedTxn, encode_aborted
from moldau.log.clean.job import Replacement
from moldau.log.clean.schedule import MAX_SEGMENT_BYTES
from moldau.log.errors import DamagedLog
from moldau.log.index import SegmentIndex
from moldau.records import NO_TIMESTAMP

WRITE_BYTES = 1 << 20
"""Bytes collected before each write."""

log_written = FaultPoint("clean.log-written")
indexes_written = FaultPoint("clean.indexes-written")
all_synced = FaultPoint("clean.all-synced")


class CleanedSegment:
    """The segment that replaces one or more others.

    If it replaces a single segment (`source`), nothing is written until the first change; the part before the change
    is copied then. A segment without any change costs only the reading.
    """

    def __init__(
        self, fs: FileSystem, directory: str, base_offset: int, index_interval: int, source: File | None
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._base_offset = base_offset
        self._index_interval = index_interval
        self._source = source
        self._file: File | None = None
        self._collected: list[bytes | bytearray | memoryview] = []
        self._collected_bytes = 0
        self._index = SegmentIndex()
        self._since_entry = 0
        self._max_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = -1
        self.size = 0
        self.written_bytes = 0

    def keep(self, batch: memoryview, last_offset: int, max_timestamp: int) -> None:
        """Add a batch unchanged."""
        self._account(len(batch), last_offset, max_timestamp)
        if self._source is None:
            self._collect(batch)
        else:
            self.size += len(batch)

    def put(self, batch: bytearray, last_offset: int, max_timestamp: int) -> None:
        """Add a rewritten batch."""
        self.differ()
        self._account(len(batch), last_offset, max_timestamp)
        self._collect(batch)

    def differ(self) -> None:
        """Start to write, because a batch was dropped or changed and the segment differs from its source now."""
        source, self._source = self._source, None
        if source is None:
            return
        end, self.size = self.size, 0
        while self.size < end:
            self._collect(source.read(self.size, min(WRITE_BYTES, end - self.size)))

    def _account(self, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add index entries as `Segment.account` does for appends: one for each batch that starts more than the index
        interval after the last entry."""
        if self.size + size > MAX_SEGMENT_BYTES:
            raise DamagedLog(self._path(file_names.LOG), self.size, "the cleaned segment would exceed 2 GiB")
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self._since_entry > self._index_interval:
            self._index.offsets.append(last_offset - self._base_offset)
            self._index.positions.append(self.size)
            self._index.add_time(self._max_timestamp, self._offset_of_max_timestamp - self._base_offset)
            self._since_entry = 0
        self._since_entry += size

    def _collect(self, data: bytearray | memoryview) -> None:
        self.size += len(data)
        self._collected.append(data)
        self._collected_bytes += len(data)
        if self._collected_bytes >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            self._file = self._fs.create(self._path(file_names.LOG))
        if self._collected:
            # Joined, in one call: many small buffers cost more than copying their bytes.
            self._file.append([b"".join(self._collected)])
            self.written_bytes += self._collected_bytes
            self._collected, self._collected_bytes = [], 0

    def _path(self, suffix: str) -> str:
        return join(self._directory, file_names.segment_file(self._base_offset, suffix) + file_names.CLEANED)

    def finish(self, bases: list[int], aborted: list[AbortedTxn]) -> Replacement | None:
        """Write and sync all files. None if nothing has changed, so that nothing needs to be replaced."""
        if self._source is not None:
            return None
        self._write()
        assert self._file is not None
        log_written()
        self._file.sync()
        self._file.close()
        if self._max_timestamp >= 0:
            self._index.add_time(self._max_timestamp, self._offset_of_max_timestamp - self._base_offset)
        self._write_whole(file_names.INDEX, self._index.encode_offsets())
        self._write_whole(file_names.TIME_INDEX, self._index.encode_times())
        if aborted:
            self._write_whole(file_names.TXN_INDEX, encode_aborted(aborted))
        indexes_written()
        self._fs.sync_dir(self._directory)
        all_synced()
        return Replacement(
            bases,
            self.size,
            self._max_timestamp,
            self._offset_of_max_timestamp,
            len(self._index.offsets),
            len(self._index.timestamps),
        )

    def _write_whole(self, suffix: str, content: bytes) -> None:
        file = self._fs.create(self._path(suffix))
        if content:
            file.append([content])
        file.sync()
        file.close()
