"""Log cleaner: picks the dirtiest compacted log, has a worker compact it, and swaps in the result.

A worker process (`log.clean.worker`) does the work. It is started for the first job. The event loop decides, renames
files and exchanges segments, but never reads records. With a simulated disk, which other processes cannot see, a thread
does the work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from posixpath import join
from typing import Protocol

from moldau.host.clock import Clock, Randomness
from moldau.host.event_log import event_logger
from moldau.host.fault_points import FaultPoint
from moldau.host.fs import FileSystem, LocalFileSystem
from moldau.host.processes import BrokenPipeToChild, Child
from moldau.host.threads import Threads
from moldau.log import checkpoints
from moldau.log.checkpoints import BadCheckpointError
from moldau.log.clean import compaction
from moldau.log.clean.cleanable_log import PreparedCleaning, Resources, prepare, view_of
from moldau.log.clean.job import CleaningFailed, Finished, Job, Replacement, Report, decode_report, encode_job
from moldau.log.clean.schedule import Dirt, assess, worth_cleaning
from moldau.log.clean.swap import Swap
from moldau.log.clean.worker import MODULE
from moldau.log.config import MAX_LONG
from moldau.log.dirs import LogDirs
from moldau.log.errors import LogError
from moldau.log.log import Log
from moldau.log.log_dir import DataDirectory
from moldau.replication.partition import Partition
from moldau.settings import BrokerSettings
from moldau.wire.topic_partition import TopicPartition

log = event_logger(__name__)

LOGS_PER_TURN = 100
"""Logs that are assessed before the loop may serve clients again."""

REST_AFTER_FAILURE_S = 60.0
"""How long a log is skipped after its cleaning failed, so that others are cleaned."""

LEAST_READ_BYTES = 4096
LEAST_DEDUPE_BYTES = 4096
LOAD_FACTORS = (0.05, 1.0)
LEAST_BYTES_PER_SECOND = 1.0
"""Limits of settings for which Kafka has none. Values outside are replaced by the nearest limit."""

LANE = "clean"

before_checkpoint = FaultPoint("cleaner.before-checkpoint")
after_checkpoint = FaultPoint("cleaner.after-checkpoint")

Take = Callable[[Replacement], Awaitable[None]]


class Worker(Protocol):
    """Compacts logs."""

    async def run(self, job: Job, seed: bytes, take: Take) -> Finished | CleaningFailed:
        """Run a job. Each finished segment is passed to `take`. Returns the outcome of the job."""

    async def stop(self) -> None:
        """Stop at once, even during a job. `run` then returns Failed."""


class WorkerProcess:
    """A worker in its own process, started for the first job and again if it has died."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._stopped = False

    async def run(self, job: Job, seed: bytes, take: Take) -> Finished | CleaningFailed:
        try:
            if self._child is None:
                self._child = await Child.start(MODULE)
                log.info("cleaner process started", extra={"pid": self._child.pid})
            child = self._child
            if self._stopped:  # while the process was starting
                raise BrokenPipeToChild("the cleaner is stopping")
            await child.send(encode_job(job))
            while True:
                report = decode_report(await child.receive())
                if not isinstance(report, Replacement):
                    return report
                await take(report)
        except (BrokenPipeToChild, OSError) as error:
            await self._end()
            return CleaningFailed(f"the cleaner process has ended: {error}", lasting=False)

    async def stop(self) -> None:
        self._stopped = True
        await self._end()

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.kill()


class WorkerThread:
    """A worker in a thread, for simulated disks, which only this process can see."""

    def __init__(self, fs: FileSystem, threads: Threads) -> None:
        self._fs = fs
        self._threads = threads

    async def run(self, job: Job, seed: bytes, take: Take) -> Finished | CleaningFailed:
        reports: list[Report] = []
        await self._threads.run(LANE, compaction.run, job, self._fs, reports.append, lambda _: None, seed)
        for report in reports:
            if isinstance(report, Replacement):
                await take(report)
            else:
                return report
        return CleaningFailed("the job ended without a result", lasting=False)

    async def stop(self) -> None:
        pass


@dataclass(slots=True)
class CleanerCounts:
    """Counters since the start of the broker."""

    cleanings: int = 0
    failures: int = 0
    segments_replaced: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class HostedPartitions(Protocol):
    """The partitions of a broker."""

    def __iter__(self) -> Iterator[Partition]: ...

    def flush(self, partition: Partition) -> object:
        """Begin to flush the partition."""


