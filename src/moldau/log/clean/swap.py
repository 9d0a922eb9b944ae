"""A cleaned segment takes the place of those that it was made of: whole or not at all, whatever happens in between.

    1  the `.cleaned` files, complete and on disk, are renamed to `.swap`, the log last: this decides. From here on a
       start after a crash finishes what was begun (`loader.complete_swaps`); before, it throws away what is there.
    2  the names are synced, in a thread.
    3  the old segments' files are renamed to `.deleted`, the `.swap` ones get their final names, the log last, and the
       new segment stands in the log. All in one turn of the loop: nobody can see half of it.

What a power loss leaves is one of the states between these steps, since a file system keeps the renames of one
directory in order. Old files go when `file.delete.delay.ms` have passed: readers may be in the middle of them.
"""

from __future__ import annotations

import logging
from posixpath import join

from moldau.host.fault_points import FaultPoint
from moldau.log import names
from moldau.log.checkpoints import SegmentState
from moldau.log.clean.job import Replacement
from moldau.log.cold import reopen_segment
from moldau.log.log import Log
from moldau.log.segment import Segment

logger = logging.getLogger(__name__)

before_decision = FaultPoint("swap.before-decision")
decided = FaultPoint("swap.decided")
synced = FaultPoint("swap.synced")
one_moved_away = FaultPoint("swap.one-moved-away")
all_moved_away = FaultPoint("swap.all-moved-away")
indexes_in_place = FaultPoint("swap.indexes-in-place")
in_place = FaultPoint("swap.in-place")


class Swap:
    """One replacement on its way into a log. `decide` and `finish` are the loop's, `sync` a thread's."""

    def __init__(self, log: Log, segments: dict[int, Segment], sizes: dict[int, int], replacement: Replacement) -> None:
        self._log = log
        self._fs = log.home.fs
        self._old = [segments[base] for base in replacement.bases]
        self._sizes = [sizes[base] for base in replacement.bases]
        self._new = replacement

    def decide(self) -> bool:
        """Step 1; False where the log has changed under the cleaning, which was for nothing then."""
        if not self._log.holds(self._old, self._sizes):
            self._discard(names.CLEANED)
            return False
        before_decision()
        try:
            for suffix in reversed(names.SEGMENT_SUFFIXES):
                path = self._path(suffix)
                if self._fs.exists(path + names.CLEANED):
                    self._fs.rename(path + names.CLEANED, path + names.SWAP)
        except OSError as error:
            self._discard(names.SWAP)
            raise self._log.home.failed(error, f"could not take a cleaned segment into {self._log.name}") from error
        decided()
        return True

    def sync(self) -> None:
        """Step 2. OSError where it fails; nothing may be relied upon then."""
        self._fs.sync_dir(self._log.directory)
        synced()

    def finish(self) -> bool:
        """Step 3; False where the log has changed meanwhile."""
        log = self._log
        if not log.holds(self._old, self._sizes):
            self._discard(names.SWAP)
            return False
        try:
            doomed = self._move_old_away()
            all_moved_away()
            for suffix in reversed(names.SEGMENT_SUFFIXES):
                path = self._path(suffix)
                if suffix == names.LOG:
                    indexes_in_place()
                if self._fs.exists(path + names.SWAP):
                    self._fs.rename(path + names.SWAP, path)
        except OSError as error:
            # Neither the old nor the new: only a start, which finishes it, can put this right.
            raise log.home.failed(error, f"could not replace segments of {log.name}", fatal=True) from error
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
        log.replace(self._old, reopen_segment(state, log.directory, log.home))
        log.home.doom(doomed, log.config.file_delete_delay_ms)
        return True

    def _move_old_away(self) -> list[str]:
        doomed: list[str] = []
        for number, segment in enumerate(self._old):
            paths = [segment.path(suffix) for suffix in (names.INDEX, names.TIME_INDEX, names.TXN_INDEX)]
            if number:
                paths.append(segment.path(names.SNAPSHOT))  # the first one's is the new segment's too
            for path in paths:
                try:
                    self._fs.rename(path, path + names.DELETED)
                except FileNotFoundError:
                    continue
                doomed.append(path + names.DELETED)
            segment.file.rename(segment.file.path + names.DELETED)
            doomed.append(segment.file.path)
            one_moved_away()
        return doomed

    def _discard(self, suffix: str) -> None:
        """The log first: without it the others are nothing to whoever starts next."""
        logger.info("%s has changed while it was cleaned: the cleaned segment is dropped", self._log.name)
        for kind in names.SEGMENT_SUFFIXES:
            try:
                self._fs.remove(self._path(kind) + suffix, missing_ok=True)
            except OSError as error:
                logger.warning("%s could not be removed: %s", self._path(kind) + suffix, error)

    def _path(self, suffix: str) -> str:
        return join(self._log.directory, names.segment_file(self._new.bases[0], suffix))
