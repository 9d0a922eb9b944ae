"""All partitions that this broker hosts: made and removed as the cluster's image says, flushed, aged, and taken offline
when their disk fails.

The image is followed by one task, in order: a change that comes while another is being carried out waits, and whoever
asked for it can wait for `settled`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from moldau.cluster.image import ClusterImage, TopicImage, topics_delta
from moldau.host.clock import Clock
from moldau.host.threads import Threads
from moldau.log.config import LogConfig
from moldau.log.dirs import LogDirs
from moldau.log.errors import LogError, StorageError
from moldau.log.log import Log
from moldau.log.log_dir import LogDir
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode

log = logging.getLogger(__name__)

CREATIONS_A_TURN = 16
"""Log directories made before the loop gets to look after its clients again."""

FLUSH_TICK_S = 0.1
"""How late `flush.ms` may be."""

RETRY_S = 1.0
"""After a flush, or the making of a log, that met a full disk."""

TopicKey = str | bytes


class ReplicaManager:
    def __init__(
        self,
        node_id: int,
        dirs: LogDirs,
        threads: Threads,
        clock: Clock,
        log_config: Callable[[TopicImage], LogConfig],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self.node_id = node_id
        self.dirs = dirs
        self._threads = threads
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._unflushed: dict[Partition, None] = {}
        self._log_config = log_config
        self._spawn = spawn
        self._topics: dict[TopicKey, dict[int, Partition]] = {}  # each topic under its name and under its id
        self._image: ClusterImage | None = None
        self._changes: asyncio.Lock = asyncio.Lock()
        self._missing: dict[tuple[str, int], bool] = {}
        """Partitions that should be here and are not: the disk was full when they were to be made, or they are in a
        directory that is offline. True for those that are new, and may therefore be made in any directory."""
        self._made_missing_at = 0.0
        self._stopped = False
        dirs.on_failure(self._directory_failed)

    # -- looking up ------------------------------------------------------------------------------------------------

    def find(self, topic: TopicKey, index: int) -> Partition | None:
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(index)

    def why_missing(self, topic: TopicKey, index: int) -> ErrorCode:
        """What to tell a client that asks for a partition that is not hosted here."""
        assert self._image is not None
        name = self._image.topic_names_by_id.get(topic) if isinstance(topic, bytes) else topic
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if (name, index) in self._missing:
            self._make_missing()
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def __iter__(self) -> Iterator[Partition]:
        for key, partitions in self._topics.items():
            if isinstance(key, str):
                yield from partitions.values()

    def __len__(self) -> int:
        return sum(len(partitions) for key, partitions in self._topics.items() if isinstance(key, str))

    @property
    def offline_count(self) -> int:
        return sum(1 for partition in self if partition.failure)

    def offline_in(self, topic: str) -> frozenset[int]:
        """The partitions of a topic that cannot be served; nearly always none."""
        if not self.dirs.any_offline and not self._missing:
            return frozenset()
        failed = frozenset(index for index, partition in self._topics.get(topic, {}).items() if partition.failure)
        return failed.union(index for name, index in self._missing if name == topic)

    # -- following the image ---------------------------------------------------------------------------------------

    async def start(self, image: ClusterImage) -> None:
        """Take the logs that were found on disk, make those that are missing."""
        self._image = image
        for topic in image.topics.values():
            await self._host(topic, new=False)
        for stray in self.dirs.logs_not_in(image.topic_names_by_id):
            log.warning(
                "directory belongs to no topic and is left alone",
                extra={"directory": stray.path, "topic": stray.topic, "partition": stray.partition},
            )
        await self._flush_found()

    async def _flush_found(self) -> None:
        """Bring to disk what a crash left behind.

        Records of topics that flush before they show are flushed before any reader comes; a disk that does not let us
        is no reason to hide them, for they may have been seen. The rest (indexes of recovered segments) can wait.
        """
        now_ms = self._clock.now_ms()
        unsafe = []
        for partition in self:
            if partition.log.needs_flush(now_ms):
                task = self.flush(partition)
                if task is not None and partition.log.flush_barrier < partition.log.end_offset:
                    unsafe.append(task)
        if unsafe:
            await asyncio.wait(unsafe)

    @property
    def started(self) -> bool:
        return self._image is not None

    async def settled(self) -> None:
        """Returns when every image that was published before the call has been followed."""
        async with self._changes:
            pass

    async def follow(self, new: ClusterImage) -> None:
        """Carry out what changed between the last image and this one."""
        async with self._changes:
            old = self._image
            assert old is not None
            self._image = new
            delta = topics_delta(old, new)
            for topic in delta.deleted:
                self._unhost(topic)
            for topic in delta.created:
                await self._host(topic, new=True)
            for _, topic in delta.altered:
                await self._host(topic, new=True)
                self._reconfigure(topic)

    def reconfigure_all(self) -> None:
        """A broker-wide default changed."""
        assert self._image is not None
        for topic in self._image.topics.values():
            self._reconfigure(topic)

    async def _host(self, topic: TopicImage, *, new: bool) -> None:
        config = self._log_config(topic)
        partitions = self._topics.setdefault(topic.name, {})
        self._topics[topic.id] = partitions
        made = 0
        for index, state in enumerate(topic.partitions):
            known = partitions.get(index)
            if known is not None:
                known.leader_epoch = state.leader_epoch
                known.in_sync_count = len(state.isr)
                continue
            if self.node_id not in state.replicas:
                continue
            found = self.dirs.find(topic.name, index, topic.id)
            if found is None:
                found = self._create(topic, index, config, new)
                made += 1
                if made % CREATIONS_A_TURN == 0:
                    await asyncio.sleep(0)
            if found is not None:
                found.config = config
                partitions[index] = Partition(topic.name, topic.id, index, found, state.leader_epoch, len(state.isr))

    def _create(self, topic: TopicImage, index: int, config: LogConfig, new: bool) -> Log | None:
        key = (topic.name, index)
        new = self._missing.get(key, new)
        try:
            if not new and self.dirs.any_offline:
                # Its records may be in there: an empty log elsewhere would make them look deleted.
                raise StorageError("it may be in a data directory that is offline", fatal=True)
            found = self.dirs.create(topic.name, topic.id, index, config)
        except (LogError, OSError) as error:
            log.error(
                "partition cannot be created", extra={"topic": topic.name, "partition": index, "reason": str(error)}
            )
            self._missing[key] = new
            return None
        self._missing.pop(key, None)
        return found

    def _make_missing(self) -> None:
        """Somebody asked for a partition that could not be made: see whether it can be now, not too often."""
        now = self._loop.time()
        if now - self._made_missing_at >= RETRY_S and not self._stopped:
            self._made_missing_at = now
            self._spawn(self._host_missing())

    async def _host_missing(self) -> None:
        async with self._changes:
            assert self._image is not None
            for name in dict.fromkeys(name for name, _ in self._missing):
                await self._host(self._image.topics[name], new=True)

    def _unhost(self, topic: TopicImage) -> None:
        partitions = self._topics.pop(topic.id, {})
        self._topics.pop(topic.name, None)
        for key in [key for key in self._missing if key[0] == topic.name]:
            del self._missing[key]
        for partition in partitions.values():
            partition.fail(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self.dirs.delete(partition.log)

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._log_config(topic)
        for partition in self._topics.get(topic.name, {}).values():
            partition.log.config = config

    # -- durability ------------------------------------------------------------------------------------------------

    def appended(self, partition: Partition) -> None:
        """Records were appended: flush at once where they may not be acknowledged before, else when it is due."""
        if partition.log.flush_barrier != partition.log.end_offset:
            self.flush(partition)
        elif partition not in self._unflushed:
            self._unflushed[partition] = None
            if len(self._unflushed) == 1:
                self._loop.call_later(FLUSH_TICK_S, self._flush_due)

    def _flush_due(self) -> None:
        """Look through the partitions that were written to: `flush.ms` may have passed, a segment may be complete."""
        now_ms = self._clock.now_ms()
        for partition in list(self._unflushed):
            if partition.log.needs_flush(now_ms):
                self.flush(partition)
            if not partition.log.flushes_by_time or partition.failure:
                del self._unflushed[partition]
        if self._unflushed:
            self._loop.call_later(FLUSH_TICK_S, self._flush_due)

    def flush(self, partition: Partition) -> asyncio.Task[None] | None:
        """Bring records to disk, off the loop; one flush at a time: what comes meanwhile shares the next."""
        if partition.flushing or partition.failure or self._stopped:
            return None
        partition.flushing = True
        return self._spawn(self._flush(partition))

    async def _flush(self, partition: Partition) -> None:
        log_ = partition.log
        try:
            while (job := log_.flush_job()) is not None:
                await self._threads.run(f"flush:{partition.topic}", job.run)
                log_.flush_done(job, self._clock.now_ms())
                partition.advance()
                if not log_.needs_flush(self._clock.now_ms()):
                    return
        except StorageError as error:
            # Nobody can say what is on disk, so nobody is told that it is. A disk that is full may recover; one that
            # failed has taken its directory offline, and with it all its partitions.
            partition.fail_acks(ErrorCode.KAFKA_STORAGE_ERROR)
            if not error.fatal:
                self._loop.call_later(RETRY_S, self.flush, partition)
        finally:
            partition.flushing = False

    def stop(self) -> None:
        """Begin no further flush: the logs are about to be closed, which flushes them."""
        self._stopped = True

    # -- aging -----------------------------------------------------------------------------------------------------

    async def delete_before(self, partition: Partition, offset: int) -> None:
        partition.log.delete_before(offset)
        partition.truncated()

    async def apply_retention(self, now_ms: int) -> None:
        for partition in list(self):
            if partition.failure:
                continue
            try:
                removed = partition.log.delete_old_segments(now_ms, partition.high_watermark)
            except LogError as error:
                log.error("retention failed", extra={"partition": repr(partition), "reason": error.message})
                continue
            if removed:
                log.info("old segments removed", extra={"partition": repr(partition), "segments": removed})
            await asyncio.sleep(0)

    async def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Have every partition forget the producers that have been silent for this long."""
        for number, partition in enumerate(list(self)):
            partition.log.producers.expire(now_ms, expiration_ms)
            if number % CREATIONS_A_TURN == 0:
                await asyncio.sleep(0)

    # -- failure ---------------------------------------------------------------------------------------------------

    def _directory_failed(self, directory: LogDir) -> None:
        """Called from whatever thread met the error."""
        self._loop.call_soon_threadsafe(self._fail_partitions, directory)

    def _fail_partitions(self, directory: LogDir) -> None:
        for partition in self:
            if partition.log.home is directory:
                partition.fail(ErrorCode.KAFKA_STORAGE_ERROR)
