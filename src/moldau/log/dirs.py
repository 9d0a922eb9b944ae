"""All data directories of a broker, and the logs in them.

Each directory is locked for this process, knows whose it is (`meta.properties`), and fails on its own: one disk that
breaks takes its partitions along, not the broker. A clean stop leaves one state file a directory, so that a start
with many thousand partitions opens none of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from posixpath import join

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
from moldau.log.names import PartitionName, marked_directory
from moldau.wire.errors import ErrorCode

logger = logging.getLogger(__name__)

RECOVERY_WORKERS = 2
"""Logs of one directory that are loaded at a time (Kafka's num.recovery.threads.per.data.dir)."""

PROGRESS_SECONDS = 5.0
"""How often a long recovery says how far it is."""

GC_FRIENDLY_CHUNK = 1000
"""Logs made of a state file between two turns of the loop."""


class LogDirsError(Exception):
    """The directories cannot be used: in use elsewhere, somebody else's, or all broken. Says which and why."""


class LogDirs:
    """The data directories (`log.dirs`). Everything is called on the loop; what blocks goes to `threads`."""

    def __init__(
        self,
        paths: list[str],
        fs: FileSystem,
        clock: Clock,
        randomness: Randomness,
        on_failure: Callable[[LogDir], None] | None = None,
    ) -> None:
        """`on_failure` hears of a directory that went offline; it may be called from any thread."""
        if not paths or len(set(paths)) != len(paths):
            raise LogDirsError(f"the data directories must be distinct, and at least one: {paths}")
        self.fs = fs
        self.clock = clock
        self.randomness = randomness
        self.index_cache = IndexCache()
        self.logs: dict[PartitionName, Log] = {}
        self._on_failure = on_failure
        self.dirs = [
            LogDir(path, fs, index_cache=self.index_cache, randomness=randomness, on_failure=self._failed)
            for path in paths
        ]

    def _failed(self, home: Home) -> None:
        if self._on_failure is not None and isinstance(home, LogDir):
            self._on_failure(home)

    @property
    def online(self) -> list[LogDir]:
        return [one for one in self.dirs if one.failure is None]

    # -- starting --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Makes and locks the directories. LogDirsError where another process has one, or none can be used."""
        for one in self.dirs:
            try:
                one.open()
            except AlreadyLocked as error:
                self.release()
                owner = f"process {error.pid}" if error.pid is not None else "another process"
                raise LogDirsError(
                    f"the data directory {one.path} is in use by {owner}; one broker at a time can have it"
                ) from None
            except OSError as error:
                one.failed(error, f"could not open {one.path}", fatal=True)
        self._require_one_online()

    def identify(self, cluster_id: str, node_id: int) -> None:
        """Checks that the directories are this broker's, and marks new ones as such."""
        for one in self.online:
            try:
                one.identify(cluster_id, node_id)
            except checkpoints.BadCheckpointError as error:
                raise LogDirsError(f"{join(one.path, checkpoints.META_PROPERTIES)}: {error}") from None
            except OSError as error:
                one.failed(error, f"could not mark {one.path}", fatal=True)
        self._require_one_online()

    def _require_one_online(self) -> None:
        if not self.online:
            self.release()
            reasons = "; ".join(str(one.failure) for one in self.dirs)
            raise LogDirsError(f"no data directory can be used: {reasons}")

    async def load(self, threads: Threads, config_of: Callable[[str], LogConfig]) -> None:
        """Finds all logs, recovering those that a crash left; `config_of` gives a topic's settings."""
        await asyncio.gather(*(self._load_dir(one, threads, config_of) for one in self.online))
        self._require_one_online()

    async def _load_dir(self, one: LogDir, threads: Threads, config_of: Callable[[str], LogConfig]) -> None:
        try:
            survey = await threads.run(one.path, one.survey)
        except OSError as error:
            one.failed(error, f"could not read {one.path}", fatal=True)
            return
        for number, state in enumerate(survey.states):
            self._add(Log.from_state(state, one, config_of(state.name.topic)))
            if number % GC_FRIENDLY_CHUNK == 0:
                await asyncio.sleep(0)
        await self._load_each(one, survey, threads, config_of)
        try:
            await threads.run(one.path, one.forget_clean_stop)
        except OSError as error:
            one.failed(error, f"could not remove the mark of the clean stop in {one.path}", fatal=True)

    async def _load_each(
        self, one: LogDir, survey: Survey, threads: Threads, config_of: Callable[[str], LogConfig]
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

        await asyncio.gather(*(work() for _ in range(min(RECOVERY_WORKERS, total))))
        if total and not survey.clean:
            logger.info(
                "%s: %d logs recovered after an unclean stop, in %.1f s", one.path, done, self.clock.monotonic() - begun
            )

    def _add(self, log: Log) -> None:
        other = self.logs.get(log.name)
        if other is not None:
            raise LogDirsError(f"{log.name} is in two data directories: {other.directory} and {log.directory}")
        self.logs[log.name] = log

    # -- creating and deleting -------------------------------------------------------------------------------------

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
        log = Log.create(name, topic_id, candidates[0], config, self.clock.now_ms())
        self.logs[name] = log
        return log

    def delete(self, log: Log) -> None:
        """Takes a log away. Its directory is renamed now and removed later, by `remove_doomed`."""
        self.logs.pop(log.name, None)
        home = log.home
        home.residents.pop(log.name, None)
        log.discard()
        doomed = join(home.path, marked_directory(log.name, self.randomness.uuid().hex(), "delete"))
        try:
            self.fs.rename(log.directory, doomed)
        except FileNotFoundError:
            return
        except OSError as error:
            raise home.failed(error, f"could not delete {log.directory}") from error
        home.doom([doomed], log.config.file_delete_delay_ms)

    async def remove_doomed(self, threads: Threads) -> None:
        """Removes the files whose delay is over."""
        now_ms = self.clock.now_ms()
        for one in self.online:
            due = one.take_due(now_ms)
            if due:
                await threads.run(one.path, one.remove_all, due)

    # -- checkpoints -----------------------------------------------------------------------------------------------

    async def checkpoint(self, threads: Threads, high_watermarks: dict[PartitionName, int] | None = None) -> None:
        """Writes recovery points and start offsets of all logs, and the high watermarks where given."""
        for one in self.online:
            contents = one.checkpoint_contents(high_watermarks)
            try:
                await threads.run(one.path, one.write_checkpoints, contents)
            except OSError as error:
                one.failed(error, f"could not write the checkpoints of {one.path}")

    def high_watermarks(self) -> dict[PartitionName, int]:
        """Those of the last checkpoint, as read at the start."""
        return {name: offset for one in self.dirs for name, offset in one.high_watermarks.items()}

    def truncate(self, cuts: list[tuple[Log, int]]) -> None:
        """Cuts many logs, with one write of the recovery points a directory instead of one a log."""
        lowered: dict[str, Home] = {}
        for log, offset in cuts:
            if offset < log.flushed_offset:
                log.flushed_offset = offset
                lowered[log.home.path] = log.home
        for home in lowered.values():
            home.save_recovery_points()
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
        """Gives the locks back, as the end of the process would."""
        for one in self.dirs:
            one.release()
