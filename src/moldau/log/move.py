"""A log moves to another data directory while it is written to and read.

A copy grows in `TOPIC-PARTITION.HEX-future` until it has all that the log has, on disk as far as the log itself is.
Then it takes the log's place:

    1  the copy has held a file `moved` from the start, which says that it is the later of two
    2  its directory gets the partition's name: from here on appends go to it (one turn of the loop)
    3  that name is synced; then the old directory is marked for deletion, and `moved` goes

A start that finds the partition twice keeps the one with `moved` in it (`LogDirs`); one that finds only a future throws
it away, and the move has to be asked for again.
"""

from __future__ import annotations

import logging
from posixpath import join

from moldau.host.fault_points import FaultPoint
from moldau.log import names
from moldau.log.epochs import LeaderEpochs
from moldau.log.errors import StorageError
from moldau.log.home import Home
from moldau.log.log import Log
from moldau.log.log_dir import LogDir
from moldau.records import peek_header

logger = logging.getLogger(__name__)

COPY_BYTES = 1 << 20
"""Read and written at a time."""

TAIL_BYTES = 1 << 20
"""What may be left for the loop to copy, in one go."""

future_marked = FaultPoint("move.future-marked")
in_place_twice = FaultPoint("move.in-place-twice")
old_away = FaultPoint("move.old-away")


class Move:
    """One log on its way. `begin`, `copy` and `abandon` are for a thread, the rest for the loop."""

    def __init__(self, source: Log, target: LogDir, unique: str) -> None:
        self.source = source
        self.target = target
        self._room = join(target.path, names.marked_directory(source.name, unique, "future"))
        self._future: Log | None = None
        self._copied_bytes = 0
        """What had been appended to the log when the last copying began."""
        self._checkpoints: dict[str, bytes] = {}

    @property
    def size_bytes(self) -> int:
        return 0 if self._future is None else self._future.size_bytes

    @property
    def lag(self) -> int:
        """How many offsets the copy is behind."""
        end = self.source.start_offset if self._future is None else self._future.end_offset
        return max(0, self.source.end_offset - end)

    # -- copying ---------------------------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """Makes room for the copy. LogError or OSError where the disk does not let us."""
        source, target = self.source, self.target
        target.fs.remove(join(source.directory, names.MOVED), missing_ok=True)
        home = Home(self._room, target.fs, index_cache=target.index_cache, randomness=target.randomness)
        future = Log.create(source.name, source.topic_id, home, source.config, now_ms)
        first = self._read(source.start_offset)
        begin = peek_header(first).base_offset if first else source.end_offset
        if begin:
            future.restart_at(begin, now_ms)
        target.fs.write_atomically(join(future.directory, names.MOVED), source.directory.encode())
        self._future = future
        future_marked()

    def copy(self, now_ms: int) -> None:
        """Copies all that is there, and brings it to disk."""
        future = self._copy_of()
        self._copied_bytes = self.source.appended_bytes
        while self._append_some(future, now_ms):
            pass
        job = future.flush_job()
        if job is not None:
            job.run()
            future.flush_done(job, now_ms)

    def _append_some(self, future: Log, now_ms: int) -> int:
        """How many bytes came."""
        if future.end_offset >= self.source.end_offset:
            return 0
        data = self._read(max(future.end_offset, self.source.start_offset))
        return future.append_stamped(data, now_ms) if data else 0

    def _read(self, offset: int) -> memoryview:
        data = self.source.read(offset, COPY_BYTES, self.source.end_offset)
        assert data is not None  # it may ask the disk
        return data

    def _copy_of(self) -> Log:
        assert self._future is not None, "the move has not begun"
        return self._future

    # -- the exchange ----------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Whether what is left is little, and the copy is on disk as far as the log is."""
        future, source = self._copy_of(), self.source
        return (
            source.appended_bytes - self._copied_bytes <= TAIL_BYTES
            and future.flushed_offset >= source.flushed_offset
            and not source.closed
        )

    def take_place(self, now_ms: int) -> Log:
        """Step 2: the copy is complete, and is the log from now on. LogError where it cannot be."""
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
        future.settle_in(place, target)
        future.producers = source.producers
        future.epochs = LeaderEpochs.of(source.epochs.entries())
        future.epochs.dirty = True
        future.latest_epoch = source.latest_epoch
        future.config = source.config
        target.residents[source.name] = future
        self._checkpoints = target.checkpoint_contents(None)
        in_place_twice()
        return future

    def sync(self) -> None:
        """In a thread: the new name is on disk, and where the log starts, before the old one goes."""
        self.target.fs.sync_dir(self._room)
        self.target.fs.sync_dir(self.target.path)
        self.target.write_checkpoints(self._checkpoints)

    def clear_up(self) -> None:
        """In a thread, after the old directory was marked for deletion: nobody needs the mark any more."""
        old_away()
        fs = self.target.fs
        fs.sync_dir(self.source.home.path)
        fs.remove(join(self.target.path, str(self.source.name), names.MOVED), missing_ok=True)
        fs.remove_tree(self._room)

    def abandon(self) -> None:
        """The move is off: nothing is left of it."""
        future, self._future = self._future, None
        if future is not None:
            future.discard()
        self.target.fs.remove_tree(self._room)


def moved_here(log: Log) -> bool:
    """Whether a move that was not finished makes this log the later of two."""
    return log.home.fs.exists(join(log.directory, names.MOVED))
