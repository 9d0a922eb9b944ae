"""Flush jobs: make a log's appended batches durable, in a thread.

The event loop creates a job, a thread runs it, and the event loop takes its result. A job syncs the segments that hold
unsynced bytes. For completed segments it also writes the indexes and the producer snapshot at their end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from posixpath import join

from moldau.host.fs import FileSystem
from moldau.log import file_names
from moldau.log.index import SegmentIndex
from moldau.log.segment import Segment


@dataclass(slots=True)
class FlushJob:
    """Makes everything below `target` durable. `run` does not raise: `flush_done` looks at `error`."""

    fs: FileSystem
    directory: str
    target: int
    truncations: int
    """The log's counter when the job was created: after a truncation the log ignores the job's indexes."""
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
        """Run the job in a thread. Without `sync` everything is written, and the caller syncs it.

        The log's bytes are synced first: for recovery, a snapshot on disk proves that everything below its offset was
        synced before.
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
                if not segment.dropped:  # otherwise retention has deleted it meanwhile
                    raise
        for directory in self.directories:
            self.fs.sync_dir(directory)

    def _write_derived(self, *, sync: bool) -> None:
        """Write the files that recovery rebuilds above the recovery point only.

        Snapshots come last: they prove that the indexes are written too.
        """
        files: dict[str, bytes] = {}
        for segment in self.sealing:
            if segment.dropped:
                continue
            whole = segment.whole_index()
            files.update(index_files(segment, whole))
            self.sealed.append((segment, whole))
        if self.epochs is not None:
            files[join(self.directory, file_names.EPOCHS)] = self.epochs
        if self.metadata is not None:
            files[join(self.directory, file_names.PARTITION_METADATA)] = self.metadata
        for offset, snapshot in self.snapshots.items():
            files[join(self.directory, file_names.segment_file(offset, file_names.SNAPSHOT))] = snapshot
        self.fs.write_all(files, sync=sync)


def index_files(segment: Segment, whole: SegmentIndex) -> dict[str, bytes]:
    """The content of the index files of a completed segment, by path."""
    files = {
        segment.path(file_names.INDEX): whole.encode_offsets(),
        segment.path(file_names.TIME_INDEX): whole.encode_times(),
    }
    if segment.aborted_dirty:
        # Write the file even if no entry is left: an existing file may hold entries that a truncation has removed.
        files[segment.path(file_names.TXN_INDEX)] = segment.encode_aborted()
    return files
