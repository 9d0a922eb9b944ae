"""One partition's log.

Appends are synchronous and belong to the loop that owns the log; reads may run in threads beside it; flushes are jobs
that the log hands out (`flush_job`), that a thread runs, and that the log takes back (`flush_done`).

A log that a clean stop left behind opens no file until it is used: it is `cold`, a few numbers from the state file.

What it is not: it does not know the high watermark, who leads, or who may write. It promises that what it
acknowledges stands in its file in order, and that nothing else does.
"""

from __future__ import annotations

import logging
from posixpath import join
from typing import NamedTuple

from moldau.log import cold, loader, names, retention
from moldau.log.aborted import AbortedTxn
from moldau.log.checkpoints import LogState
from moldau.log.config import LogConfig
from moldau.log.epochs import LeaderEpochs
from moldau.log.errors import LogError, OffsetOutOfRange, StorageError
from moldau.log.flush import index_files
from moldau.log.home import Home
from moldau.log.local_log import LocalLog, Segments
from moldau.log.producer_state import ProducerBatch, ProducerStates, last_sequence_of
from moldau.log.recall import find_earlier
from moldau.log.segment import Segment
from moldau.log.validate import check_single, check_size, check_timestamps, normalise, refuse, stamped_headers
from moldau.records import BatchError, BatchHeader, BatchInfo, check_batch, parse_marker, stamp

logger = logging.getLogger(__name__)

_TRANSACTIONAL = 0x10
_LOG_APPEND_TIME = 0x08
_CONTROL = 0x20
_NO_TIME = -1


class AppendResult(NamedTuple):
    """Where a batch went."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 where the producer's timestamps stand."""
    duplicate: bool
    """It was there already: a retry of what these offsets hold."""


