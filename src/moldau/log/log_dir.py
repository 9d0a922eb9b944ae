"""One data directory of a broker: its lock, checkpoint files, clean shutdown marker and pending deletions.

Methods that read or write files are for threads unless they say otherwise; they touch only this directory's files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from posixpath import join
from typing import TypeVar

from moldau.host.clock import Randomness
from moldau.host.event_log import event_logger
from moldau.host.fs import DirectoryLock, FileSystem
from moldau.log import checkpoints, file_names
from moldau.log.checkpoints import BadCheckpointError, LogState, MetaProperties
from moldau.log.config import LogConfig
from moldau.log.directory import LogDirectory
from moldau.log.errors import LogError
from moldau.log.index import IndexCache
from moldau.log.log import Log
from moldau.wire.topic_partition import TopicPartition

logger = event_logger(__name__)

T = TypeVar("T")


def _text(data: bytes) -> str | None:
    return data.decode("utf-8", "replace").strip() or None


SYNC_TOGETHER = 8
"""From this many changed logs on, a clean shutdown syncs the whole volume at once instead of each file."""


@dataclass(slots=True)
class Survey:
    """What a directory holds: logs that the state file describes, and logs that must be looked at."""

    clean: bool
    states: list[LogState] = field(default_factory=list)
    names: list[TopicPartition] = field(default_factory=list)
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    start_offsets: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass(slots=True)
class PendingDeletion:
    """A file or directory to delete."""

    path: str
    delay_ms: int
    due_ms: int | None = None


class DataDirectory(LogDirectory):
    """A LogDirectory with a lock, checkpoints and pending deletions."""

    def __init__(
        self,
        path: str,
        fs: FileSystem,
        *,
        index_cache: IndexCache,
        randomness: Randomness,
        on_failure: Callable[[LogDirectory], None],
    ) -> None:
        super().__init__(path, fs, index_cache=index_cache, randomness=randomness, on_failure=on_failure)
        self.meta = MetaProperties(None, None, None)
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The high watermarks of the last checkpoint."""
        self.stopped_cleanly = False
        self.boot_id: str | None = None
        """The boot id of the machine when these files were last in use; None if none was saved."""
        self.remembered: dict[TopicPartition, None] = {}
        """The logs that the checkpoints name, whether they exist or not."""
        self._pending_deletions: list[PendingDeletion] = []
        self._lock: DirectoryLock | None = None

    @property
    def online(self) -> bool:
        return self.failure is None

    @property
    def logs(self) -> dict[TopicPartition, Log]:
        return {name: log for name, log in self.hosted_logs.items() if isinstance(log, Log)}

    def open(self) -> None:
        """Create the directory if needed, lock it for this process, and read `meta.properties`."""
        self.fs.mkdir(self.path, sync=True)
        self._lock = self.fs.lock(self._file(checkpoints.LOCK))
        try:
            self.meta = checkpoints.decode_meta_properties(self.fs.read_bytes(self._file(checkpoints.META_PROPERTIES)))
        except FileNotFoundError:
            pass

    def go_offline(self, why: str) -> None:
        """Take the directory offline, and leave a marker file for the next start.

        The marker is not synced: it warns of unsynced pages in the page cache, and a machine that stops loses those as
        well. If the disk does not accept the marker, the next start fails too.
        """
        super().go_offline(why)
        try:
            self.fs.write_atomically(self._file(checkpoints.DISK_FAILED), f"{why}\n".encode(), sync=False)
        except OSError as error:
            logger.warning(
                "directory could not be marked as failed", extra={"directory": self.path, "reason": str(error)}
            )

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def identify(self, cluster_id: str, node_id: int) -> None:
        """Write `meta.properties` unless it is up to date."""
        wanted = MetaProperties(cluster_id, node_id, self.meta.directory_id or self.randomness.uuid())
        if self.meta != wanted:
            self.fs.write_atomically(
                self._file(checkpoints.META_PROPERTIES), checkpoints.encode_meta_properties(wanted)
            )
            self.meta = wanted

    def space(self) -> tuple[int, int]:
        """The total and the free bytes of the volume."""
        return self.fs.total_bytes(self.path), self.fs.free_bytes(self.path)

    def usable_bytes(self) -> int:
        return self.fs.free_bytes(self.path)

    # -- loading ---------------------------------------------------------------------------------------------------

    def survey(self) -> Survey:
        """List the content of the directory without opening any log."""
        survey = Survey(self.fs.exists(self._file(checkpoints.CLEAN_SHUTDOWN)))
        survey.recovery_points = self._read(checkpoints.RECOVERY_POINTS, checkpoints.decode_offsets, {})
        survey.start_offsets = self._read(checkpoints.START_OFFSETS, checkpoints.decode_offsets, {})
        self.high_watermarks = self._read(checkpoints.HIGH_WATERMARKS, checkpoints.decode_offsets, {})
        self.stopped_cleanly = survey.clean
        self.boot_id = self._read(checkpoints.BOOT_ID, _text, None)
        self.disk_failed_before = self.fs.exists(self._file(checkpoints.DISK_FAILED))
        self.remembered = dict.fromkeys(survey.recovery_points)
        here: dict[TopicPartition, None] = {}
        for file in self.fs.listdir(self.path):
            if file.endswith(file_names.TEMPORARY):
                self.fs.remove(join(self.path, file), missing_ok=True)
        for directory in self.fs.directories(self.path):
            name = file_names.parse_directory(directory)
            mark = file_names.marked_for(directory)
            if name is not None:
                here[name] = None
            elif mark == "delete" or (mark == "future" and self._is_interrupted_move(directory)):
                self.delete_later([join(self.path, directory)], 0)
            elif mark is not None:
                logger.warning(
                    "marked directory is left alone", extra={"directory": join(self.path, directory), "mark": mark}
                )
        if survey.clean:
            none: list[LogState] = []
            states = self._read(checkpoints.CLEAN_STATE, checkpoints.decode_clean_state, none)
            self.remembered.update(dict.fromkeys(state.name for state in states))
            survey.states = [state for state in states if state.name in here]
            for state in states:
                if here.pop(state.name, 0) == 0:
                    logger.error(
                        "log is gone since the last clean stop", extra={"directory": join(self.path, str(state.name))}
                    )
        survey.names = list(here)
        return survey

    def _is_interrupted_move(self, directory: str) -> bool:
        """Whether this is a future directory of ours, which contains the copy of a log as a subdirectory.

        The original log is still in place, so the copy can be deleted. Kafka's future directories contain files; those
        are left alone.
        """
        path = self._file(directory)
        return len(self.fs.listdir(path)) == len(self.fs.directories(path))

    def _read(self, file: str, decode: Callable[[bytes], T], default: T) -> T:
        try:
            return decode(self.fs.read_bytes(self._file(file)))
        except FileNotFoundError:
            return default
        except BadCheckpointError as error:
            logger.error("checkpoint file cannot be used", extra={"path": self._file(file), "reason": str(error)})
            return default

    def _file(self, name: str) -> str:
        return join(self.path, name)

    def load(self, name: TopicPartition, config: LogConfig, now_ms: int, survey: Survey) -> Log | None:
        """Load a log that no state file describes; None if the directory is offline."""
        if self.failure is not None:
            return None
        try:
            return Log.load(
                name,
                self,
                config,
                now_ms,
                clean=survey.clean,
                recovery_point=survey.recovery_points.get(name, 0),
                start_offset=survey.start_offsets.get(name, 0),
            )
        except OSError as error:
            self.failed(error, f"could not load {join(self.path, str(name))}", fatal=True)
            return None

    def forget_clean_stop(self) -> None:
        """Remove the clean shutdown marker: from now on a shutdown is unclean until the marker is written again."""
        if self.fs.exists(self._file(checkpoints.CLEAN_SHUTDOWN)):
            self.fs.remove(self._file(checkpoints.CLEAN_SHUTDOWN))
            self.fs.sync_dir(self.path)
        self.fs.remove(self._file(checkpoints.CLEAN_STATE), missing_ok=True)
        if self.disk_failed_before and self.online:
            # All logs are loaded, so the files that the failure left in doubt have been rewritten.
            self.fs.remove(self._file(checkpoints.DISK_FAILED))
            self.disk_failed_before = False

    def remember_boot(self, boot_id: str) -> None:
        """Save the boot id: while the machine keeps running, a killed process loses nothing of these files."""
        if self.boot_id != boot_id:
            self.fs.write_atomically(self._file(checkpoints.BOOT_ID), boot_id.encode())
            self.boot_id = boot_id

    def may_lack_ends(self, boot_id: str) -> bool:
        """Whether logs may have lost records at their ends: the machine stopped before they were synced.

        A killed process loses nothing, because the page cache survives it.
        """
        return not self.stopped_cleanly and (not boot_id or self.boot_id != boot_id)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def checkpoint_contents(self, high_watermarks: dict[TopicPartition, int] | None) -> dict[str, bytes]:
        """On the event loop: the current content of the checkpoint files."""
        logs = self.logs
        contents = {
            checkpoints.RECOVERY_POINTS: checkpoints.encode_offsets(
                {name: log.recovery_point for name, log in logs.items()}
            ),
            checkpoints.START_OFFSETS: checkpoints.encode_offsets(
                {name: log.start_offset for name, log in logs.items() if log.start_offset > log.first_base_offset}
            ),
        }
        if high_watermarks is not None:
            contents[checkpoints.HIGH_WATERMARKS] = checkpoints.encode_offsets(
                {name: high_watermarks[name] for name in logs if name in high_watermarks}
            )
        return contents

    def write_checkpoints(self, contents: dict[str, bytes]) -> None:
        for file, content in contents.items():
            self.fs.write_atomically(self._file(file), content)

    def save_checkpoints(self) -> None:
        try:
            self.write_checkpoints(self.checkpoint_contents(None))
        except OSError as error:
            raise self.failed(error, f"could not write the checkpoints of {self.path}") from error

    # -- stopping --------------------------------------------------------------------------------------------------

    def close_logs(self, logs: list[Log], now_ms: int) -> list[LogState] | None:
        """Close all logs; None if one could not be closed, so that the shutdown is not clean."""
        states: list[LogState] | None = []
        # One journal commit for all files takes little more time than for one file.
        together = sum(not log.untouched for log in logs) >= SYNC_TOGETHER
        for log in logs:
            try:
                state = log.close(now_ms, sync=not together)
                if states is not None:
                    states.append(state)
            except (LogError, OSError) as error:
                logger.error(
                    "log could not be closed cleanly", extra={"directory": log.directory, "reason": str(error)}
                )
                states = None
        if together and states is not None:
            try:
                self.fs.sync_volume(self.path)
            except OSError as error:
                self.failed(error, f"could not sync {self.path}", fatal=True)
                return None
        return states

    def mark_clean_stop(self, states: list[LogState], contents: dict[str, bytes]) -> None:
        """Write the clean shutdown marker. It comes last, because it declares all other files valid."""
        self.write_checkpoints(contents)
        self.fs.write_atomically(self._file(checkpoints.CLEAN_STATE), checkpoints.encode_clean_state(states))
        self.fs.write_atomically(self._file(checkpoints.CLEAN_SHUTDOWN), checkpoints.encode_clean_shutdown())

    # -- deleting --------------------------------------------------------------------------------------------------

    def delete_later(self, paths: list[str], delay_ms: int) -> None:
        """On the event loop: schedule these paths for deletion after the delay."""
        self._pending_deletions.extend(PendingDeletion(path, delay_ms) for path in paths)

    def take_due(self, now_ms: int) -> list[str]:
        """On the event loop: the paths to delete now.

        The delay counts from the first call after `delete_later`, because the callers of `delete_later` have no clock.
        """
        for one in self._pending_deletions:
            if one.due_ms is None:
                one.due_ms = now_ms + one.delay_ms
        due = [one.path for one in self._pending_deletions if one.due_ms is not None and one.due_ms <= now_ms]
        self._pending_deletions = [one for one in self._pending_deletions if one.due_ms is None or one.due_ms > now_ms]
        return due

    def remove_all(self, paths: list[str]) -> None:
        for path in paths:
            try:
                if self.fs.is_directory(path):
                    self.fs.remove_tree(path)
                else:
                    self.fs.remove(path, missing_ok=True)
            except OSError as error:
                logger.warning("file could not be removed", extra={"path": path, "reason": str(error)})
