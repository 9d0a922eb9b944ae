"""Data directories of a broker (`log.dirs`) and the logs in them.

Each directory is locked for this process, stores its owner (`meta.properties`), and fails independently: a broken disk
takes its partitions offline, not the broker. A clean shutdown writes one state file per directory, so that a start with
many thousands of partitions opens no log file.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable, Container, Iterable, Iterator
from posixpath import join
from typing import NamedTuple, TypeVar

from moldau.host.clock import Clock, Randomness
from moldau.host.event_log import event_logger
from moldau.host.fs import AlreadyLocked, FileSystem
from moldau.host.threads import Threads
from moldau.log import checkpoints
from moldau.log.config import LogConfig
from moldau.log.directory import LogDirectory
from moldau.log.errors import LogError, StorageError
from moldau.log.file_names import MOVED, NO_TOPIC_ID, marked_directory, uuid_text
from moldau.log.index import IndexCache
from moldau.log.log import Log
from moldau.log.log_dir import DataDirectory, Survey
from moldau.log.log_move import moved_here
from moldau.wire.errors import ErrorCode
from moldau.wire.topic_partition import TopicPartition

logger = event_logger(__name__)

T = TypeVar("T", int, str)

RECOVERY_WORKERS = 2
"""Number of logs per directory that are loaded in parallel (Kafka's num.recovery.threads.per.data.dir)."""

PROGRESS_SECONDS = 5.0
"""Interval between progress messages of a long recovery."""

GC_FRIENDLY_CHUNK = 1000
"""Number of logs created from a state file before the event loop gets a turn."""


DEFAULT_NODE_ID = 1
"""Id of a broker that was given none and whose directories are new."""


class LogDirsError(LogError):
    """The data directories cannot be used: locked, of another broker, or all failed. The message says which and why."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class Stray(NamedTuple):
    """A log whose topic is unknown."""

    path: str
    topic: str
    partition: int
    topic_id: bytes


class LogDirs:
    """The data directories (`log.dirs`). All methods run on the event loop; blocking work runs in `threads`."""

    def __init__(self, paths: list[str], fs: FileSystem, clock: Clock, randomness: Randomness) -> None:
        if not paths or len(set(paths)) != len(paths):
            raise LogDirsError(f"the data directories must be distinct, and at least one: {', '.join(paths)}")
        self.fs = fs
        self.clock = clock
        self.randomness = randomness
        self.index_cache = IndexCache()
        self.logs: dict[TopicPartition, Log] = {}
        self.cluster_id: str | None = None
        """The cluster id in the directories; None if they are new."""
        self.node_id = DEFAULT_NODE_ID
        self._failure_listeners: list[Callable[[DataDirectory], None]] = []
        self.all = [
            DataDirectory(path, fs, index_cache=self.index_cache, randomness=randomness, on_failure=self._failed)
            for path in paths
        ]

    def on_failure(self, listener: Callable[[DataDirectory], None]) -> None:
        """Call `listener` for each directory that goes offline, in the thread that met the error."""
        self._failure_listeners.append(listener)

    def _failed(self, data_dir: LogDirectory) -> None:
        assert isinstance(data_dir, DataDirectory)
        for listener in self._failure_listeners:
            listener(data_dir)

    @property
    def online(self) -> list[DataDirectory]:
        return [one for one in self.all if one.online]

    @property
    def directory_id(self) -> str:
        """The ids of the online directories. They distinguish this broker from another one with the same broker id."""
        return ",".join(uuid_text(one.meta.directory_id) for one in self.online if one.meta.directory_id)

    @property
    def any_offline(self) -> bool:
        return any(not one.online for one in self.all)

    # -- starting --------------------------------------------------------------------------------------------------

    def open(self, node_id: int | None = None) -> int:
        """Create and lock the directories, and return their broker id, checked against `node_id`.

        LogDirsError if another process or another broker owns one, or if none can be used.
        """
        try:
            for one in self.all:
                self._open_one(one)
            self._require_one_online()
            for one in self.all:
                if one.failure is not None:
                    logger.error("data directory is offline", extra={"directory": one.path, "reason": one.failure})
            self.cluster_id = self._agreed("cluster", {one.path: one.meta.cluster_id for one in self.online})
            known = self._agreed("broker", {one.path: one.meta.node_id for one in self.online})
            if node_id is not None and known is not None and node_id != known:
                raise LogDirsError(f"the data directory {self.online[0].path} belongs to broker {known}, not {node_id}")
        except BaseException:
            self.release()
            raise
        if node_id is None:
            node_id = known
        self.node_id = DEFAULT_NODE_ID if node_id is None else node_id
        return self.node_id

    def _open_one(self, one: DataDirectory) -> None:
        try:
            one.open()
        except AlreadyLocked as error:
            owner = f"process {error.pid}" if error.pid is not None else "another process"
            raise LogDirsError(
                f"the data directory {one.path} is in use by {owner}; stop that process or use another directory"
            ) from None
        except checkpoints.BadCheckpointError as error:
            raise LogDirsError(f"{join(one.path, checkpoints.META_PROPERTIES)}: {error}") from None
        except OSError as error:
            one.failure = f"could not open {one.path}: {error.strerror or error}"

    def _agreed(self, what: str, by_path: dict[str, T | None]) -> T | None:
        """The one value that all directories have; new directories have none."""
        values = {path: value for path, value in by_path.items() if value is not None}
        if len(set(values.values())) > 1:
            raise LogDirsError(
                f"the data directories belong to different {what}s: "
                + ", ".join(f"{path} to {value}" for path, value in values.items())
            )
        return next(iter(values.values()), None)

    def remember_cluster(self, cluster_id: str) -> None:
        """Mark the directories as this broker's in this cluster. LogDirsError if they belong to another cluster."""
        if self.cluster_id is not None and self.cluster_id != cluster_id:
            raise LogDirsError(f"the data directories belong to cluster {self.cluster_id}, not to {cluster_id}")
        self.cluster_id = cluster_id
        for one in self.online:
            try:
                one.identify(cluster_id, self.node_id)
            except OSError as error:
                one.failed(error, f"could not mark {one.path}", fatal=True)
        self._require_one_online()

    def _require_one_online(self) -> None:
        if not self.online:
            raise LogDirsError("no data directory can be used: " + "; ".join(str(one.failure) for one in self.all))

    async def load(
        self,
        threads: Threads,
        config_of: Callable[[str], LogConfig] | None = None,
        workers: int = RECOVERY_WORKERS,
    ) -> None:
        """Load all logs, with recovery after a crash, `workers` per directory in parallel.

        `config_of` returns a topic's settings if they are known already; they may also be set later.
        """
        default = LogConfig()
        config_of = config_of if config_of is not None else lambda _: default
        # All objects created here stay alive: the garbage collector would traverse them repeatedly and free nothing.
        collecting = gc.isenabled()
        gc.disable()
        try:
            await asyncio.gather(*(self._load_dir(one, threads, config_of, workers) for one in self.online))
        finally:
            if collecting:
                gc.enable()
        self._require_one_online()

    async def _load_dir(
        self, one: DataDirectory, threads: Threads, config_of: Callable[[str], LogConfig], workers: int
    ) -> None:
        try:
            survey = await threads.run(one.path, one.survey)
        except OSError as error:
            one.failed(error, f"could not read {one.path}", fatal=True)
            return
        for number, state in enumerate(survey.states):
            self._add(Log.from_state(state, one, config_of(state.name.topic)))
            if number % GC_FRIENDLY_CHUNK == 0:
                await asyncio.sleep(0)
        await self._load_each(one, survey, threads, config_of, workers)
        try:
            await threads.run(one.path, one.forget_clean_stop)
        except OSError as error:
            one.failed(error, f"could not remove the clean shutdown marker in {one.path}", fatal=True)

    async def _load_each(
        self, one: DataDirectory, survey: Survey, threads: Threads, config_of: Callable[[str], LogConfig], workers: int
    ) -> None:
        """Load the logs that no state file describes, `workers` at a time."""
        total, done = len(survey.names), 0
        said = begun = self.clock.monotonic()
        todo: Iterator[TopicPartition] = iter(survey.names)

        async def work() -> None:
            nonlocal done, said
            for name in todo:
                log = await threads.run(one.path, one.load, name, config_of(name.topic), self.clock.now_ms(), survey)
                if log is None:
                    return  # the directory has gone offline
                self._add(log)
                done += 1
                if self.clock.monotonic() - said >= PROGRESS_SECONDS:
                    said = self.clock.monotonic()
                    logger.info("loading logs", extra={"directory": one.path, "loaded": done, "total": total})

        await asyncio.gather(*(work() for _ in range(min(workers, total))))
        if total and not survey.clean:
            took_s = round(self.clock.monotonic() - begun, 1)
            logger.info(
                "logs recovered after an unclean stop", extra={"directory": one.path, "logs": done, "seconds": took_s}
            )

    def _add(self, log: Log) -> None:
        other = self.logs.get(log.name)
        if other is None:
            self.logs[log.name] = log
            return
        if moved_here(log) != moved_here(other):
            later, former = (log, other) if moved_here(log) else (other, log)
            logger.warning(
                "older copy of a moved log is removed", extra={"directory": former.directory, "kept": later.directory}
            )
            self.retire(former, later)
            self.fs.remove(join(later.directory, MOVED))
        elif log.end_offset == 0 or other.end_offset == 0:
            # A disk failure while the partition was created there may have prevented the removal of the empty log.
            kept, empty = (other, log) if log.end_offset == 0 else (log, other)
            logger.warning(
                "empty copy of a log is removed", extra={"directory": empty.directory, "kept": kept.directory}
            )
            self.retire(empty, kept)
        else:
            raise LogDirsError(f"{log.name} is in two data directories: {other.directory} and {log.directory}")

    # -- finding, creating, deleting -------------------------------------------------------------------------------

    def find(self, topic: str, partition: int, topic_id: bytes) -> Log | None:
        """The log of this partition of this topic id. A log of an older topic of the same name is renamed to stray."""
        log = self.logs.get(TopicPartition(topic, partition))
        if log is None or log.topic_id == topic_id:
            return log
        try:
            if log.topic_id == NO_TOPIC_ID:
                log.adopt_topic_id(topic_id)
                return log
            self._move_away(log, "stray")
        except StorageError as error:
            logger.error(
                "log of another topic could not be set aside",
                extra={"directory": log.directory, "reason": error.message},
            )
        return None

    def lost_ends(self, boot_id: str, hosted: Iterable[tuple[str, int, bytes]]) -> list[TopicPartition]:
        """Of these partitions (topic, index, topic id), those whose logs may have lost records.

        A missing log has lost everything, unless it cannot have existed: no checkpoint names it, and no directory may
        have lost anything.
        """
        unsafe = {one.path: not one.online or one.may_lack_ends(boot_id) for one in self.all}
        any_unsafe = any(unsafe.values())
        lost = []
        for topic, index, topic_id in hosted:
            name = TopicPartition(topic, index)
            log = self.logs.get(name)
            if log is not None and log.topic_id in (topic_id, NO_TOPIC_ID):
                if unsafe[log.data_dir.path]:
                    lost.append(name)
            elif any_unsafe or any(name in one.remembered for one in self.all):
                lost.append(name)
        return lost

    async def remember_boot(self, threads: Threads, boot_id: str) -> None:
        """Save the boot id, after the broker has handled the logs that may have lost records.

        From now on the current content counts as complete until the machine stops.
        """
        for one in self.online:
            try:
                await threads.run(one.path, one.remember_boot, boot_id)
            except OSError as error:
                one.failed(error, f"could not write into {one.path}")

    def logs_not_in(self, topic_ids: Container[bytes]) -> list[Stray]:
        """The logs whose topic id is not in `topic_ids`."""
        return [
            Stray(log.directory, log.topic, log.partition, log.topic_id)
            for log in self.logs.values()
            if log.topic_id not in topic_ids
        ]

    def create(self, topic: str, topic_id: bytes, partition: int, config: LogConfig) -> Log:
        """Create a log in the directory with the fewest partitions, then the most free space. LogError if it fails."""
        name = TopicPartition(topic, partition)
        if name in self.logs:
            raise LogError(ErrorCode.TOPIC_ALREADY_EXISTS, f"{name} exists already in {self.logs[name].directory}")
        online = self.online
        if not online:
            raise StorageError("all data directories are offline", fatal=True)
        counts = {one.path: len(one.hosted_logs) for one in online}
        fewest = min(counts.values())
        candidates = [one for one in online if counts[one.path] == fewest]
        if len(candidates) > 1:
            candidates.sort(key=DataDirectory.usable_bytes, reverse=True)
        data_dir = candidates[0]
        directory = join(data_dir.path, str(name))
        is_new = not self.fs.is_directory(directory)
        try:
            log = Log.create(name, topic_id, data_dir, config, self.clock.now_ms())
        except StorageError:
            if is_new:
                # The next attempt may choose another directory.
                with contextlib.suppress(OSError):
                    self.fs.remove_tree(directory)
            raise
        self.logs[name] = log
        return log

    def delete(self, log: Log) -> None:
        """Delete a log. Its directory is renamed now and deleted after `file.delete.delay.ms`."""
        to_delete = self._move_away(log, "delete")
        log.data_dir.delete_later([to_delete], log.config.file_delete_delay_ms)

    def retire(self, former: Log, later: Log) -> None:
        """Make `later`, in another directory, the partition's log, and delete `former`."""
        self.delete(former)
        self.logs[later.name] = later

    def _move_away(self, log: Log, mark: str) -> str:
        """Remove the log from the directories and rename its directory with this mark."""
        self.logs.pop(log.name, None)
        log.data_dir.hosted_logs.pop(log.name, None)
        log.discard()
        path = join(log.data_dir.path, marked_directory(log.name, self.randomness.uuid().hex(), mark))
        try:
            self.fs.rename(log.directory, path)
        except FileNotFoundError:
            pass  # another process has deleted it already
        except OSError as error:
            raise log.data_dir.failed(error, f"could not rename {log.directory} to {path}") from error
        else:
            logger.info("directory of a log renamed", extra={"directory": log.directory, "now": path})
        return path

    # -- checkpoints -----------------------------------------------------------------------------------------------

    async def write_checkpoints(
        self, threads: Threads, high_watermarks: dict[TopicPartition, int] | None = None
    ) -> None:
        """Write the recovery points and start offsets of all logs, and the high watermarks if given; then delete the
        files whose delay is over."""
        now_ms = self.clock.now_ms()
        for one in self.online:
            contents = one.checkpoint_contents(high_watermarks)
            try:
                await threads.run(one.path, one.write_checkpoints, contents)
            except OSError as error:
                one.failed(error, f"could not write the checkpoints of {one.path}")
            due = one.take_due(now_ms)
            if due:
                await threads.run(one.path, one.remove_all, due)

    async def write_high_watermarks(self, threads: Threads, high_watermarks: dict[TopicPartition, int]) -> None:
        """Write only the high watermarks, in the directories where one has changed."""
        for one in self.online:
            here = {name: high_watermarks[name] for name in one.hosted_logs if name in high_watermarks}
            if here != one.high_watermarks:
                one.high_watermarks = here
                contents = {checkpoints.HIGH_WATERMARKS: checkpoints.encode_offsets(here)}
                try:
                    await threads.run(one.path, one.write_checkpoints, contents)
                except OSError as error:
                    one.failed(error, f"could not write the checkpoints of {one.path}")

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of the last checkpoint, as read at the start."""
        return {name: offset for one in self.all for name, offset in one.high_watermarks.items()}

    def truncate(self, cuts: list[tuple[Log, int]]) -> None:
        """Truncate many logs, with one write of the recovery points per directory instead of one per log."""
        lowered: dict[str, LogDirectory] = {}
        for log, offset in cuts:
            if offset < log.flushed_offset:
                log.flushed_offset = offset
                lowered[log.data_dir.path] = log.data_dir
        for data_dir in lowered.values():
            data_dir.save_checkpoints()
        now_ms = self.clock.now_ms()
        for log, offset in cuts:
            log.truncate_to(offset, now_ms)

    # -- stopping --------------------------------------------------------------------------------------------------

    async def close(self, threads: Threads, high_watermarks: dict[TopicPartition, int] | None = None) -> None:
        """Close all logs, write the clean shutdown marker of each directory without errors, and release the locks."""
        await asyncio.gather(*(self._close_dir(one, threads, high_watermarks) for one in self.online))
        self.release()

    async def _close_dir(
        self, one: DataDirectory, threads: Threads, high_watermarks: dict[TopicPartition, int] | None
    ) -> None:
        logs = [log for log in self.logs.values() if log.data_dir is one]
        states = await threads.run(one.path, one.close_logs, logs, self.clock.now_ms())
        if states is None:
            return
        contents = one.checkpoint_contents(high_watermarks)
        try:
            await threads.run(one.path, one.mark_clean_stop, states, contents)
        except OSError as error:
            one.failed(error, f"could not write the clean shutdown marker of {one.path}")

    def release(self) -> None:
        """Release locks and descriptors, as the end of the process would."""
        for log in self.logs.values():
            log.close_files()
        for one in self.all:
            one.release()