class LogCleaner:
    """The cleaner of one broker. It cleans one log at a time, the dirtiest first."""

    def __init__(
        self,
        settings: Callable[[], BrokerSettings],
        partitions: HostedPartitions,
        dirs: LogDirs,
        threads: Threads,
        clock: Clock,
        randomness: Randomness,
        worker: Worker | None = None,
    ) -> None:
        self._settings = settings
        self._partitions = partitions
        self._dirs = dirs
        self._threads = threads
        self._clock = clock
        self._randomness = randomness
        own_disk = isinstance(dirs.fs, LocalFileSystem)
        self._worker = worker or (WorkerProcess() if own_disk else WorkerThread(dirs.fs, threads))
        self._clean_up_to: dict[Log, int] = {}
        """The offset where the last cleaning of each log ended, as in `cleaner-offset-checkpoint`. The key is the log
        and not its name, so that a topic that is deleted and created again starts from 0."""
        self._given_up: dict[Log, float] = {}
        """Logs that are skipped after a failure, and until when."""
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.counts = CleanerCounts()

    # -- lifecycle -------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start cleaning. To be called after the logs were loaded and before they grow, because the offsets in the
        checkpoints are compared with the log end offsets."""
        if self._settings()["log.cleaner.enable"]:
            await self.remember()
            self._task = asyncio.get_running_loop().create_task(self._run_loop())

    async def remember(self) -> None:
        """Read the offsets where earlier cleanings ended from the checkpoints."""
        for directory in self._dirs.online:
            await self._read_checkpoint(directory)

    async def stop(self) -> None:
        """Stop and wait until no cleaning is in progress. An interrupted cleaning is repeated after the next start."""
        self._stopping.set()
        await self._worker.stop()
        if self._task is not None:
            await self._task

    async def _run_loop(self) -> None:
        while not self._stopping.is_set():
            try:
                if await self.clean_one():
                    continue
            except Exception:
                # A bug. Continue with other logs, so that one failure does not stop all cleaning.
                log.exception("cleaning failed")
                self.counts.failures += 1
            try:
                async with asyncio.timeout(self._settings()["log.cleaner.backoff.ms"] / 1000):
                    await self._stopping.wait()
            except TimeoutError:
                pass

    def truncated(self, one: Log, offset: int) -> None:
        """The log was truncated to `offset`. Records that are appended after it are not clean."""
        if self._clean_up_to.get(one, 0) > offset:
            self._clean_up_to[one] = offset

    # -- selection -------------------------------------------------------------------------------------------------

    async def clean_one(self) -> bool:
        """Clean the dirtiest log that is due. False if none is due."""
        chosen = await self._dirtiest()
        if chosen is None or self._stopping.is_set():
            return False
        partition, dirt = chosen
        while True:
            upper = dirt.upper_offset
            end = await self._clean(partition.log, dirt)
            if end is None or end >= upper or self._stopping.is_set():
                return True
            # The keys of the dirty part did not fit in memory. Clean the rest now, whatever its dirty ratio is.
            dirt = await self._assess(partition)
            if dirt.upper_offset <= dirt.first_dirty_offset:
                return True

    async def _dirtiest(self) -> tuple[Partition, Dirt] | None:
        best: tuple[Partition, Dirt] | None = None
        for number, partition in enumerate(list(self._partitions)):
            if number % LOGS_PER_TURN == LOGS_PER_TURN - 1:
                await asyncio.sleep(0)
            one = partition.log
            if not one.config.compacts or partition.failure or one.closed or self._is_given_up(one):
                continue
            if one.needs_flush(self._clock.now_ms()):
                # Files that a recovery has rebuilt are not on disk yet, and only data on disk can be cleaned. Without
                # new records, nothing else would flush this log.
                self._partitions.flush(partition)
            dirt = await self._assess(partition)
            if worth_cleaning(dirt, one.config) and (best is None or dirt.ratio > best[1].ratio):
                best = partition, dirt
        return best

    async def _assess(self, partition: Partition) -> Dirt:
        one = partition.log
        view = view_of(one, partition.high_watermark, self._clean_up_to.get(one))
        config, now_ms = one.config, self._clock.now_ms()
        if config.min_compaction_lag_ms > 0 or config.max_compaction_lag_ms < MAX_LONG:
            return await self._threads.run(LANE, assess, view, config, now_ms)  # it reads from segments
        return assess(view, config, now_ms)

    def _is_given_up(self, one: Log) -> bool:
        until = self._given_up.get(one)
        return until is not None and self._clock.monotonic() < until

    # -- cleaning --------------------------------------------------------------------------------------------------

    async def _clean(self, one: Log, dirt: Dirt) -> int | None:
        """Clean a log once. Returns the offset where the cleaning ended; None if it failed."""
        began = self._clock.monotonic()
        try:
            prepared = await self._threads.run(LANE, prepare, one, dirt, self._clock.now_ms(), self._resources())
        except LogError as error:
            self._give_up(one, CleaningFailed(error.message, lasting=False))
            return None
        replaced = await self._run(one, prepared)
        if replaced is None:
            return None
        finished, segments = replaced
        self._clean_up_to[one] = finished.end_offset
        await self._write_checkpoint(one)
        self.counts.cleanings += 1
        self.counts.segments_replaced += segments
        self.counts.bytes_read += finished.bytes_read
        self.counts.bytes_written += finished.bytes_written
        log.info(
            "log cleaned",
            extra={
                "partition": str(one.name),
                "from": dirt.first_dirty_offset,
                "to": finished.end_offset,
                "keys": finished.keys,
                "bytes_before": sum(
                    source.size for source in prepared.job.sources if source.base_offset < finished.end_offset
                ),
                "bytes_after": finished.bytes_left,
                "seconds": round(self._clock.monotonic() - began, 3),
            },
        )
        return finished.end_offset

    async def _run(self, one: Log, prepared: PreparedCleaning) -> tuple[Finished, int] | None:
        """Run the job. Returns its result and the number of replaced segments; None if it failed or the log has
        changed."""
        sizes = {source.base_offset: source.size for source in prepared.job.sources}
        taken: list[bool] = []

        async def take(replacement: Replacement) -> None:
            taken.append(await self._swap(Swap(one, prepared.segments, sizes, replacement), one))

        outcome = await self._worker.run(prepared.job, self._randomness.uuid(), take)
        if isinstance(outcome, Finished) and all(taken):
            return outcome, len(taken)
        await self._threads.run(LANE, self._sweep, one)
        if one.closed or self._stopping.is_set():
            return None  # deleted or closed meanwhile: not worth a log line
        self._give_up(
            one,
            outcome
            if isinstance(outcome, CleaningFailed)
            else CleaningFailed("the log has changed during the cleaning", lasting=False),
        )
        return None

    async def _swap(self, swap: Swap, one: Log) -> bool:
        try:
            if not swap.decide():
                return False
            await self._threads.run(LANE, swap.sync)
            return swap.finish()
        except OSError as error:
            one.data_dir.failed(error, f"could not sync {one.directory}", fatal=True)
        except LogError:
            pass  # already logged, and the directory is offline
        return False

    def _sweep(self, one: Log) -> None:
        try:
            compaction.sweep(self._dirs.fs, one.directory)
        except OSError as error:
            log.warning(
                "files of a failed cleaning cannot be deleted", extra={"partition": str(one.name), "reason": str(error)}
            )

    def _give_up(self, one: Log, failure: CleaningFailed) -> None:
        self.counts.failures += 1
        rest = float("inf") if failure.lasting else REST_AFTER_FAILURE_S
        self._given_up[one] = self._clock.monotonic() + rest
        level = logging.ERROR if failure.lasting else logging.WARNING
        log.log(level, "log cannot be cleaned", extra={"partition": str(one.name), "reason": failure.reason})

    def _resources(self) -> Resources:
        settings = self._settings()
        return Resources(
            dedupe_bytes=max(LEAST_DEDUPE_BYTES, settings["log.cleaner.dedupe.buffer.size"]),
            load_factor=min(max(LOAD_FACTORS[0], settings["log.cleaner.io.buffer.load.factor"]), LOAD_FACTORS[1]),
            read_bytes=max(LEAST_READ_BYTES, settings["log.cleaner.io.buffer.size"]),
            bytes_per_second=max(LEAST_BYTES_PER_SECOND, settings["log.cleaner.io.max.bytes.per.second"]),
        )

    # -- checkpoints -----------------------------------------------------------------------------------------------

    async def _read_checkpoint(self, directory: DataDirectory) -> None:
        path = join(directory.path, checkpoints.CLEANED)
        try:
            data = await self._threads.run(LANE, directory.fs.read_bytes, path)
            offsets = checkpoints.decode_offsets(data)
        except FileNotFoundError:
            return
        except (OSError, BadCheckpointError) as error:
            log.warning(
                "checkpoint cannot be read, all logs are cleaned again", extra={"path": path, "reason": str(error)}
            )
            return
        for name, one in directory.logs.items():
            offset = offsets.get(name)
            if offset is not None and one.start_offset <= offset <= one.end_offset:
                self._clean_up_to[one] = offset

    async def _write_checkpoint(self, one: Log) -> None:
        directory = one.data_dir
        for gone in [other for other in self._clean_up_to if other.closed]:
            del self._clean_up_to[gone]
            self._given_up.pop(gone, None)
        offsets = dict(self._clean_in(directory.path))
        path = join(directory.path, checkpoints.CLEANED)
        before_checkpoint()
        try:
            await self._threads.run(
                LANE, directory.fs.write_atomically, path, checkpoints.encode_offsets(offsets), sync=True
            )
        except OSError as error:
            directory.failed(error, f"could not write {path}")
        after_checkpoint()

    def _clean_in(self, path: str) -> Iterator[tuple[TopicPartition, int]]:
        for one, offset in self._clean_up_to.items():
            if one.data_dir.path == path:
                yield one.name, offset
