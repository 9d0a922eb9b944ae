"""Segment files of one partition: rolling, reading, flushing, replacing and deleting segments.

`log.Log` is the subclass that adds the meaning of batches: producers, epochs and transactions. Kafka has the same
split (LocalLog and UnifiedLog). Here the two are one object, so that an append costs no call between them.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate
from posixpath import basename, join
from typing import NoReturn, TypeVar

from moldau.host.event_log import event_logger
from moldau.host.fs import FileChanged
from moldau.log import file_names
from moldau.log.aborted import AbortedTxn, is_complete, overlapping
from moldau.log.config import MAX_LONG, LogConfig
from moldau.log.directory import LogDirectory
from moldau.log.epochs import LeaderEpochs
from moldau.log.errors import DamagedLog, OffsetNotInLog, StorageError
from moldau.log.flush import FlushJob
from moldau.log.producer_state import ProducerEntry, ProducerStates
from moldau.log.read import EMPTY, TimestampOffset, WouldBlock, find_timestamp, latest_from, read_segment
from moldau.log.scan import first_damage
from moldau.log.segment import MAX_RELATIVE_OFFSET, Segment
from moldau.wire.number_types import ProducerId
from moldau.wire.topic_partition import TopicPartition

logger = event_logger(__name__)

T = TypeVar("T")


class Segments:
    """All segments in order, with their base offsets for binary search.

    Immutable: the log replaces the whole object, so that a thread that is reading keeps a consistent list.
    """

    __slots__ = ("_latest", "bases", "segments")

    def __init__(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.bases = [segment.base_offset for segment in segments]
        self._latest: list[int] | None = None

    def holding(self, offset: int) -> int:
        """The index in `segments` of the segment that contains the offset."""
        return max(0, bisect_right(self.bases, offset) - 1)

    def from_timestamp(self, timestamp: int, offset: int) -> list[Segment]:
        """The segments that can hold a record with that timestamp or a later one, from the segment of `offset` on.

        The first call reads the largest timestamp of every complete segment; later calls use binary search. May read
        time indexes.
        """
        if self._latest is None:
            complete = self.segments[:-1]
            self._latest = list(accumulate((segment.largest_timestamp() for segment in complete), max))
        return self.segments[max(bisect_left(self._latest, timestamp), self.holding(offset)) :]

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds the offset, and all after it."""
        return self.segments[self.holding(offset) :]


