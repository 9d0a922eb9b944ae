"""Atomic replacement of segments by a cleaned segment, safe at every crash point.

    1  The `.cleaned` files, complete and synced, are renamed to `.swap`, the log file last. This is the decision: from
       here on a start after a crash completes the swap (`loader.complete_swaps`); before it, a start deletes the files.
    2  The names are synced, in a thread.
    3  The files of the old segments are renamed to `.deleted`, the `.swap` files get their final names, the log file
       last, and the new segment enters the log. All in one turn of the event loop: nobody can see a part of it.

A power loss leaves one of the states between these steps, because a file system keeps the renames in one directory in
order. The old files are deleted after `file.delete.delay.ms`, because readers may still use them.
"""

from __future__ import annotations

from posixpath import join

from moldau.host.event_log import event_logger
from moldau.host.fault_points import FaultPoint
from moldau.log import file_names
from moldau.log.checkpoints import SegmentState
from moldau.log.clean.job import Replacement
from moldau.log.lazy_open import reopen_segment
from moldau.log.log import Log
from moldau.log.segment import Segment

logger = event_logger(__name__)

before_decision = FaultPoint("swap.before-decision")
decided = FaultPoint("swap.decided")
synced = FaultPoint("swap.synced")
one_moved_away = FaultPoint("swap.one-moved-away")
all_moved_away = FaultPoint("swap.all-moved-away")
indexes_in_place = FaultPoint("swap.indexes-in-place")
in_place = FaultPoint("swap.in-place")


class Swap:
    """One replacement in a log. `decide` and `finish` run on the event loop, `sync` in a thread."""

    def __init__(self, log: Log, segments: dict[int, Segment], sizes: dict[int, int], replacement: Replacement) -> None:
        self._log = log
        self._fs = log.data_dir.fs
        self._old = [segments[base] for base in replacement.bases]
        self._sizes = [sizes[base] for base in replacement.bases]
        self._new = replacement

    def decide(self) -> bool:
        """Step 1; False if the log has changed since the cleaning began, so that its result cannot be used."""
        if not self._log.holds(self._old, self._sizes):
            self._discard(file_names.CLEANED)
            return False
        before_decision()
        try:
            for suffix in reversed(file_names.SEGMENT_SUFFIXES):
                path = self._path(suffix)
                if self._fs.exists(path + file_names.CLEANED):
                    self._fs.rename(path + file_names.CLEANED, path + file_names.SWAP)
        except OSError as error:
            self._discard(file_names.SWAP)
            raise self._log.data_dir.failed(error, f"could not add a cleaned segment to {self._log.name}") from error
        decided()
        return True

    def sync(self) -> None:
        """Step 2. After an OSError the names may not be durable."""
        self._fs.sync_dir(self._log.directory)
        synced()

    def finish(self) -> bool:
        """Step 3; False if the log has changed meanwhile."""
        log = self._log
        if not log.holds(self._old, self._sizes):
            self._discard(file_names.SWAP)
            return False
        try:
            to_delete = self._move_old_away()
            all_moved_away()
            for suffix in reversed(file_names.SEGMENT_SUFFIXES):
                path = self._path(suffix)
                if suffix == file_names.LOG:
                    indexes_in_place()
                if self._fs.exists(path + file_names.SWAP):
                    self._fs.rename(path + file_names.SWAP, path)
        except OSError as error:
            # The log has neither the old nor the new segments: only a restart, which completes the swap, repairs this.
            raise log.data_dir.failed(error, f"could not replace segments of {log.name}", fatal=True) from error
        in_place()
        new = self._new
        state = SegmentState(
            self._old[0].base_offset,
            new.size,
            new.max_timestamp,
            new.offset_of_max_timestamp,
            new.index_entries,
            new.time_entries,
        )
        log.replace(self._old, reopen_segment(state, log.directory, log.data_dir))
        log.data_dir.delete_later(to_delete, log.config.file_delete_delay_ms)
        return True

    def _move_old_away(self) -> list[str]:
        to_delete: list[str] = []
        for number, segment in enumerate(self._old):
            paths = [segment.path(suffix) for suffix in (file_names.INDEX, file_names.TIME_INDEX, file_names.TXN_INDEX)]
            if number:
                paths.append(segment.path(file_names.SNAPSHOT))  # the new segment keeps the first snapshot
            for path in paths:
                try:
                    self._fs.rename(path, path + file_names.DELETED)
                except FileNotFoundError:
                    continue
                to_delete.append(path + file_names.DELETED)
            segment.file.rename(segment.file.path + file_names.DELETED)
            to_delete.append(segment.file.path)
            one_moved_away()
        return to_delete

    def _discard(self, suffix: str) -> None:
        """Remove the log file first: without it, a start ignores and removes the other files."""
        logger.info(
            "log was changed while it was cleaned, the cleaned segment is discarded",
            extra={"partition": str(self._log.name)},
        )
        for kind in file_names.SEGMENT_SUFFIXES:
            try:
                self._fs.remove(self._path(kind) + suffix, missing_ok=True)
            except OSError as error:
                logger.warning(
                    "file could not be removed", extra={"path": self._path(kind) + suffix, "reason": str(error)}
                )

    def _path(self, suffix: str) -> str:
        return join(self._log.directory, file_names.segment_file(self._new.bases[0], suffix))
