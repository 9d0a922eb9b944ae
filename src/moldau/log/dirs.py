"""All data directories of a broker, and the logs in them.

Each directory is locked for this process, knows whose it is (`meta.properties`), and fails on its own: one disk that
breaks takes its partitions along, not the broker. A clean stop leaves one state file a directory, so that a start
with many thousand partitions opens none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import Callable, Container, Iterable, Iterator
from posixpath import join
from typing import NamedTuple, TypeVar

from moldau.host.clock import Clock, Randomness
from moldau.host.fs import AlreadyLocked, FileSystem
from moldau.host.threads import Threads
from moldau.log import checkpoints
from moldau.log.config import LogConfig
from moldau.log.errors import LogError, StorageError
from moldau.log.home import Home
from moldau.log.index import IndexCache
from moldau.log.log import Log
from moldau.log.log_dir import LogDir, Survey
from moldau.log.move import moved_here
from moldau.log.names import MOVED, NO_TOPIC_ID, PartitionName, marked_directory, uuid_text
from moldau.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

T = TypeVar("T", int, str)

RECOVERY_WORKERS = 2
"""Logs of one directory that are loaded at a time (Kafka's num.recovery.threads.per.data.dir)."""

PROGRESS_SECONDS = 5.0
"""How often a long recovery says how far it is."""

GC_FRIENDLY_CHUNK = 1000
"""Logs made of a state file between two turns of the loop."""


DEFAULT_NODE_ID = 1
"""Of a broker that was told none and whose directories are new."""


class LogDirsError(LogError):
    """The directories cannot be used: in use elsewhere, somebody else's, or all broken. Says which and why."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class Stray(NamedTuple):
    """A log of a topic that nobody knows."""

    path: str
    topic: str
    partition: int
    topic_id: bytes


class LogDirs:
    """The data directories (`log.dirs`). Everything is called on the loop; what blocks goes to `threads`."""

    def __init__(self, paths: list[str], fs: FileSystem, clock: Clock, randomness: Randomness) -> None:
        if not paths or len(set(paths)) != len(paths):
            raise LogDirsError(f"the data directories must be distinct, and at least one: {', '.join(paths)}")
        self.fs = fs
        self.clock = clock
        self.randomness = randomness
        self.index_cache = IndexCache()
        self.logs: dict[PartitionName, Log] = {}
        self.cluster_id: str | None = None
        """As the directories have it; None where they are new."""
        self.node_id = DEFAULT_NODE_ID
        self._failure_listeners: list[Callable[[LogDir], None]] = []
        self.all = [
            LogDir(path, fs, index_cache=self.index_cache, randomness=randomness, on_failure=self._failed)
            for path in paths
        ]

    def on_failure(self, listener: Callable[[LogDir], None]) -> None:
        """`listener` hears of each directory that goes offline, in the thread that met the error."""
        self._failure_listeners.append(listener)

    def _failed(self, home: Home) -> None:
        assert isinstance(home, LogDir)
        for listener in self._failure_listeners:
            listener(home)

    @property
    def online(self) -> list[LogDir]:
        return [one for one in self.all if one.online]

    @property
    def directory_id(self) -> str:
        """Of the directories that are online: what tells this broker from another one that was given its id."""
        return ",".join(uuid_text(one.meta.directory_id) for one in self.online if one.meta.directory_id)

    @property
    def any_offline(self) -> bool:
        return any(not one.online for one in self.all)

    # -- starting --------------------------------------------------------------------------------------------------

    def open(self, node_id: int | None = None) -> int:
        """Makes and locks the directories, and says whose they are: the broker's id, checked against `node_id`.

        LogDirsError where another process or another broker has one, or none can be used.
        """
        try:
            for one in self.all:
                self._open_one(one)
            self._require_one_online()
            for one in self.all:
                if one.failure is not None:
                    logger.error("the data directory %s is offline: %s", one.path, one.failure)
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

    def _open_one(self, one: LogDir) -> None:
        try:
            one.open()
        except AlreadyLocked as error:
            owner = f"process {error.pid}" if error.pid is not None else "another process"
            raise LogDirsError(
                f"the data directory {one.path} is in use by {owner}; one broker at a time can have it"
            ) from None
        except checkpoints.BadCheckpointError as error:
            raise LogDirsError(f"{join(one.path, checkpoints.META_PROPERTIES)}: {error}") from None
        except OSError as error:
            one.failure = f"could not open {one.path}: {error.strerror or error}"

    def _agreed(self, what: str, by_path: dict[str, T | None]) -> T | None:
        """The one value that all directories have; those that are new have none."""
        values = {path: value for path, value in by_path.items() if value is not None}
        if len(set(values.values())) > 1:
            raise LogDirsError(
                f"the data directories belong to different {what}s: "
                + ", ".join(f"{path} to {value}" for path, value in values.items())
            )
        return next(iter(values.values()), None)

    def remember_cluster(self, cluster_id: str) -> None:
        """Marks the directories as this broker's in this cluster. LogDirsError where they are of another."""
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
        """Finds all logs, recovering those that a crash left, `workers` of a directory at a time.

        `config_of` gives a topic's settings, where they are known by now; they may also be set later.
        """
        default = LogConfig()
        config_of = config_of if config_of is not None else lambda _: default
        # Everything that is made here stays: the collector would walk it again and again and find nothing.
        collecting = gc.isenabled()
        gc.disable()
        try:
            await asyncio.gather(*(self._load_dir(one, threads, config_of, workers) for one in self.online))
        finally:
            if collecting:
                gc.enable()
        self._require_one_online()

    async def _load_dir(
        self, one: LogDir, threads: Threads, config_of: Callable[[str], LogConfig], workers: int
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
            one.failed(error, f"could not remove the mark of the clean stop in {one.path}", fatal=True)

    async def _load_each(
        self, one: LogDir, survey: Survey, threads: Threads, config_of: Callable[[str], LogConfig], workers: int
    ) -> None:
        """Loads the logs that no state file describes, a few at a time."""
        total, done = len(survey.names), 0
        said = begun = self.clock.monotonic()
        todo: Iterator[PartitionName] = iter(survey.names)

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
                    logger.info("%s: %d of %d logs are loaded", one.path, done, total)

        await asyncio.gather(*(work() for _ in range(min(workers, total))))
        if total and not survey.clean:
            logger.info(
                "%s: %d logs recovered after an unclean stop, in %.1f s", one.path, done, self.clock.monotonic() - begun
            )

    def _add(self, log: Log) -> None:
        other = self.logs.get(log.name)
        if other is None:
            self.logs[log.name] = log
            return
        if moved_here(log) != moved_here(other):
            later, former = (log, other) if moved_here(log) else (other, log)
            logger.warning("%s has moved here: %s is removed", later.directory, former.directory)
            self.retire(former, later)
            self.fs.remove(join(later.directory, MOVED))
        elif log.end_offset == 0 or other.end_offset == 0:
            # A disk that failed while a partition was made there may have kept us from removing what there was of it.
            kept, empty = (other, log) if log.end_offset == 0 else (log, other)
            logger.warning("%s holds no records and is removed: there is %s", empty.directory, kept.directory)
            self.retire(empty, kept)
        else:
            raise LogDirsError(f"{log.name} is in two data directories: {other.directory} and {log.directory}")

    # -- finding, creating, deleting -------------------------------------------------------------------------------

    def find(self, topic: str, partition: int, topic_id: bytes) -> Log | None:
        """The log of this partition of this very topic. One that an earlier topic of the name left is moved away."""
        log = self.logs.get(PartitionName(topic, partition))
        if log is None or log.topic_id == topic_id:
            return log
        try:
            if log.topic_id == NO_TOPIC_ID:
                log.adopt_topic_id(topic_id)
                return log
            self._move_away(log, "stray")
        except StorageError as error:
            logger.error("%s: %s", log.directory, error.message)
        return None

    def lost_ends(self, boot_id: str, hosted: Iterable[tuple[str, int, bytes]]) -> list[tuple[str, int]]:
        """Of these partitions (topic, index, topic id), those whose logs may lack records that they once had.

        A log that is missing lost everything, unless it cannot have been there: no checkpoint speaks of it, and all
        directories are as they were left.
        """
        unsafe = {one.path: not one.online or one.may_lack_ends(boot_id) for one in self.all}
        any_unsafe = any(unsafe.values())
        lost = []
        for topic, index, topic_id in hosted:
            name = PartitionName(topic, index)
            log = self.logs.get(name)
            if log is not None and log.topic_id in (topic_id, NO_TOPIC_ID):
                if unsafe[log.home.path]:
                    lost.append((topic, index))
            elif any_unsafe or any(name in one.remembered for one in self.all):
                lost.append((topic, index))
        return lost

    async def remember_boot(self, threads: Threads, boot_id: str) -> None:
        """What may be lost has been dealt with: from now on it is what is there that counts, in this run of the
        machine."""
        for one in self.online:
            try:
                await threads.run(one.path, one.remember_boot, boot_id)
            except OSError as error:
                one.failed(error, f"could not write into {one.path}")

    def logs_not_in(self, topic_ids: Container[bytes]) -> list[Stray]:
        """The logs whose topic is not among these."""
        return [
            Stray(log.directory, log.topic, log.partition, log.topic_id)
            for log in self.logs.values()
            if log.topic_id not in topic_ids
        ]

    def create(self, topic: str, topic_id: bytes, partition: int, config: LogConfig) -> Log:
        """A new log where fewest partitions are, then where most room is. LogError where that is not possible."""
        name = PartitionName(topic, partition)
        if name in self.logs:
            raise LogError(ErrorCode.TOPIC_ALREADY_EXISTS, f"{name} exists already in {self.logs[name].directory}")
        online = self.online
        if not online:
            raise StorageError("all data directories are offline", fatal=True)
        counts = {one.path: len(one.residents) for one in online}
        fewest = min(counts.values())
        candidates = [one for one in online if counts[one.path] == fewest]
        if len(candidates) > 1:
            candidates.sort(key=LogDir.usable_bytes, reverse=True)
        home = candidates[0]
        directory = join(home.path, str(name))
        is_new = not self.fs.is_directory(directory)
        try:
            log = Log.create(name, topic_id, home, config, self.clock.now_ms())
        except StorageError:
            if is_new:
                # The next attempt may be made in another directory.
                with contextlib.suppress(OSError):
                    self.fs.remove_tree(directory)
            raise
        self.logs[name] = log
        return log

    def delete(self, log: Log) -> None:
        """Takes a log away. Its directory is renamed now, and removed when `file.delete.delay.ms` have passed."""
        doomed = self._move_away(log, "delete")
        log.home.doom([doomed], log.config.file_delete_delay_ms)

    def retire(self, former: Log, later: Log) -> None:
        """`later`, in another directory, is the partition's log from now on; `former` goes as a deleted one does."""
        self.delete(former)
        self.logs[later.name] = later

    def _move_away(self, log: Log, mark: str) -> str:
        """Takes the log out and gives its directory a name that says what is to become of it."""
        self.logs.pop(log.name, None)
        log.home.residents.pop(log.name, None)
        log.discard()
        path = join(log.home.path, marked_directory(log.name, self.randomness.uuid().hex(), mark))
        try:
            self.fs.rename(log.directory, path)
        except FileNotFoundError:
            pass  # somebody removed it: all the better
        except OSError as error:
            raise log.home.failed(error, f"could not move {log.directory} away") from error
        else:
            logger.info("%s is now %s", log.directory, path)
        return path

    # -- checkpoints -----------------------------------------------------------------------------------------------

    async def write_checkpoints(
        self, threads: Threads, high_watermarks: dict[PartitionName, int] | None = None
    ) -> None:
        """Writes recovery points and start offsets of all logs, and the high watermarks where given; then removes
        the files whose delay is over."""
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

    async def write_high_watermarks(self, threads: Threads, high_watermarks: dict[PartitionName, int]) -> None:
        """Writes the high watermarks alone, in the directories where one has changed."""
        for one in self.online:
            here = {name: high_watermarks[name] for name in one.residents if name in high_watermarks}
            if here != one.high_watermarks:
                one.high_watermarks = here
                contents = {checkpoints.HIGH_WATERMARKS: checkpoints.encode_offsets(here)}
                try:
                    await threads.run(one.path, one.write_checkpoints, contents)
                except OSError as error:
                    one.failed(error, f"could not write the checkpoints of {one.path}")

    def high_watermarks(self) -> dict[PartitionName, int]:
        """Those of the last checkpoint, as read at the start."""
        return {name: offset for one in self.all for name, offset in one.high_watermarks.items()}

    def truncate(self, cuts: list[tuple[Log, int]]) -> None:
        """Cuts many logs, with one write of the recovery points a directory instead of one a log."""
        lowered: dict[str, Home] = {}
        for log, offset in cuts:
            if offset < log.flushed_offset:
                log.flushed_offset = offset
                lowered[log.home.path] = log.home
        for home in lowered.values():
            home.save_checkpoints()
        now_ms = self.clock.now_ms()
        for log, offset in cuts:
            log.truncate_to(offset, now_ms)

    # -- stopping --------------------------------------------------------------------------------------------------

    async def close(self, threads: Threads, high_watermarks: dict[PartitionName, int] | None = None) -> None:
        """Closes all logs and marks each directory where that went well as cleanly stopped. Gives the locks back."""
        await asyncio.gather(*(self._close_dir(one, threads, high_watermarks) for one in self.online))
        self.release()

    async def _close_dir(self, one: LogDir, threads: Threads, high_watermarks: dict[PartitionName, int] | None) -> None:
        logs = [log for log in self.logs.values() if log.home is one]
        states = await threads.run(one.path, one.close_logs, logs, self.clock.now_ms())
        if states is None:
            return
        contents = one.checkpoint_contents(high_watermarks)
        try:
            await threads.run(one.path, one.mark_clean_stop, states, contents)
        except OSError as error:
            one.failed(error, f"could not mark the clean stop of {one.path}")

    def release(self) -> None:
        """Gives locks and descriptors back, as the end of the process would."""
        for log in self.logs.values():
            log.close_files()
        for one in self.all:
            one.release()
