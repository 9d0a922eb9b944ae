"""Making a log's bytes durable, in a thread.

A job is made on the loop, run in a thread, and taken back on the loop. It syncs the segments that hold unsynced bytes,
and writes what belongs to segments that are complete: their indexes, and the producers' state at their end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from posixpath import join

from moldau.host.fs import File, FileSystem
from moldau.log import names
from moldau.log.index import SegmentIndex
from moldau.log.segment import Segment


@dataclass(slots=True)
class FlushJob:
    """All below `target` will be on disk. `run` does not raise: what went wrong is in `error` for `flush_done`."""

    fs: FileSystem
    directory: str
    target: int
    truncations: int
    """The log's count when the job was made: a log that was cut since does not want the indexes back."""
    files: list[File] = field(default_factory=list)
    sealing: list[Segment] = field(default_factory=list)
    snapshots: dict[int, bytes] = field(default_factory=dict)
    epochs: bytes | None = None
    directories: list[str] = field(default_factory=list)
    sealed: list[tuple[Segment, SegmentIndex]] = field(default_factory=list)
    error: OSError | None = None
    sync_failed: bool = False

    def run(self) -> None:
        """In a thread. Derived files first: when the recovery point has passed a segment nobody makes them again."""
        try:
            for segment in self.sealing:
                self.sealed.append((segment, write_indexes(self.fs, segment, sync=True)))
            for offset, snapshot in self.snapshots.items():
                path = join(self.directory, names.segment_file(offset, names.SNAPSHOT))
                self.fs.write_atomically(path, snapshot, sync=True)
            if self.epochs is not None:
                self.fs.write_atomically(join(self.directory, names.EPOCHS), self.epochs, sync=True)
        except OSError as error:
            self.error = error
            return
        try:
            for file in self.files:
                file.sync()
            for directory in self.directories:
                self.fs.sync_dir(directory)
        except OSError as error:
            self.error = error
            self.sync_failed = True


def write_indexes(fs: FileSystem, segment: Segment, *, sync: bool) -> SegmentIndex:
    """Writes the segment's index files as they must be when it is complete; returns what they hold."""
    whole = segment.whole_index()
    fs.write_atomically(segment.path(names.INDEX), whole.encode_offsets(), sync=sync)
    fs.write_atomically(segment.path(names.TIME_INDEX), whole.encode_times(), sync=sync)
    if segment.aborted_dirty:
        if segment.aborted():
            fs.write_atomically(segment.path(names.TXN_INDEX), segment.encode_aborted(), sync=sync)
        else:
            fs.remove(segment.path(names.TXN_INDEX), missing_ok=True)
        segment.aborted_dirty = False
    return whole
