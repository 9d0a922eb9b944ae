"""The log of one partition: appends, producer and epoch state, truncation, retention and clean shutdown.

Appends are synchronous and run on the event loop that owns the log. Reads may run in threads at the same time. A
flush is a job: the log creates it (`flush_job`), a thread runs it, and the log takes the result (`flush_done`).

After a clean shutdown a log opens no file until it is used. Until then it is `cold`: a few numbers from the state file.

The log guarantees that every batch it acknowledges is in its file, in order, and that nothing else is. It does not
know the high watermark, the leader, or who may write.
"""

from __future__ import annotations

from posixpath import join
from typing import NamedTuple

from moldau.host.event_log import event_logger
from moldau.log import file_names, lazy_open, loader, retention
from moldau.log.batch_validation import check_single, check_size, check_timestamps, normalise, refuse, stamped_headers
from moldau.log.checkpoints import LogState
from moldau.log.config import LogConfig
from moldau.log.directory import LogDirectory
from moldau.log.epochs import NO_EPOCH, LeaderEpochs
from moldau.log.errors import LogError, OffsetNotInLog, StorageError
from moldau.log.flush import index_files
from moldau.log.local_log import LocalLog, Segments
from moldau.log.producer_history import find_earlier
from moldau.log.producer_state import ProducerBatch, ProducerStates, last_sequence_of
from moldau.log.segment import Segment
from moldau.records import BatchError, BatchHeader, BatchInfo, check_batch, parse_marker, stamp
from moldau.records.batch_layout import CONTROL_BIT, LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT
from moldau.wire.number_types import LeaderEpoch, ProducerEpoch, ProducerId
from moldau.wire.topic_partition import TopicPartition

logger = event_logger(__name__)

_NO_TIME = -1


class AppendResult(NamedTuple):
    """The offsets at which a batch was appended."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 if the producer's timestamps were kept (CreateTime)."""
    duplicate: bool
    """The batch was in the log already: a retry of the batch at these offsets."""


