"""One segment of a log: a `.log` file of batches, with its offset, time and transaction indexes.

Index entries of batches appended since the segment was opened are in memory; earlier entries are on disk. The segment
also tracks its largest timestamp. It does not know about producers, epochs or other segments: that is the Log's job.
"""

from __future__ import annotations

from posixpath import dirname, join

from moldau.host.event_log import event_logger
from moldau.host.fs import File, FileSystem
from moldau.log import file_names
from moldau.log.aborted import AbortedTxn, decode_aborted, encode_aborted
from moldau.log.errors import DamagedLog
from moldau.log.index import OFFSET_ENTRY, TIME_ENTRY, BadIndexError, IndexCache, SegmentIndex
from moldau.log.scan import START_OF_FILE, FilePosition, headers
from moldau.records import BatchHeader

logger = event_logger(__name__)

UNKNOWN_TIMESTAMP = -2
"""Not determined yet; -1 means that the segment has no timestamps."""

MAX_RELATIVE_OFFSET = 2**31 - 1

INDEX_ON_LOOP_BYTES = 64 * 1024
"""A larger index is loaded in a thread: decoding and checking it would block the event loop."""


PLACES_REMEMBERED = 16
"""Number of read positions kept per segment, so that sequential readers skip the search from the index entry."""


class Segment:
    """The batches from `base_offset` up to the base offset of the next segment."""

    __slots__ = (
        "_aborted",
        "_cache",
        "_fs",
        "_places",
        "aborted_dirty",
        "base_offset",
        "created_ms",
        "damaged",
        "dropped",
        "file",
        "first_timestamp",
        "last_time_entry",
        "max_entries",
        "max_time_entries",
        "max_timestamp",
        "offset_of_max_timestamp",
        "on_disk_entries",
        "on_disk_times",
        "room",
        "since_entry",
        "tail",
    )

    def __init__(self, base_offset: int, file: File, fs: FileSystem, cache: IndexCache) -> None:
        self.base_offset = base_offset
        self.file = file
        self._fs = fs
        self._cache = cache
        self._places: dict[int, FilePosition] = {}
        self.tail = SegmentIndex()
        self.on_disk_entries = 0
        """Number of entries in the index files; the entries in `tail` come after them."""
        self.on_disk_times = 0
        self.since_entry = 0
        self.max_entries = self.max_time_entries = MAX_RELATIVE_OFFSET
        self.room = MAX_RELATIVE_OFFSET
        """Number of entries that the indexes can still take."""
        self.max_timestamp = UNKNOWN_TIMESTAMP
        self.offset_of_max_timestamp = -1
        self.last_time_entry = -1
        """The timestamp of the last time index entry, on disk or in `tail`."""
        self.first_timestamp = UNKNOWN_TIMESTAMP
        """The largest timestamp of the first batch: the age of the segment counts from it."""
        self.created_ms = 0
        self._aborted: list[AbortedTxn] | None = None
        self.aborted_dirty = False
        self.dropped = False
        """The segment is no longer part of its log; its files are deleted, or will be."""
        self.damaged: tuple[tuple[int, int], ...] = ()
        """Ranges of the file that recovery found damaged; they must not be served."""

    def __repr__(self) -> str:
        return f"Segment({self.file.path!r}, size={self.file.size})"

    # -- creating and opening --------------------------------------------------------------------------------------

    @classmethod
    def create(cls, fs: FileSystem, directory: str, base_offset: int, cache: IndexCache, now_ms: int) -> Segment:
        """Create an empty segment. Files left by an earlier attempt (for example on a full disk) are replaced."""
        for suffix in (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX):
            fs.remove(join(directory, file_names.segment_file(base_offset, suffix)), missing_ok=True)
        for suffix in (file_names.INDEX, file_names.TIME_INDEX):
            fs.create(join(directory, file_names.segment_file(base_offset, suffix)))
        # The log file comes last, because a segment exists if and only if its log file does.
        segment = cls(
            base_offset, fs.create(join(directory, file_names.segment_file(base_offset, file_names.LOG))), fs, cache
        )
        segment.max_timestamp = -1
        segment.created_ms = now_ms
        segment._aborted = []
        return segment

    @classmethod
    def open(cls, fs: FileSystem, directory: str, base_offset: int, size: int | None, cache: IndexCache) -> Segment:
        """Open an existing segment. With `size` given, the disk is not accessed."""
        return cls(
            base_offset, fs.open(join(directory, file_names.segment_file(base_offset, file_names.LOG)), size), fs, cache
        )

    def path(self, suffix: str) -> str:
        return join(dirname(self.file.path), file_names.segment_file(self.base_offset, suffix))

    def count_entries_on_disk(self) -> None:
        """Set the number of entries on disk from the sizes of the index files."""
        self.on_disk_entries = self._size_of(file_names.INDEX) // OFFSET_ENTRY
        self.on_disk_times = self._size_of(file_names.TIME_INDEX) // TIME_ENTRY

    def _size_of(self, suffix: str) -> int:
        try:
            return self._fs.size(self.path(suffix))
        except FileNotFoundError:
            return 0

    # -- appending -------------------------------------------------------------------------------------------------

    def append(self, data: memoryview, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Write one batch; on OSError nothing was written."""
        file = self.file
        position = file.size
        file.append((data,))
        self.account(position, len(data), last_offset, max_timestamp, index_interval)

    def append_run(self, data: memoryview, headers: list[BatchHeader], index_interval: int) -> None:
        """Write consecutive batches with one write; on OSError nothing was written."""
        position = self.file.size
        self.file.append((data,))
        for header in headers:
            self.account(position, header.size, header.last_offset, header.max_timestamp, index_interval)
            position += header.size

    def account(self, position: int, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Account for a batch at `position`, and add index entries if due."""
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if position == 0:
            self.first_timestamp = max_timestamp
        if self.since_entry > index_interval:
            tail = self.tail
            tail.offsets.append(last_offset - self.base_offset)
            tail.positions.append(position)
            if self.max_timestamp > self.last_time_entry:
                self.last_time_entry = self.max_timestamp
                tail.timestamps.append(self.max_timestamp)
                tail.time_offsets.append(self.offset_of_max_timestamp - self.base_offset)
            self.since_entry = size
            self.room = self._index_room()
        else:
            self.since_entry += size

    def limit_index(self, index_bytes: int) -> None:
        """Set the maximum size of the index files (`segment.index.bytes`); one time entry is reserved."""
        self.max_entries = index_bytes // OFFSET_ENTRY
        self.max_time_entries = index_bytes // TIME_ENTRY - 1
        self.room = self._index_room()

    def _index_room(self) -> int:
        return min(
            self.max_entries - self.on_disk_entries - len(self.tail.offsets),
            self.max_time_entries - self.on_disk_times - len(self.tail.timestamps),
        )

    # -- indexes ---------------------------------------------------------------------------------------------------

    def find(self, offset: int, *, cached_only: bool = False) -> tuple[int, FilePosition] | None:
        """The (last offset, position) of an indexed batch at or before the one that contains `offset`.

        The last offset is -1 if the position is the start of the file, which no entry names. None if the index has
        to be loaded from disk and `cached_only` is set.
        """
        relative = offset - self.base_offset
        found = self.tail.position_at_or_before(relative)
        if found is None and self.on_disk_entries:
            index = self._load(cached_only=cached_only)
            if index is None:
                return None
            found = index.position_at_or_before(relative)
        if found is None:
            return -1, START_OF_FILE
        return found[0] + self.base_offset, found[1]

    def place_before(self, position: int) -> FilePosition:
        """The start of the last indexed batch at or before this position. May read the disk."""
        found = self.tail.place_at_or_before(position)
        if found is None and position > 0 and self.on_disk_entries:
            index = self._load(cached_only=False)
            found = None if index is None else index.place_at_or_before(position)
        return START_OF_FILE if found is None else found

    def place_after_read(self, offset: int) -> tuple[int, FilePosition] | None:
        """Like `find`, for an offset where an earlier read ended.

        Most readers continue where they stopped. They skip the preceding batch, to which the index entry would lead.
        For the event loop only.
        """
        position = self._places.get(offset)
        return None if position is None else (-1, position)

    def remember_place(self, offset: int, position: FilePosition) -> None:
        """Record that a read ended before `offset`, whose batch is or will be at `position`.

        For the event loop only: a thread could record a position that has been truncated since.
        """
        places = self._places
        if offset not in places and len(places) >= PLACES_REMEMBERED:
            del places[next(iter(places))]
        places[offset] = position

    def find_time(self, timestamp: int) -> FilePosition:
        """A position before which every timestamp is smaller than `timestamp`. May read the disk."""
        tail = self.tail
        if tail.timestamps and timestamp >= tail.timestamps[0]:
            relative = tail.offset_at_or_before(timestamp)
        elif self.on_disk_times and (index := self._load(cached_only=False)) is not None:
            relative = index.offset_at_or_before(timestamp)
        else:
            return START_OF_FILE
        found = self.find(self.base_offset + relative)
        return START_OF_FILE if found is None else found[1]

    def drop_index(self) -> None:
        """Rebuild the index from the log, because an entry turned out to be wrong."""
        logger.warning("index does not match its log, rebuilding it", extra={"path": self.file.path})
        self._cache.put(self, self._rebuild())

    def whole_index(self) -> SegmentIndex:
        """All entries, on disk and in `tail`, plus the last time entry that a sealed segment has."""
        whole = SegmentIndex()
        if self.on_disk_entries or self.on_disk_times:
            on_disk = self._load(cached_only=False)
            if on_disk is not None:
                whole.extend(on_disk)
        whole.extend(self.tail)
        if self.largest_timestamp() >= 0:
            whole.add_time(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)
        return whole

    def index_written(self, whole: SegmentIndex) -> None:
        """Record that the entries returned by `whole_index` are in the index files now."""
        self.on_disk_entries = len(whole.offsets)
        self.on_disk_times = len(whole.timestamps)
        self.last_time_entry = whole.timestamps[-1] if whole.timestamps else -1
        self.tail = SegmentIndex()
        self.aborted_dirty = False
        self._cache.put(self, whole)

    def _load(self, *, cached_only: bool) -> SegmentIndex | None:
        index = self._cache.get(self)
        if index is not None:
            return index
        if cached_only:
            raw = self._read_cached()
        else:
            raw = self._read_file(file_names.INDEX), self._read_file(file_names.TIME_INDEX)
        if raw is None:
            return None
        try:
            index = SegmentIndex.decode(*raw)
            index.check(self.file.size, MAX_RELATIVE_OFFSET)
            if len(index.offsets) < self.on_disk_entries or len(index.timestamps) < self.on_disk_times:
                raise BadIndexError("entries are missing")
        except BadIndexError as error:
            if cached_only:
                return None
            logger.warning("damaged index, rebuilding it", extra={"path": self.file.path, "reason": str(error)})
            index = self._rebuild()
        self._cache.put(self, index)
        return index

    def _read_cached(self) -> tuple[bytes, bytes] | None:
        if self.on_disk_entries * OFFSET_ENTRY > INDEX_ON_LOOP_BYTES:
            return None
        parts: list[bytes] = []
        for suffix in (file_names.INDEX, file_names.TIME_INDEX):
            try:
                file = self._fs.open(self.path(suffix))
                part = file.read_cached(0, file.size)
            except FileNotFoundError:
                return None
            file.close()
            if part is None:
                return None
            parts.append(bytes(part))
        return parts[0], parts[1]

    def _read_file(self, suffix: str) -> bytes:
        try:
            return self._fs.read_bytes(self.path(suffix))
        except FileNotFoundError:
            return b""

    def _rebuild(self) -> SegmentIndex:
        """Rebuild the index from the log, up to the first entry of `tail`, as appending would have built it."""
        index = SegmentIndex()
        end = self.tail.positions[0] if self.tail.positions else self.file.size
        since, largest, largest_offset = 0, -1, 0
        try:
            for position, header in headers(self.file, 0, end, self.damaged):
                last = header.last_offset - self.base_offset
                if header.max_timestamp > largest:
                    largest, largest_offset = header.max_timestamp, last
                if since > REBUILD_INTERVAL:
                    index.offsets.append(last)
                    index.positions.append(position)
                    index.add_time(largest, largest_offset)
                    since = 0
                since += header.size
        except DamagedLog as damage:
            logger.error("damaged log, offsets after it are found by scanning", extra=damage.facts)
        if not self.tail.positions and largest >= 0:
            index.add_time(largest, largest_offset)
        self.on_disk_entries, self.on_disk_times = len(index.offsets), len(index.timestamps)
        if not self.tail.timestamps:
            self.last_time_entry = index.timestamps[-1] if index.timestamps else -1
        try:
            self._fs.write_all(
                {
                    self.path(file_names.INDEX): index.encode_offsets(),
                    self.path(file_names.TIME_INDEX): index.encode_times(),
                }
            )
        except OSError as error:
            logger.warning("index cannot be written", extra={"path": self.file.path, "reason": str(error)})
        return index

    # -- timestamps ------------------------------------------------------------------------------------------------

    def largest_timestamp(self) -> int:
        """The largest timestamp in the segment, -1 if there is none. May read the time index."""
        if self.max_timestamp == UNKNOWN_TIMESTAMP:
            index = self._load(cached_only=False) if self.on_disk_times else None
            if index is not None and index.timestamps and self._is_true(index.timestamps[-1], index.time_offsets[-1]):
                self.max_timestamp = index.timestamps[-1]
                self.offset_of_max_timestamp = index.time_offsets[-1] + self.base_offset
            else:
                self._scan_timestamps()
            if not self.tail.timestamps:
                self.last_time_entry = self.max_timestamp if self.on_disk_times else -1
        return self.max_timestamp

    def _is_true(self, timestamp: int, relative_offset: int) -> bool:
        """Whether the batch that a time entry names has that timestamp as its largest."""
        found = self.find(self.base_offset + relative_offset)
        for _, header in headers(self.file, 0 if found is None else found[1], self.file.size, self.damaged):
            if header.last_offset >= self.base_offset + relative_offset:
                return header.max_timestamp == timestamp
        return False

    def _scan_timestamps(self) -> None:
        if self.on_disk_times:
            self.drop_index()
        self.max_timestamp = -1
        try:
            for _, header in headers(self.file, 0, self.file.size, self.damaged):
                if header.max_timestamp > self.max_timestamp:
                    self.max_timestamp = header.max_timestamp
                    self.offset_of_max_timestamp = header.last_offset
        except DamagedLog as damage:
            logger.error("damaged log, later timestamps are not known", extra=damage.facts)

    def age_from(self) -> int:
        """The timestamp from which the segment's age counts, -1 if its first batch has none."""
        if self.first_timestamp == UNKNOWN_TIMESTAMP:
            self.first_timestamp = -1
            for _, header in headers(self.file, 0, self.file.size, self.damaged):
                self.first_timestamp = header.max_timestamp
                break
        return self.first_timestamp

    def modified_ms(self) -> int:
        """The modification time of the log file."""
        return self._fs.modified_ms(self.file.path)

    # -- aborted transactions --------------------------------------------------------------------------------------

    @property
    def aborted_in_memory(self) -> list[AbortedTxn] | None:
        """The transactions whose abort marker is in this segment; None before they are read from the disk."""
        return self._aborted

    def read_aborted(self) -> list[AbortedTxn]:
        """Read them from the disk, and keep nothing: a thread may call this while the loop uses the segment."""
        return decode_aborted(self._read_file(file_names.TXN_INDEX), self.path(file_names.TXN_INDEX))

    def keep_aborted(self, entries: list[AbortedTxn]) -> None:
        """Keep what `read_aborted` returned, unless the loop has read or changed the entries in the meantime."""
        if self._aborted is None:
            self._aborted = entries

    def aborted(self) -> list[AbortedTxn]:
        """The transactions whose abort marker is in this segment. Reads the disk the first time."""
        if self._aborted is None:
            self._aborted = self.read_aborted()
        return self._aborted

    def add_aborted(self, aborted: AbortedTxn) -> None:
        self.aborted().append(aborted)
        self.aborted_dirty = True

    def forget_aborted(self) -> None:
        """Clear the aborted transactions before recovery replays the segment, which adds them again."""
        self._aborted = []
        self.aborted_dirty = True

    def encode_aborted(self) -> bytes:
        return encode_aborted(self.aborted())

    # -- truncating ------------------------------------------------------------------------------------------------

    def find_cut(self, offset: int) -> tuple[FilePosition, int]:
        """The position to truncate at so that no batch reaches `offset`, and the log end offset that results."""
        found = self.find(offset)
        for position, header in headers(self.file, 0 if found is None else found[1], self.file.size, self.damaged):
            if header.last_offset >= offset:
                return position, min(offset, header.base_offset)
        return FilePosition(self.file.size), offset

    def truncate(self, position: FilePosition, offset: int) -> None:
        """Truncate the file at `position`, and drop the index entries of batches that reach `offset`."""
        whole = self.whole_index()
        self._places.clear()
        self.file.truncate(position)
        whole.truncate(offset - self.base_offset)
        self._cache.drop(self)
        self.tail = whole
        self.on_disk_entries = self.on_disk_times = self.since_entry = 0
        self.damaged = tuple(part for part in self.damaged if part[1] <= position)
        kept = [one for one in self.aborted() if one.last_offset < offset]
        self.aborted_dirty = self.aborted_dirty or len(kept) < len(self.aborted())
        self._aborted = kept
        self._after_cut(position)

    def _after_cut(self, position: FilePosition) -> None:
        """Find the largest timestamp again: from the last remaining time entry, and the batches after it."""
        tail = self.tail
        self.max_timestamp = self.last_time_entry = tail.timestamps[-1] if tail.timestamps else -1
        self.offset_of_max_timestamp = self.base_offset + tail.time_offsets[-1] if tail.timestamps else -1
        if position == 0:
            self.first_timestamp = -1
        start = self.find(self.offset_of_max_timestamp) if tail.timestamps else None
        for _, header in headers(self.file, 0 if start is None else start[1], position, self.damaged):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset

    def last_header(self) -> BatchHeader | None:
        """The header of the last batch, found from the last index entry; None if the segment is empty."""
        found = self.find(self.base_offset + MAX_RELATIVE_OFFSET)
        last: BatchHeader | None = None
        for _, header in headers(self.file, 0 if found is None else found[1], self.file.size, self.damaged):
            last = header
        return last


REBUILD_INTERVAL = 4096
"""Bytes between the entries of a rebuilt index; any value gives a correct index."""
