"""Moving a log to another data directory while it is written and read.

The log is copied to `TOPIC-PARTITION.HEX-future` until the copy has all its records, durable as far as in the log. Then
the copy replaces the log:

    1  The copy has contained a file `moved` from the start. It marks the copy as the newer of the two.
    2  The copy's directory gets the partition's name. From here on appends go to it (one turn of the event loop).
    3  The new name is synced. Then the old directory is marked for deletion, and `moved` is removed.

If a start finds the partition twice, it keeps the log with `moved` in it (`LogDirs`). If it finds only a future, it
deletes that, and the move has to be requested again.
"""

from __future__ import annotations

from posixpath import join

from moldau.host.fault_points import FaultPoint
from moldau.log import file_names
from moldau.log.directory import LogDirectory
from moldau.log.epochs import LeaderEpochs
from moldau.log.errors import StorageError
from moldau.log.log import Log
from moldau.log.log_dir import DataDirectory
from moldau.records import peek_header

COPY_BYTES = 1 << 20
"""Bytes per read and write."""

TAIL_BYTES = 1 << 20
"""Limit for the rest that the event loop copies at once."""

future_marked = FaultPoint("move.future-marked")
in_place_twice = FaultPoint("move.in-place-twice")
old_away = FaultPoint("move.old-away")


class Move:
    """One move. `begin`, `copy` and `abandon` run in a thread, the other methods on the event loop."""

    def __init__(self, source: Log, target: DataDirectory, unique: str) -> None:
        self.source = source
        self.target = target
        self._room = join(target.path, file_names.marked_directory(source.name, unique, "future"))
        self._future: Log | None = None
        self._copied_bytes = 0
        """The log's appended bytes when the last copy run started."""
        self._checkpoints: dict[str, bytes] = {}

    @property
    def size_bytes(self) -> int:
        return 0 if self._future is None else self._future.size_bytes

    @property
    def lag(self) -> int:
        """The number of offsets that the copy is behind."""
        end = self.source.start_offset if self._future is None else self._future.end_offset
        return max(0, self.source.end_offset - end)

    # -- copying ---------------------------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """Create the copy. LogError or OSError if the disk fails."""
        source, target = self.source, self.target
        target.fs.remove(join(source.directory, file_names.MOVED), missing_ok=True)
        data_dir = LogDirectory(self._room, target.fs, index_cache=target.index_cache, randomness=target.randomness)
        future = Log.create(source.name, source.topic_id, data_dir, source.config, now_ms)
        first = self._read(source.start_offset)
        begin = peek_header(first).base_offset if first else source.end_offset
        if begin:
            future.restart_at(begin, now_ms)
        target.fs.write_atomically(join(future.directory, file_names.MOVED), source.directory.encode())
        self._future = future
        future_marked()

    def copy(self, now_ms: int) -> None:
        """Copy everything that is in the log now, and make it durable."""
        future = self._copy_of()
        self._copied_bytes = self.source.appended_bytes
        while self._append_some(future, now_ms):
            pass
        job = future.flush_job()
        if job is not None:
            job.run()
            future.flush_done(job, now_ms)

    def _append_some(self, future: Log, now_ms: int) -> int:
        """Append one chunk to the copy; return its number of bytes."""
        if future.end_offset >= self.source.end_offset:
            return 0
        data = self._read(max(future.end_offset, self.source.start_offset))
        return future.append_stamped(data, now_ms) if data else 0

    def _read(self, offset: int) -> memoryview:
        data = self.source.read(offset, COPY_BYTES, self.source.end_offset)
        assert data is not None  # None is for `cached_only` reads
        return data

    def _copy_of(self) -> Log:
        assert self._future is not None, "the move has not begun"
        return self._future

    # -- replacing the log -----------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether little is left to copy, and the copy is durable as far as the log is."""
        future, source = self._copy_of(), self.source
        return (
            source.appended_bytes - self._copied_bytes <= TAIL_BYTES
            and future.flushed_offset >= source.flushed_offset
            and not source.closed
        )

    def take_place(self, now_ms: int) -> Log:
        """Step 2: complete the copy and make it the partition's log. LogError if that fails."""
        future, source, target = self._copy_of(), self.source, self.target
        while self._append_some(future, now_ms):
            pass
        if future.end_offset != source.end_offset:
            raise StorageError(
                f"the copy of {source.name} ends at {future.end_offset}, not at {source.end_offset}", fatal=False
            )
        future.delete_before(source.start_offset)
        place = join(target.path, str(source.name))
        try:
            target.fs.rename(future.directory, place)
        except OSError as error:
            raise target.failed(error, f"could not move {source.name} to {place}") from error
        future.moved_to_directory(place, target)
        future.producers = source.producers
        future.epochs = LeaderEpochs.of(source.epochs.entries())
        future.epochs.dirty = True
        future.latest_epoch = source.latest_epoch
        future.config = source.config
        target.hosted_logs[source.name] = future
        self._checkpoints = target.checkpoint_contents(None)
        in_place_twice()
        return future

    def sync(self) -> None:
        """In a thread: make the new name and the log start offset durable before the old directory is deleted."""
        self.target.fs.sync_dir(self._room)
        self.target.fs.sync_dir(self.target.path)
        self.target.write_checkpoints(self._checkpoints)

    def clear_up(self) -> None:
        """In a thread: remove the file `moved`, after the old directory was marked for deletion."""
        old_away()
        fs = self.target.fs
        fs.sync_dir(self.source.data_dir.path)
        fs.remove(join(self.target.path, str(self.source.name), file_names.MOVED), missing_ok=True)
        fs.remove_tree(self._room)

    def abandon(self) -> None:
        """Give up the move and delete the copy."""
        future, self._future = self._future, None
        if future is not None:
            future.discard()
        self.target.fs.remove_tree(self._room)


def moved_here(log: Log) -> bool:
    """Whether an unfinished move makes this log the newer of two copies."""
    return log.data_dir.fs.exists(join(log.directory, file_names.MOVED))
