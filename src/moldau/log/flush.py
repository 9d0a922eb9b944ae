"""Making a log's bytes durable, in a thread.

A job is made on the loop, run in a thread, and taken back on the loop. It syncs the segments that hold unsynced bytes,
and writes what belongs to segments that are complete: their indexes, and the producers' state at their end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from posixpath import join

from moldau.host.fs import FileSystem
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
    unsynced: list[Segment] = field(default_factory=list)
    sealing: list[Segment] = field(default_factory=list)
    snapshots: dict[int, bytes] = field(default_factory=dict)
    epochs: bytes | None = None
    metadata: bytes | None = None
    directories: list[str] = field(default_factory=list)
    sealed: list[tuple[Segment, SegmentIndex]] = field(default_factory=list)
    error: OSError | None = None
    sync_failed: bool = False

    def run(self, *, sync: bool = True) -> None:
        """In a thread. Without `sync` all is written, and somebody else brings it to disk.

        The bytes of the log come first: a snapshot at an offset on disk is the proof, for recovery, that all below
        that offset was on disk before it.
        """
        try:
            if sync:
                self._sync()
        except OSError as error:
            self.error = error
            self.sync_failed = True
            return
        try:
            self._write_derived(sync=sync)
        except OSError as error:
            self.error = error

    def _sync(self) -> None:
        for segment in self.unsynced:
            try:
                segment.file.sync()
            except FileNotFoundError:
                if not segment.dropped:  # else retention was faster
                    raise
        for directory in self.directories:
            self.fs.sync_dir(directory)

    def _write_derived(self, *, sync: bool) -> None:
        """What recovery makes anew above the recovery point, and nobody below it. Snapshots come last: they prove
        that the indexes are there too."""
        files: dict[str, bytes] = {}
        for segment in self.sealing:
            if segment.dropped:
                continue
            whole = segment.whole_index()
            files.update(index_files(segment, whole))
            self.sealed.append((segment, whole))
        if self.epochs is not None:
            files[join(self.directory, names.EPOCHS)] = self.epochs
        if self.metadata is not None:
            files[join(self.directory, names.PARTITION_METADATA)] = self.metadata
        for offset, snapshot in self.snapshots.items():
            files[join(self.directory, names.segment_file(offset, names.SNAPSHOT))] = snapshot
        self.fs.write_all(files, sync=sync)


def index_files(segment: Segment, whole: SegmentIndex) -> dict[str, bytes]:
    """The content of the segment's index files as they must be when it is complete, by path."""
    files = {
        segment.path(names.INDEX): whole.encode_offsets(),
        segment.path(names.TIME_INDEX): whole.encode_times(),
    }
    if segment.aborted_dirty:
        # Where none is left the file is written all the same, empty: it may be there with what is not true any more.
        files[segment.path(names.TXN_INDEX)] = segment.encode_aborted()
        segment.aborted_dirty = False
    return files