class Log(LocalLog):
    """The log of one partition."""

    __slots__ = ("_cold", "_origin", "_stray_snapshot", "latest_epoch")

    def __init__(
        self, name: names.PartitionName, topic_id: bytes, directory: str, home: Home, config: LogConfig
    ) -> None:
        """Made by `create`, `load` or `from_state`, not directly."""
        super().__init__(name, topic_id, directory, home, config)
        self.latest_epoch = -1
        self._cold: LogState | None = None
        self._origin: LogState | None = None
        """What the last clean stop left; still true while nothing was changed."""
        self._stray_snapshot: int | None = None
        """The snapshot of the last clean stop, which belongs to no segment."""
        home.residents[name] = self

    # -- coming to be ----------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, name: names.PartitionName, topic_id: bytes, home: Home, config: LogConfig, now_ms: int) -> Log:
        """A new, empty log in its own directory; StorageError where the disk does not let us."""
        home.check()
        directory = join(home.path, str(name))
        try:
            home.fs.mkdir(directory)
            home.fs.write_atomically(
                join(directory, names.PARTITION_METADATA), names.encode_partition_metadata(topic_id), sync=False
            )
            segment = Segment.create(home.fs, directory, 0, home.index_cache, now_ms)
        except OSError as error:
            raise home.failed(error, f"could not create {directory}") from error
        log = cls(name, topic_id, directory, home, config)
        log._take([segment])
        log._last_flush_ms = now_ms
        log._directory_dirty = log._parent_dirty = True
        return log

    @classmethod
    def load(
        cls,
        name: names.PartitionName,
        home: Home,
        config: LogConfig,
        now_ms: int,
        *,
        clean: bool,
        recovery_point: int = 0,
        start_offset: int = 0,
    ) -> Log:
        """What stands in the directory, recovered where the last stop was not clean. Reads the disk."""
        log = cls(name, names.NO_TOPIC_ID, join(home.path, str(name)), home, config)
        log._load(now_ms, clean=clean, recovery_point=recovery_point, start_offset=start_offset)
        return log

    @classmethod
    def from_state(cls, state: LogState, home: Home, config: LogConfig) -> Log:
        """What a clean stop left, without asking the disk: it is cold until it is used."""
        log = cls(state.name, state.topic_id, join(home.path, str(state.name)), home, config)
        log._cold = log._origin = state
        log.start_offset = state.start_offset
        log.end_offset = log.flushed_offset = log.flush_barrier = state.end_offset
        log.size_bytes = sum(segment.size for segment in state.segments)
        log.epochs = LeaderEpochs.of(state.epochs)
        log.latest_epoch = log.epochs.latest
        return log

    def adopt_topic_id(self, topic_id: bytes) -> None:
        """Gives the id to a log whose directory names none."""
        path = join(self.directory, names.PARTITION_METADATA)
        try:
            self.home.fs.write_atomically(path, names.encode_partition_metadata(topic_id))
        except OSError as error:
            raise self.home.failed(error, f"could not write {path}") from error
        self.topic_id = topic_id
        self._origin = None

    def _load(self, now_ms: int, *, clean: bool, recovery_point: int, start_offset: int) -> None:
        loaded = loader.load(
            self.directory,
            self.home,
            self._config,
            now_ms,
            clean=clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
        )
        self.topic_id = loaded.topic_id
        self.start_offset = loaded.start_offset
        self.flushed_offset = loaded.recovery_point
        self._ended_at(loaded.end_offset)
        self.epochs = loaded.epochs
        self.latest_epoch = loaded.epochs.latest
        self.producers = loaded.producers
        self._stray_snapshot = loaded.stray_snapshot
        self._last_flush_ms = now_ms
        self._cold = self._origin = None
        # The page cache shows names that need not have reached the disk before the crash.
        self._directory_dirty = self._parent_dirty = not clean
        self._take(loaded.segments)
        self._unsealed = loaded.unsealed

    def _take(self, segments: list[Segment]) -> None:
        self._segments = Segments(segments)
        self.size_bytes = sum(segment.file.size for segment in segments)
        self._active = segments[-1]
        self._arm_roll(segments[-1])

    def _open(self) -> Segment:
        self.home.check()
        if self.closed:
            raise StorageError(f"{self.name} is closed", fatal=False)
        with self.home.opening:
            if self._active is None and self._cold is not None:
                self._warm(self._cold)
        if self._active is None:
            raise StorageError(f"{self.name} is closed", fatal=False)
        return self._active

    def _warm(self, state: LogState) -> None:
        """Opens what a clean stop left, if it still looks as it was left."""
        home = self.home
        try:
            segments, self.producers = cold.reopen(state, self.directory, home)
        except (OSError, ValueError) as error:
            logger.warning("%s is not as the last clean stop left it (%s); it is read anew", self.directory, error)
            try:
                self._load(0, clean=False, recovery_point=0, start_offset=state.start_offset)
            except OSError as worse:
                raise home.failed(worse, f"could not open {self.name}") from worse
            return
        self._cold = None
        self._stray_snapshot = state.end_offset
        self._take(segments)

    # -- appending -------------------------------------------------------------------------------------------------

    def append(self, data: memoryview, leader_epoch: int, now_ms: int, *, coordinator: bool = False) -> AppendResult:
        """Appends one batch as its leader, or raises LogError and has changed nothing.

        `data` must be writable: offset and epoch are stamped in place. With `coordinator` the batch is the broker's
        own and may be a control batch.
        """
        active = self._active
        if active is None:
            active = self._open()
        if len(data) > self._max_batch:
            check_size(len(data), self._config, str(self.name))
        try:
            info = check_batch(data, 0, require_keys=self._require_keys, allow_control=coordinator)
        except BatchError as error:
            refuse(error, str(self.name))
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
            or attributes & _LOG_APPEND_TIME
        ):
            data, latest = self._adjust(data, info, now_ms)
            size = len(data)
        first = self.end_offset
        last = first + last_delta
        last_sequence, transactional = -1, attributes & _TRANSACTIONAL != 0
        if producer_id >= 0 and not attributes & _CONTROL:
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
        elif attributes & _CONTROL:
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
            raise self.home.failed(error, f"could not append to {active.file.path}") from error
        if position == 0:
            self._arm_roll(active)
        if leader_epoch != self.latest_epoch:
            self.assign_epoch(leader_epoch, first)
        if producer_id >= 0:
            if attributes & _CONTROL:
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

    def _find_earlier(self, *sent: int) -> ProducerBatch | None:
        return self._look_up(lambda: find_earlier(self.producers, self._segments.segments, *sent))

    def _apply_marker(self, data: memoryview, producer_id: int, producer_epoch: int) -> None:
        aborted = self.producers.applied_marker(producer_id, producer_epoch, parse_marker(data))
        if aborted is not None and self._active is not None:
            self._active.add_aborted(aborted)

    def append_stamped(self, data: memoryview, now_ms: int) -> int:
        """Appends batches that have their offsets already (from a leader, or adopted); returns how many bytes.

        Batches are checked for damage and order, not judged: they were accepted once. A batch that is cut off at the
        end of `data` is left out. What goes into one segment is written at once.
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
            if position == 0 or len(run) >= active.room:  # each of them may have an entry in the index
                self._append_run(active, data[written:at], run)
                written, run = at, []
                if position == 0:
                    self._arm_roll(active)  # by the age of its first batch
            position += header.size
        self._append_run(active, data[written:at], run)
        return at

    def _append_run(self, active: Segment, data: memoryview, run: list[BatchHeader]) -> None:
        if not run:
            return
        try:
            active.append_run(data, run, self._index_interval)
        except OSError as error:
            raise self.home.failed(error, f"could not append to {active.file.path}") from error
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

    def assign_epoch(self, leader_epoch: int, offset: int | None = None) -> None:
        """This epoch's leader begins to write at `offset`, or at the end."""
        if leader_epoch >= 0:
            self.epochs.assign(leader_epoch, self.end_offset if offset is None else offset)
            self.latest_epoch = self.epochs.latest

    # -- epochs and transactions -----------------------------------------------------------------------------------

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Kafka's OffsetForLeaderEpoch: the largest epoch not above the asked one, and where it ends."""
        return self.epochs.end_offset(epoch, self.end_offset)

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided, as far as this log knows."""
        return self.stable_offset(self.end_offset)

    def stable_offset(self, high_watermark: int) -> int:
        """How far a `read_committed` consumer may read, given the high watermark."""
        if self._cold is not None:
            return min(self._cold.last_stable_offset, high_watermark)
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that touch the offsets from `first_offset` up to `end_offset`. May read the disk."""
        return self._look_up(lambda: self._find_aborted(first_offset, end_offset))

    def _find_aborted(self, first_offset: int, end_offset: int) -> list[AbortedTxn]:
        found: list[AbortedTxn] = []
        for segment in self._segments.from_offset(first_offset):
            for one in segment.aborted():
                if one.last_offset >= first_offset and one.first_offset < end_offset:
                    found.append(one)
                if one.last_stable_offset >= end_offset:
                    return found
        return found

    # -- cutting ---------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Cuts off everything from `offset` on, and the batch that it lies in: as a follower does.

        Durable at return. It asks the disk, and is rare.
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
            self._forget_after(end)
            # The last first, and durably: a crash must never find a later segment where an earlier one is gone, nor
            # old bytes behind those that are written after the cut.
            self._drop(segments[: segments.index(active) : -1])
            snapshots = loader.list_snapshots(self.home.fs, self.directory)
            self._remove_snapshots([one for one in {*snapshots, *self._snapshots} if one > end])
            self.home.fs.sync_dir(self.directory)
            self.size_bytes -= active.file.size - position
            active.truncate(position, offset)
            active.file.sync()
            self.producers = loader.rebuild_producers(
                self.home.fs, self.directory, self._segments.segments, self.start_offset, end, self._snapshots
            )
        except OSError as error:
            raise self.home.failed(error, f"could not cut {self.name} at offset {offset}", fatal=True) from error
        self._active = active
        self._unsealed = [one for one in self._unsealed if one is not active]
        self._ended_at(end)
        self.epochs.truncate_end(end)
        self.latest_epoch = self.epochs.latest
        self._arm_roll(active)
        self.truncations += 1  # done

    def _ended_at(self, end: int) -> None:
        self.end_offset = end
        self.flushed_offset = min(self.flushed_offset, end)
        self._held = end - self.flushed_offset >= self._flush_messages
        self.flush_barrier = max(min(self.flush_barrier, end), self.flushed_offset) if self._held else end
        if self._job is not None:
            # What the job syncs below the cut is good; what will be written above it, it has not seen.
            self._job.target = min(self._job.target, end)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Throws everything away and begins anew at `offset`: as a follower does whose leader begins elsewhere."""
        self._active or self._open()
        self._forget_after(min(offset, self.flushed_offset))
        try:
            self._drop(self._segments.segments[::-1])
            self._remove_snapshots(loader.list_snapshots(self.home.fs, self.directory))
            fresh = Segment.create(self.home.fs, self.directory, offset, self.home.index_cache, now_ms)
            self.home.fs.sync_dir(self.directory)
        except OSError as error:
            raise self.home.failed(error, f"could not restart {self.name} at {offset}", fatal=True) from error
        self._snapshots.clear()
        self.epochs.clear()
        self.latest_epoch = -1
        self.producers = ProducerStates(offset)
        self.start_offset = offset
        self._take([fresh])
        self._ended_at(offset)
        self.flushed_offset = self.flush_barrier = offset
        self._held = False
        self.truncations += 1  # done

    def delete_before(self, offset: int) -> None:
        """Raises the start of the log (DeleteRecords, or a leader's start): what is before it is gone for readers."""
        self._active or self._open()
        if offset > self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is past the end of {self.name}, {self.end_offset}")
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self.epochs.truncate_start(offset)
        segments = self._segments
        self._drop(segments.segments[: segments.holding(offset)])

    def segments_to_delete(self, now_ms: int, high_watermark: int) -> list[Segment]:
        """The segments whose time or room is over, oldest first; changes nothing. May read time indexes."""
        return self._look_up(
            lambda: retention.expired(
                self._segments.segments, self._config, now_ms, self.start_offset, self.end_offset, high_watermark
            )
        )

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Applies retention; returns how many segments went. Where all are over, a fresh one takes their place."""
        expired = self.segments_to_delete(now_ms, high_watermark)
        if not expired:
            return 0
        if expired[-1] is self._active:
            self.roll(now_ms)
        begin = self._segments.segments[len(expired)].base_offset
        logger.info("%s: retention removes %d segments, up to offset %d", self.name, len(expired), begin)
        self._drop(expired)
        if begin > self.start_offset:
            self.start_offset = begin
            self.epochs.truncate_start(begin)
        return len(expired)

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self, now_ms: int, *, sync: bool = True) -> LogState:
        """Leaves everything on disk as a clean start wants it; returns what the state file keeps.

        Without `sync` the caller brings it to disk, with that of other logs. StorageError where it fails.
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
            raise self.home.failed(error, f"could not close {self.name}") from error
        state = self._state(active)
        self.close_files()
        self.closed, self._active = True, None
        return state

    @property
    def untouched(self) -> bool:
        """Whether everything is still as the last clean stop left it."""
        return self._cold is not None or self._untouched()

    def discard(self) -> None:
        """The log is being deleted: it takes part in nothing any more."""
        self.closed, self._active, self._cold = True, None, None
        self.close_files()

    def close_files(self) -> None:
        """Gives back descriptors and cached indexes; both come again when they are needed."""
        for segment in self._segments.segments:
            segment.file.close()
            self.home.index_cache.drop(segment)

    @property
    def first_base_offset(self) -> int:
        """Where the first segment begins: a start offset that is no later need not be remembered."""
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
            return  # nothing was ever written: the empty files are right
        whole = active.whole_index()
        files = index_files(active, whole)
        files[join(self.directory, names.segment_file(end, names.SNAPSHOT))] = self.producers.encode()
        self.home.fs.write_all(files, sync=sync)
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
            [cold.segment_state(one) for one in segments],
            self.epochs.entries(),
            [(one.base_offset, first, last) for one in segments for first, last in one.damaged],
        )