class Log(LocalLog):
    """The log of one partition."""

    __slots__ = ("_cold", "_origin", "_stray_snapshot", "latest_epoch")

    def __init__(
        self, name: TopicPartition, topic_id: bytes, directory: str, data_dir: LogDirectory, config: LogConfig
    ) -> None:
        """Use `create`, `load` or `from_state`, not the constructor."""
        super().__init__(name, topic_id, directory, data_dir, config)
        self.latest_epoch = NO_EPOCH
        self._cold: LogState | None = None
        self._origin: LogState | None = None
        """The state that the last clean shutdown saved; valid until the log changes."""
        self._stray_snapshot: int | None = None
        """Offset of the producer snapshot that the last clean shutdown wrote; it belongs to no segment."""
        data_dir.hosted_logs[name] = self

    # -- creating and loading --------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls, name: TopicPartition, topic_id: bytes, data_dir: LogDirectory, config: LogConfig, now_ms: int
    ) -> Log:
        """Create an empty log in its own directory. StorageError if the disk fails."""
        data_dir.check()
        directory = join(data_dir.path, str(name))
        try:
            data_dir.fs.mkdir(directory)
            data_dir.fs.write_atomically(
                join(directory, file_names.PARTITION_METADATA),
                file_names.encode_partition_metadata(topic_id),
                sync=False,
            )
            segment = Segment.create(data_dir.fs, directory, 0, data_dir.index_cache, now_ms)
        except OSError as error:
            raise data_dir.failed(error, f"could not create {directory}") from error
        log = cls(name, topic_id, directory, data_dir, config)
        log._set_segments([segment])
        log._last_flush_ms = now_ms
        log._directory_dirty = log._parent_dirty = True
        return log

    @classmethod
    def load(
        cls,
        name: TopicPartition,
        data_dir: LogDirectory,
        config: LogConfig,
        now_ms: int,
        *,
        clean: bool,
        recovery_point: int = 0,
        start_offset: int = 0,
    ) -> Log:
        """Load the log in the directory, with recovery if the last shutdown was not clean. Reads the disk."""
        log = cls(name, file_names.NO_TOPIC_ID, join(data_dir.path, str(name)), data_dir, config)
        log._load(now_ms, clean=clean, recovery_point=recovery_point, start_offset=start_offset)
        return log

    @classmethod
    def from_state(cls, state: LogState, data_dir: LogDirectory, config: LogConfig) -> Log:
        """The log that a clean shutdown saved, without reading the disk: it stays cold until it is used."""
        log = cls(state.name, state.topic_id, join(data_dir.path, str(state.name)), data_dir, config)
        log._cold = log._origin = state
        log.start_offset = state.start_offset
        log.end_offset = log.flushed_offset = log.flush_barrier = state.end_offset
        log.size_bytes = sum(segment.size for segment in state.segments)
        log.epochs = LeaderEpochs.of(state.epochs)
        log.latest_epoch = log.epochs.latest
        return log

    def adopt_topic_id(self, topic_id: bytes) -> None:
        """Store the topic id of a log whose directory has none."""
        path = join(self.directory, file_names.PARTITION_METADATA)
        try:
            self.data_dir.fs.write_atomically(path, file_names.encode_partition_metadata(topic_id))
        except OSError as error:
            raise self.data_dir.failed(error, f"could not write {path}") from error
        self.topic_id = topic_id
        self._origin = None

    def _load(self, now_ms: int, *, clean: bool, recovery_point: int, start_offset: int) -> None:
        loaded = loader.load(
            self.directory,
            self.data_dir,
            self._config,
            now_ms,
            clean=clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
        )
        self.topic_id = loaded.topic_id
        self.start_offset = loaded.start_offset
        self.flushed_offset = loaded.recovery_point
        self._set_end_offset(loaded.end_offset)
        self.epochs = loaded.epochs
        self.latest_epoch = loaded.epochs.latest
        self.producers = loaded.producers
        self._stray_snapshot = loaded.stray_snapshot
        self._last_flush_ms = now_ms
        self._cold = self._origin = None
        # The page cache shows file names, but they may not have reached the disk before the crash: sync them again.
        self._directory_dirty = self._parent_dirty = not clean
        self._set_segments(loaded.segments)
        self._unsealed = loaded.unsealed

    def _set_segments(self, segments: list[Segment]) -> None:
        self._segments = Segments(segments)
        self.size_bytes = sum(segment.file.size for segment in segments)
        self._active = segments[-1]
        self._arm_roll(segments[-1])

    def _open(self) -> Segment:
        self.data_dir.check()
        if self.closed:
            raise StorageError(f"{self.name} is closed", fatal=False)
        with self.data_dir.opening:
            if self._active is None and self._cold is not None:
                self._open_saved(self._cold)
        if self._active is None:
            raise StorageError(f"{self.name} is closed", fatal=False)
        return self._active

    def _open_saved(self, state: LogState) -> None:
        """Open the log that a clean shutdown saved; if its files have changed since, recover it."""
        data_dir = self.data_dir
        try:
            segments, self.producers = lazy_open.reopen(state, self.directory, data_dir)
        except (OSError, ValueError) as error:
            logger.warning(
                "log is not as the last clean stop left it, recovering it",
                extra={"directory": self.directory, "reason": str(error)},
            )
            try:
                self._load(0, clean=False, recovery_point=0, start_offset=state.start_offset)
            except OSError as worse:
                raise data_dir.failed(worse, f"could not open {self.name}") from worse
            return
        self._cold = None
        self._stray_snapshot = state.end_offset
        self._set_segments(segments)

    # -- appending -------------------------------------------------------------------------------------------------

    def append(
        self, data: memoryview, leader_epoch: LeaderEpoch, now_ms: int, *, coordinator: bool = False
    ) -> AppendResult:
        """Append one batch as the leader; on LogError the log is unchanged.

        `data` must be writable: the base offset and the leader epoch are written into it. `coordinator` is for batches
        of the broker itself: it allows control batches.
        """
        active = self._active
        if active is None:
            active = self._open()
        if len(data) > self._max_batch:
            check_size(len(data), self._config, str(self.name))
        try:
            info = check_batch(data, 0, require_keys=self._require_keys, allow_control=coordinator)
        except BatchError as error:
            refuse(error, data, str(self.name))
        (
            _, size, _, attributes, last_delta, _, claimed, producer_id, producer_epoch, first_sequence, _,
            _, earliest, latest, _,
        ) = info  # fmt: skip
        if size != len(data):
            check_single(size, len(data), str(self.name))
        if (
            claimed != latest
            or latest - now_ms > self._after_max
            or now_ms - earliest > self._before_max
            or self._rewrites
            or attributes & LOG_APPEND_TIME_BIT
        ):
            data, latest = self._adjust(data, info, now_ms)
            size = len(data)
        first = self.end_offset
        last = first + last_delta
        last_sequence, transactional = -1, attributes & TRANSACTIONAL_BIT != 0
        if producer_id >= 0 and not attributes & CONTROL_BIT:
            if first_sequence < 0:
                self.producers.admit_unsequenced(producer_id, first_sequence, coordinator)
            last_sequence = last_sequence_of(first_sequence, last_delta)
            try:
                earlier = self.producers.admit(
                    producer_id, producer_epoch, first_sequence, last_sequence, transactional
                )
            except LogError:
                earlier = self._find_earlier(producer_id, producer_epoch, first_sequence, last_sequence)
                if earlier is None:
                    raise
            if earlier is not None:
                stamped = earlier.timestamp if self._append_time else _NO_TIME
                return AppendResult(earlier.first_offset, earlier.last_offset, stamped, True)
        elif attributes & CONTROL_BIT:
            self.producers.admit_marker(producer_id, producer_epoch, parse_marker(data).coordinator_epoch)

        position = active.file.size
        if (
            position + size > self._segment_bytes
            or latest > self._roll_after
            or last > self._roll_above
            or now_ms > self._roll_clock
            or active.room <= 0
        ) and position:
            active = self._roll(active, first, now_ms)
            position = 0
        stamp(data, 0, first, leader_epoch)
        try:
            active.append(data, last, latest, self._index_interval)
        except OSError as error:
            raise self.data_dir.failed(error, f"could not append to {active.file.path}") from error
        if position == 0:
            self._arm_roll(active)
        if leader_epoch != self.latest_epoch:
            self.assign_epoch(leader_epoch, first)
        if producer_id >= 0:
            if attributes & CONTROL_BIT:
                self._apply_marker(data, producer_id, producer_epoch)
            else:
                self.producers.applied(
                    producer_id, producer_epoch, first_sequence, last_sequence, first, last, latest, transactional
                )
        self.size_bytes += size
        self.appended_bytes += size
        self.end_offset = end = last + 1
        if end - self.flushed_offset >= self._flush_messages:
            self._held = True
        elif not self._held:
            self.flush_barrier = end
        return AppendResult(first, last, now_ms if self._append_time else _NO_TIME, False)

    def _adjust(self, data: memoryview, info: BatchInfo, now_ms: int) -> tuple[memoryview, int]:
        check_timestamps(data, info, self._config, now_ms, str(self.name))
        data, latest = normalise(data, info, self._config, now_ms)
        if len(data) > self._max_batch:
            check_size(len(data), self._config, str(self.name))
        return data, latest

    def _find_earlier(
        self, producer_id: ProducerId, epoch: ProducerEpoch, first: int, last: int
    ) -> ProducerBatch | None:
        segments = self._segments.segments
        return self._look_up(lambda: find_earlier(self.producers, segments, producer_id, epoch, first, last))

    def _apply_marker(self, data: memoryview, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> None:
        aborted = self.producers.applied_marker(producer_id, producer_epoch, parse_marker(data))
        if aborted is not None and self._active is not None:
            self._active.add_aborted(aborted)

    def append_stamped(self, data: memoryview, now_ms: int) -> int:
        """Append batches that already have offsets (from a leader, or adopted); return the number of bytes appended.

        Batches are checked for damage and order only, because a leader has validated them before. An incomplete batch
        at the end of `data` is left out. All batches for the same segment are written with one write.
        """
        active = self._active or self._open()
        at = written = 0
        position = active.file.size
        run: list[BatchHeader] = []
        for header in stamped_headers(data, self.end_offset, str(self.name)):
            if header.last_offset > self._roll_above or (
                position
                and (
                    position + header.size > self._segment_bytes
                    or header.max_timestamp > self._roll_after
                    or now_ms > self._roll_clock
                    or active.room <= 0
                )
            ):
                self._append_run(active, data[written:at], run)
                written, run = at, []
                active = self._roll(active, header.base_offset, now_ms)
                position = 0
            run.append(header)
            at += header.size
            if position == 0 or len(run) >= active.room:  # each batch may add an index entry
                self._append_run(active, data[written:at], run)
                written, run = at, []
                if position == 0:
                    self._arm_roll(active)  # the segment's age counts from its first batch
            position += header.size
        self._append_run(active, data[written:at], run)
        return at

    def _append_run(self, active: Segment, data: memoryview, run: list[BatchHeader]) -> None:
        if not run:
            return
        try:
            active.append_run(data, run, self._index_interval)
        except OSError as error:
            raise self.data_dir.failed(error, f"could not append to {active.file.path}") from error
        at = 0
        for header in run:
            if header.leader_epoch >= 0 and header.leader_epoch != self.latest_epoch:
                self.assign_epoch(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                marker = parse_marker(data[at : at + header.size]) if header.is_control and header.count else None
                aborted = self.producers.replay(header, marker)
                if aborted is not None:
                    active.add_aborted(aborted)
            at += header.size
        self.size_bytes += at
        self.appended_bytes += at
        self.end_offset = self.producers.end_offset = end = run[-1].last_offset + 1
        if end - self.flushed_offset >= self._flush_messages:
            self._held = True
        elif not self._held:
            self.flush_barrier = end

    def assign_epoch(self, leader_epoch: LeaderEpoch, offset: int | None = None) -> None:
        """Record that the leader of this epoch starts to write at `offset`, by default at the log end offset."""
        if leader_epoch >= 0:
            self.epochs.assign(leader_epoch, self.end_offset if offset is None else offset)
            self.latest_epoch = self.epochs.latest

    # -- epochs and transactions -----------------------------------------------------------------------------------

    def epoch_end_offset(self, epoch: LeaderEpoch) -> tuple[LeaderEpoch, int]:
        """OffsetForLeaderEpoch: the largest epoch not above the requested one, and its end offset."""
        return self.epochs.end_offset(epoch, self.end_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which this log knows the outcome of every transaction."""
        return self.stable_offset(self.end_offset)

    def stable_offset(self, high_watermark: int) -> int:
        """The limit for a `read_committed` consumer, given the high watermark."""
        if self._cold is not None:
            return min(self._cold.last_stable_offset, high_watermark)
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    # -- truncating and deleting -----------------------------------------------------------------------------------

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Truncate to `offset`, as a follower does; the batch that contains `offset` is removed too.

        Durable when it returns. Reads and syncs the disk, which is acceptable because truncation is rare.
        """
        self._active or self._open()
        if offset >= self.end_offset:
            return
        segments = self._segments.segments
        if offset < segments[0].base_offset:
            self.restart_at(offset, now_ms)
            return
        active = [one for one in segments if one.base_offset < offset or one is segments[0]][-1]
        try:
            position, end = active.find_cut(offset)
            self._begin_truncation(end)
            # Delete the last segment first, and sync: after a crash no segment may exist without the ones before it,
            # and no old bytes may follow the batches that are appended after the truncation.
            self._drop(segments[: segments.index(active) : -1])
            snapshots = loader.list_snapshots(self.data_dir.fs, self.directory)
            self._remove_snapshots([one for one in {*snapshots, *self._snapshots} if one > end])
            self.data_dir.fs.sync_dir(self.directory)
            self.size_bytes -= active.file.size - position
            active.truncate(position, offset)
            active.file.sync()
            self.producers = loader.rebuild_producers(
                self.data_dir.fs, self.directory, self._segments.segments, self.start_offset, end, self._snapshots
            )
        except OSError as error:
            raise self.data_dir.failed(
                error, f"could not truncate {self.name} to offset {offset}", fatal=True
            ) from error
        self._active = active
        self._unsealed = [one for one in self._unsealed if one is not active]
        self._set_end_offset(end)
        self.epochs.truncate_end(end)
        self.latest_epoch = self.epochs.latest
        self._arm_roll(active)
        self.truncations += 1  # even again: the truncation is complete

    def _set_end_offset(self, end: int) -> None:
        self.end_offset = end
        self.flushed_offset = min(self.flushed_offset, end)
        self._held = end - self.flushed_offset >= self._flush_messages
        self.flush_barrier = max(min(self.flush_barrier, end), self.flushed_offset) if self._held else end
        if self._job is not None:
            # The job does sync the bytes below `end`, but not the bytes that will be appended from `end` on.
            self._job.target = min(self._job.target, end)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Delete everything and start again at `offset`, as a follower whose log does not overlap the leader's."""
        self._active or self._open()
        self._begin_truncation(min(offset, self.flushed_offset))
        try:
            self._drop(self._segments.segments[::-1])
            self._remove_snapshots(loader.list_snapshots(self.data_dir.fs, self.directory))
            fresh = Segment.create(self.data_dir.fs, self.directory, offset, self.data_dir.index_cache, now_ms)
            self.data_dir.fs.sync_dir(self.directory)
        except OSError as error:
            raise self.data_dir.failed(error, f"could not restart {self.name} at {offset}", fatal=True) from error
        self._snapshots.clear()
        self.epochs.clear()
        self.latest_epoch = NO_EPOCH
        self.producers = ProducerStates(offset)
        self.start_offset = offset
        self._set_segments([fresh])
        self._set_end_offset(offset)
        self.flushed_offset = self.flush_barrier = offset
        self._held = False
        self.truncations += 1  # even again: the truncation is complete

    def delete_before(self, offset: int) -> None:
        """Raise the log start offset, for DeleteRecords or after the leader's; readers see nothing before it."""
        self._active or self._open()
        if offset > self.end_offset:
            raise OffsetNotInLog(f"offset {offset} is past the end of {self.name}, {self.end_offset}")
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.epochs.truncate_start(offset)
        segments = self._segments
        self._drop(segments.segments[: segments.holding(offset)])

    def segments_to_delete(self, now_ms: int, high_watermark: int) -> list[Segment]:
        """The segments that retention allows to delete, oldest first; changes nothing. May read time indexes."""
        return self._look_up(
            lambda: retention.expired(
                self._segments.segments, self._config, now_ms, self.start_offset, self.end_offset, high_watermark
            )
        )

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Apply retention; return the number of deleted segments. If all expired, a new segment is rolled first."""
        expired = self.segments_to_delete(now_ms, high_watermark)
        if not expired:
            return 0
        if expired[-1] is self._active:
            self.roll(now_ms)
        begin = self._segments.segments[len(expired)].base_offset
        logger.info(
            "retention removes segments",
            extra={"partition": str(self.name), "segments": len(expired), "start_offset": begin},
        )
        self._drop(expired)
        if begin > self.start_offset:
            self.start_offset = begin
            self.epochs.truncate_start(begin)
        return len(expired)

    # -- closing ---------------------------------------------------------------------------------------------------

    def close(self, now_ms: int, *, sync: bool = True) -> LogState:
        """Write everything that a start after a clean shutdown needs; return the log's entry for the state file.

        Without `sync` the caller syncs the files, together with those of other logs. StorageError if the disk fails.
        """
        if self._cold is not None:
            self.closed = True
            return self._cold._replace(topic_id=self.topic_id)
        active = self._active or self._open()
        if self._job is not None:
            raise RuntimeError(f"{self.name} is closed while a flush is under way")
        if self._untouched() and self._origin is not None:
            self.closed, self._active = True, None
            return self._origin
        job = self.flush_job()
        if job is not None:
            job.run(sync=sync)
            self.flush_done(job, now_ms)
        try:
            self._write_last_files(active, sync)
        except OSError as error:
            raise self.data_dir.failed(error, f"could not close {self.name}") from error
        state = self._state(active)
        self.close_files()
        self.closed, self._active = True, None
        return state

    @property
    def untouched(self) -> bool:
        """Whether everything is still as the last clean shutdown left it."""
        return self._cold is not None or self._untouched()

    def discard(self) -> None:
        """Close the log without saving anything, because it is being deleted."""
        self.closed, self._active, self._cold = True, None, None
        self.close_files()

    def close_files(self) -> None:
        """Release file descriptors and cached indexes; both are reopened on demand."""
        for segment in self._segments.segments:
            segment.file.close()
            self.data_dir.index_cache.drop(segment)

    @property
    def first_base_offset(self) -> int:
        """The base offset of the first segment. A log start offset that is not above it needs no checkpoint entry."""
        if self._cold is not None:
            return self._cold.segments[0].base_offset
        return self._segments.bases[0] if self._segments.bases else 0

    def _untouched(self) -> bool:
        origin = self._origin
        return (
            origin is not None
            and not self.appended_bytes
            and not self.truncations
            and not self.epochs.dirty
            and self.start_offset == origin.start_offset
            and self._segments.bases == [segment.base_offset for segment in origin.segments]
        )

    def _write_last_files(self, active: Segment, sync: bool) -> None:
        end = self.end_offset
        if end == 0:
            return  # nothing was ever appended: the empty files are correct
        whole = active.whole_index()
        files = index_files(active, whole)
        files[join(self.directory, file_names.segment_file(end, file_names.SNAPSHOT))] = self.producers.encode()
        self.data_dir.fs.write_all(files, sync=sync)
        active.index_written(whole)
        stray = self._stray_snapshot
        if stray is not None and stray != end and stray not in self._segments.bases:
            self._remove_snapshots([stray])

    def _state(self, active: Segment) -> LogState:
        segments = self._segments.segments
        return LogState(
            self.name,
            self.topic_id,
            self.start_offset,
            self.end_offset,
            self.last_stable_offset,
            len(self.producers.producers),
            active.first_timestamp,
            [lazy_open.segment_state(one) for one in segments],
            self.epochs.entries(),
            [(one.base_offset, first, last) for one in segments for first, last in one.damaged],
        )