class LocalLog:
    """The segments of a log on disk. See `log.Log` for the threading rules."""

    __slots__ = (
        "_active",
        "_after_max",
        "_append_time",
        "_before_max",
        "_config",
        "_directory_dirty",
        "_flush_messages",
        "_held",
        "_index_interval",
        "_job",
        "_last_flush_ms",
        "_max_batch",
        "_parent_dirty",
        "_require_keys",
        "_rewrites",
        "_roll_above",
        "_roll_after",
        "_roll_clock",
        "_segment_bytes",
        "_segments",
        "_snapshots",
        "_unsealed",
        "appended_bytes",
        "closed",
        "data_dir",
        "directory",
        "end_offset",
        "epochs",
        "flush_barrier",
        "flushed_offset",
        "name",
        "producers",
        "size_bytes",
        "start_offset",
        "topic_id",
        "truncations",
    )

    def __init__(
        self, name: TopicPartition, topic_id: bytes, directory: str, data_dir: LogDirectory, config: LogConfig
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.directory = directory
        self.data_dir = data_dir
        self.start_offset = 0
        self.end_offset = 0
        self.flushed_offset = 0
        """Everything below is on disk. Recovery after a crash starts here."""
        self.flush_barrier = 0
        """Everything below may be read and acknowledged. Equals the log end offset, except while `flush.messages`
        requires a flush first."""
        self.size_bytes = 0
        self.appended_bytes = 0
        """Bytes appended since the log was opened; only grows."""
        self.truncations = 0
        """Counts two for each truncation: one when it begins, one when it ends, so it is odd in between. A reader in a
        thread compares it before and after, and reads again if it has changed."""
        self.closed = False
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()
        self._segments = Segments([])
        self._active: Segment | None = None
        """The segment that receives appends; None while the log is cold, closed or offline."""
        self._unsealed: list[Segment] = []
        """Complete segments whose indexes are not on disk yet."""
        self._snapshots: dict[int, bytes] = {}
        """Producer snapshots at the base offsets of segments, not on disk yet."""
        self._job: FlushJob | None = None
        self._held = False
        self._last_flush_ms = 0
        self._directory_dirty = self._parent_dirty = False
        self._roll_above = self._roll_after = self._roll_clock = MAX_LONG
        self.config = config

    def __repr__(self) -> str:
        return f"Log({self.name}, {self.start_offset}..{self.end_offset})"

    @property
    def topic(self) -> str:
        return self.name.topic

    @property
    def partition(self) -> int:
        return self.name.partition

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        """Apply a new configuration, also to the active segment."""
        self._config = config
        self._append_time = config.append_time
        self._rewrites = config.append_time or config.codec is not None
        self._require_keys = config.compacts
        self._max_batch = min(config.max_message_bytes, config.segment_bytes)
        self._after_max = config.message_timestamp_after_max_ms
        self._before_max = config.message_timestamp_before_max_ms
        self._index_interval = config.index_interval_bytes
        self._segment_bytes = config.segment_bytes
        self._flush_messages = config.flush_messages
        if self._active is not None:
            self._arm_roll(self._active)

    @property
    def segments(self) -> list[Segment]:
        """All segments in order, the active one last; empty while the log is cold. Do not modify."""
        return self._segments.segments

    def active_producers(self) -> dict[ProducerId, ProducerEntry]:
        """The producers that the log knows, by producer id. Opens a cold log."""
        self._active or self._open()
        return self.producers.producers

    @abstractmethod
    def _open(self) -> Segment:
        """Return the active segment after opening a cold log; raise if the log is closed or offline."""

    def refuse(self) -> None:
        """Take the log offline because its directory failed: every operation now calls `_open`, which raises."""
        self._active = None

    # -- rolling ---------------------------------------------------------------------------------------------------

    def roll(self, now_ms: int) -> None:
        """Start a new active segment, unless the current one is empty."""
        active = self._active or self._open()
        if active.file.size:
            self._roll(active, self.end_offset, now_ms)

    def _roll(self, active: Segment, base_offset: int, now_ms: int) -> Segment:
        """Create a new active segment at `base_offset`. It replaces the current one if that is empty."""
        data_dir = self.data_dir
        kept = self._segments.segments
        try:
            if not active.file.size:
                kept = kept[:-1]
                active.file.remove()
            fresh = Segment.create(data_dir.fs, self.directory, base_offset, data_dir.index_cache, now_ms)
        except OSError as error:
            raise data_dir.failed(error, f"could not begin a segment of {self.name} at {base_offset}") from error
        if active.file.size:
            self._unsealed.append(active)
            self._snapshots[base_offset] = self.producers.encode()
        self._segments = Segments([*kept, fresh])
        self._active = fresh
        self._directory_dirty = True
        self._arm_roll(fresh)
        return fresh

    def _arm_roll(self, active: Segment) -> None:
        """Set the limits that each append compares against: a batch beyond one of them rolls the segment.

        The age of a segment counts in record timestamps, from its first batch; by the clock only if that has none.
        """
        config = self._config
        active.limit_index(config.segment_index_bytes)
        self._roll_above = active.base_offset + MAX_RELATIVE_OFFSET
        self._roll_after = self._roll_clock = MAX_LONG
        if not active.file.size:
            return
        age = config.roll_ms
        jitter = int(self.data_dir.randomness.random() * min(config.segment_jitter_ms, age))
        age_from = active.age_from()
        if age_from >= 0:
            self._roll_after = age_from + age - jitter
        else:
            self._roll_clock = active.created_ms + age - jitter

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, min_one: bool = True, cached_only: bool = False
    ) -> memoryview | None:
        """Whole batches from the one that contains `offset`: at most `max_bytes`, all below `end_offset`.

        With `min_one` a first batch larger than `max_bytes` is returned nevertheless. With `cached_only` the result is
        None if the disk has to be read: the caller then calls again without it, from a thread.
        """
        while True:
            if not self.start_offset <= offset < end_offset or offset >= self.end_offset:
                if not self.start_offset <= offset <= self.end_offset:
                    raise OffsetNotInLog(
                        f"offset {offset} is outside of {self.name}, {self.start_offset} to {self.end_offset}"
                    )
                return EMPTY
            if self._active is None:
                self._open()
            truncations = self.truncations
            try:
                data = self._read(offset, max_bytes, end_offset, min_one, cached_only)
            except WouldBlock:
                return None
            except (DamagedLog, OSError) as error:
                # A concurrent truncation makes the log look damaged, or its files missing: read again in that case.
                if self._not_truncated_since(truncations) and offset >= self.start_offset:
                    self._unreadable(error, f"could not read {self.name} at offset {offset}")
                continue
            if self._not_truncated_since(truncations):
                return data

    def _not_truncated_since(self, truncations: int) -> bool:
        """Whether no truncation has run since the counter had this value. DirectoryOffline if a truncation failed."""
        if truncations == self.truncations and not truncations % 2:
            return True
        self.data_dir.check()
        return False

    def _begin_truncation(self, end: int) -> None:
        """Announce that everything from `end` on will change: readers read again, and recovery starts at `end`.

        The lower recovery point is saved durably before the change. Otherwise a power loss could leave torn bytes below
        a recovery point that was true for the old bytes.
        """
        self.truncations += 1
        if end < self.flushed_offset or end < self.start_offset:
            before = self.flushed_offset, self.start_offset
            self.flushed_offset = min(self.flushed_offset, end)
            self.start_offset = min(self.start_offset, end)
            try:
                self.data_dir.save_checkpoints()
            except StorageError:
                self.flushed_offset, self.start_offset = before
                self.truncations += 1  # even again: nothing was truncated, so readers need not read again
                raise

    def _read(self, offset: int, max_bytes: int, end_offset: int, min_one: bool, cached_only: bool) -> memoryview:
        for segment in self._segments.from_offset(offset):
            data = read_segment(
                segment, offset, max_bytes, end_offset, self.end_offset, min_one=min_one, cached_only=cached_only
            )
            if data is not None:
                return data
            # Compaction may leave a gap between the last batch of a segment and the next segment; the offset is in it.
        return EMPTY

    def _unreadable(self, error: DamagedLog | OSError, doing: str) -> NoReturn:
        if isinstance(error, DamagedLog):
            logger.error("damaged log", extra=error.facts)
            raise error
        if isinstance(error, FileChanged):
            logger.error("file of a log was changed", extra={"attempt": doing, "reason": str(error)})
            raise DamagedLog(str(error.filename), 0, str(error.strerror)) from error
        raise self.data_dir.failed(error, doing) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record whose timestamp is at least `timestamp`. Reads the disk: not for the event loop."""
        return self._look_up(lambda: self._find_timestamp(timestamp))

    def _find_timestamp(self, timestamp: int) -> TimestampOffset | None:
        for segment in self._segments.from_timestamp(timestamp, self.start_offset):
            if segment.largest_timestamp() >= timestamp:
                found = find_timestamp(segment, timestamp, self.start_offset)
                if found is not None:
                    return found
        return None

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp in the log. Reads the disk: not for the event loop."""
        return self._look_up(self._find_latest)

    def _find_latest(self) -> TimestampOffset | None:
        first, *others = self._segments.from_offset(self.start_offset)
        latest, holder = latest_from(first, self.start_offset), first
        for segment in others:
            if segment.largest_timestamp() > latest:
                latest, holder = segment.max_timestamp, segment
        return None if latest < 0 else find_timestamp(holder, latest, self.start_offset)

    def aborted_in_memory(self, first_offset: int, end_offset: int) -> list[AbortedTxn] | None:
        """The aborted transactions that overlap `first_offset` to `end_offset` (exclusive), without reading the disk.

        None if the entries of a segment have to be read first: see `read_aborted`.
        """
        if self._active is None:
            self._open()
        found: list[AbortedTxn] = []
        for segment in self._segments.from_offset(first_offset):
            entries = segment.aborted_in_memory
            if entries is None:
                return None
            found += overlapping(entries, first_offset, end_offset)
            if is_complete(entries, end_offset):
                break
        return found

    def read_aborted(self, first_offset: int, end_offset: int) -> list[tuple[Segment, list[AbortedTxn]]]:
        """Read the entries that `aborted_in_memory` lacks, for `Segment.keep_aborted`. A thread may call this."""
        return self._look_up(lambda: self._read_aborted(first_offset, end_offset))

    def _read_aborted(self, first_offset: int, end_offset: int) -> list[tuple[Segment, list[AbortedTxn]]]:
        read: list[tuple[Segment, list[AbortedTxn]]] = []
        for segment in self._segments.from_offset(first_offset):
            entries = segment.aborted_in_memory
            if entries is None:
                entries = segment.read_aborted()
                read.append((segment, entries))
            if is_complete(entries, end_offset):
                break
        return read

    def _look_up(self, look: Callable[[], T]) -> T:
        """Run `look`, again if the log was truncated or lost segments meanwhile. LogError if the disk fails."""
        if self._active is None:
            self._open()
        while True:
            truncations, start_offset = self.truncations, self.start_offset
            try:
                return look()
            except (DamagedLog, OSError) as error:
                if self._not_truncated_since(truncations) and start_offset == self.start_offset:
                    self._unreadable(error, f"could not search {self.name}")

    def verify(self) -> list[DamagedLog]:
        """Read everything and verify every checksum; return the first damage per segment. Not for the event loop."""
        self._active or self._open()
        damages = [first_damage(one.file, one.base_offset) for one in self._segments.segments]
        return [damage for damage in damages if damage is not None]

    # -- flushing --------------------------------------------------------------------------------------------------

    @property
    def flushes_by_time(self) -> bool:
        """Whether time alone can make a flush due: `flush.ms` is set and some bytes are not on disk yet."""
        return self._config.flush_ms != MAX_LONG and self.flushed_offset < self.end_offset

    def needs_flush(self, now_ms: int) -> bool:
        """Whether `flush.messages`, `flush.ms` or a completed segment requires a flush."""
        if self._held or self._unsealed:
            return True
        if self._config.flush_ms == MAX_LONG or self.flushed_offset >= self.end_offset:
            return False
        return now_ms - self._last_flush_ms >= self._config.flush_ms

    def flush_job(self) -> FlushJob | None:
        """A job for a thread that makes the current content of the log durable.

        None if everything is durable, or if a job is running (`needs_flush` is checked again after its `flush_done`).
        """
        if self._active is None or self._job is not None or not self._anything_to_flush():
            return None
        job = FlushJob(self.data_dir.fs, self.directory, self.end_offset, self.truncations)
        job.unsynced = [one for one in self._segments.from_offset(self.flushed_offset) if one.file.size]
        job.sealing = list(self._unsealed)
        job.snapshots = dict(self._snapshots)
        if self.epochs.dirty:
            job.epochs = self.epochs.encode()
            self.epochs.dirty = False
        if self._directory_dirty:
            job.directories.append(self.directory)
        if self._parent_dirty:
            # A new log: neither its directory's name nor its topic id may have reached the disk yet.
            job.metadata = file_names.encode_partition_metadata(self.topic_id)
            job.directories.append(self.data_dir.path)
        self._directory_dirty = self._parent_dirty = False
        self._job = job
        return job

    def _anything_to_flush(self) -> bool:
        return bool(
            self.flushed_offset < self.end_offset
            or self._unsealed
            or self._snapshots
            or self.epochs.dirty
            or self._directory_dirty
            or self._parent_dirty
        )

    def flush_done(self, job: FlushJob, now_ms: int) -> None:
        """Take the result of a job, on the event loop.

        StorageError if the job failed; a failed fsync takes the directory offline.
        """
        if self._job is job:
            self._job = None
        if self.closed:
            return
        if job.error is not None:
            self.epochs.dirty = self.epochs.dirty or job.epochs is not None
            self._directory_dirty = self._parent_dirty = True
            doing = f"could not flush {self.name}"
            raise self.data_dir.failed(job.error, doing, fatal=True if job.sync_failed else None) from job.error
        if job.truncations == self.truncations:
            for segment, index in job.sealed:
                if segment in self._unsealed:
                    segment.index_written(index)
                    self._unsealed.remove(segment)
            for offset in job.snapshots:
                self._snapshots.pop(offset, None)
        self._last_flush_ms = now_ms
        self.flushed_offset = max(self.flushed_offset, min(job.target, self.end_offset))
        self._held = self.end_offset - self.flushed_offset >= self._flush_messages
        self.flush_barrier = max(self.flush_barrier, self.flushed_offset) if self._held else self.end_offset

    @property
    def recovery_point(self) -> int:
        """The offset where recovery must start. Everything below is on disk, including the indexes of the segments that
        are complete below it."""
        return min(self.flushed_offset, self._unsealed[0].base_offset) if self._unsealed else self.flushed_offset

    # -- moving, replacing and deleting ------------------------------------------------------------------------------

    def moved_to_directory(self, directory: str, data_dir: LogDirectory) -> None:
        """Record that the directory was renamed, or moved to another data directory. Open descriptors stay valid."""
        for segment in self._segments.segments:
            segment.file.path = segment.file.former_path = join(directory, basename(segment.file.path))
        self.directory = directory
        self.data_dir = data_dir
        self._directory_dirty = self._parent_dirty = True

    def holds(self, segments: list[Segment], sizes: list[int]) -> bool:
        """Whether these segments are still in the log: adjacent, complete, and with these sizes."""
        if self._active is None or not segments:
            return False
        mine = self._segments.segments
        first = self._segments.holding(segments[0].base_offset)
        return (
            [id(one) for one in mine[first : first + len(segments)]] == [id(one) for one in segments]
            and [one.file.size for one in segments] == sizes
            and segments[-1] is not self._active
            and not any(one in self._unsealed for one in segments)
        )

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put `new` in the place of `old`, whose files have been renamed before.

        A reader in the middle of an old segment can finish: it has the previous list of segments, and the old files
        exist for another `file.delete.delay.ms`.
        """
        mine = self._segments.segments
        first = mine.index(old[0])
        self._segments = Segments([*mine[:first], new, *mine[first + len(old) :]])
        self.truncations += 2  # readers read again, as after a truncation
        self.size_bytes += new.file.size - sum(one.file.size for one in old)
        self._directory_dirty = True
        for segment in old:
            segment.dropped = True
            self.data_dir.index_cache.drop(segment)
            segment.file.close()

    def _drop(self, segments: list[Segment]) -> None:
        """Remove segments from the log. Their files are renamed now and deleted after `file.delete.delay.ms`."""
        fs = self.data_dir.fs
        gone = set(map(id, segments))
        self._segments = Segments([one for one in self._segments.segments if id(one) not in gone])
        self._unsealed = [one for one in self._unsealed if id(one) not in gone]
        to_delete: list[str] = []
        for segment in segments:
            segment.dropped = True
            self.data_dir.index_cache.drop(segment)
            self.size_bytes -= segment.file.size
            self._snapshots.pop(segment.base_offset, None)
            for suffix in (*file_names.SEGMENT_SUFFIXES, file_names.SNAPSHOT):
                path = segment.path(suffix)
                try:
                    if suffix == file_names.LOG:
                        segment.file.rename(path + file_names.DELETED)
                    else:
                        fs.rename(path, path + file_names.DELETED)
                except FileNotFoundError:
                    continue
                to_delete.append(path + file_names.DELETED)
            segment.file.close()
        self._directory_dirty = True
        self.data_dir.delete_later(to_delete, self._config.file_delete_delay_ms)

    def _remove_snapshots(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._snapshots.pop(offset, None)
            self.data_dir.fs.remove(
                join(self.directory, file_names.segment_file(offset, file_names.SNAPSHOT)), missing_ok=True
            )
