"""Replica manager: all partitions that this broker hosts.

It creates and removes partitions as the cluster image says, leads them or copies them from their leaders, applies
retention, and takes partitions offline when their disk fails. Images are applied one at a time, in order. A request
that depends on a change can wait for `settled`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from typing import Any, NamedTuple

from moldau.cluster.image import ClusterImage, PartitionState, TopicImage, topics_delta
from moldau.cluster.store import StoreError
from moldau.host.clock import Clock
from moldau.host.event_log import event_logger
from moldau.host.threads import Threads
from moldau.log.config import LogConfig
from moldau.log.dirs import LogDirs
from moldau.log.errors import LogError, StorageError
from moldau.log.log import Log
from moldau.log.log_dir import DataDirectory
from moldau.net.peer_connection import PeerConnection
from moldau.replication.fetcher import FetchLimits, Surroundings
from moldau.replication.fetchers import ReplicaFetchers
from moldau.replication.flushing import Flushing
from moldau.replication.isr_manager import ChangeIsr, IsrManager
from moldau.replication.partition import AckWaiter, Partition
from moldau.replication.shared_reads import SharedReads
from moldau.replication.throttles import Rates, Throttles
from moldau.wire.errors import ErrorCode
from moldau.wire.number_types import BrokerEpoch
from moldau.wire.topic_partition import TopicPartition

log = event_logger(__name__)

TURN = 16
"""Number of log directories to create, or of partitions to process, before the loop may serve clients again."""

RETRY_S = 1.0
"""Minimum delay before a failed creation of a log or a failed resignation is tried again."""

TopicKey = str | bytes
LeadershipListener = Callable[[Partition, bool], None]


class ReplicationLimits(NamedTuple):
    """The broker settings for replication."""

    max_lag_s: float = 30.0
    fetch: FetchLimits = FetchLimits()
    rates: Rates = Rates()


class ClusterAccess(NamedTuple):
    """The parts of the cluster that replication uses."""

    connect: Callable[[int], Awaitable[PeerConnection]]
    change_isr: ChangeIsr
    resign: Callable[[Collection[TopicPartition]], Awaitable[None]]
    broker_epoch: Callable[[], int]
    limits: Callable[[], ReplicationLimits]


class ReplicaManager:
    def __init__(
        self,
        node_id: int,
        dirs: LogDirs,
        threads: Threads,
        clock: Clock,
        log_config: Callable[[TopicImage], LogConfig],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        cluster: ClusterAccess,
    ) -> None:
        self.node_id = node_id
        self.dirs = dirs
        self._loop = asyncio.get_running_loop()
        self._log_config = log_config
        self._spawn = spawn
        self._cluster = cluster
        self._flushing = Flushing(threads, clock, spawn)
        self.appended = self._flushing.appended
        self.flush = self._flushing.flush
        self.in_sync = IsrManager(cluster.change_isr, lambda: cluster.limits().max_lag_s, spawn)
        self.shared_reads = SharedReads()
        self.throttles = Throttles(node_id, self._topic, lambda: cluster.limits().rates, self._loop.time)
        self._fetchers = ReplicaFetchers(
            Surroundings(
                node_id,
                cluster.broker_epoch,
                clock,
                lambda: cluster.limits().fetch,
                cluster.connect,
                self._flushing.appended,
                self.throttles.holds_back,
                self.throttles.copied,
            ),
            spawn,
        )
        self._clock = clock
        self._topics: dict[TopicKey, dict[int, Partition]] = {}  # each topic has two keys: its name and its id
        self._image: ClusterImage | None = None
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._leadership_listeners: list[LeadershipListener] = []
        self._changes: asyncio.Lock = asyncio.Lock()
        self._missing: dict[TopicPartition, bool] = {}
        """Partitions that should be hosted here but are not: their creation failed, or their data directory is offline.
        The value is True for new partitions, which may be created in any directory."""
        self._made_missing_at = 0.0
        self._lag_check: asyncio.TimerHandle | None = None
        self._stopped = False
        dirs.on_failure(self._directory_failed)

    def on_leadership(self, listener: LeadershipListener) -> None:
        """Call `listener(partition, True)` when this broker starts to lead a partition in a new epoch, and with False
        when it no longer leads it. Called on the loop, in the same turn."""
        self._leadership_listeners.append(listener)

    # -- lookup ----------------------------------------------------------------------------------------------------

    def find(self, topic: TopicKey, index: int) -> Partition | None:
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(index)

    def why_missing(self, topic: TopicKey, index: int) -> ErrorCode:
        """The error for a request for a partition that is not hosted here."""
        assert self._image is not None
        name = self._image.topic_names_by_id.get(topic) if isinstance(topic, bytes) else topic
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if (name, index) in self._missing:
            self._make_missing()
            return ErrorCode.KAFKA_STORAGE_ERROR
        state = self._image.partition(name, index)
        if state is not None and self.node_id not in state.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _topic(self, name: str) -> TopicImage | None:
        return None if self._image is None else self._image.topics.get(name)

    def __iter__(self) -> Iterator[Partition]:
        for key, partitions in self._topics.items():
            if isinstance(key, str):
                yield from partitions.values()

    def __len__(self) -> int:
        return sum(len(partitions) for key, partitions in self._topics.items() if isinstance(key, str))

    @property
    def offline_count(self) -> int:
        return sum(1 for partition in self if partition.failure)

    @property
    def fetcher_count(self) -> int:
        return len(self._fetchers)

    def offline_in(self, topic: str) -> frozenset[int]:
        """The partitions of a topic that cannot be served; nearly always none."""
        if not self.dirs.any_offline and not self._missing:
            return frozenset()
        failed = frozenset(index for index, partition in self._topics.get(topic, {}).items() if partition.failure)
        return failed.union(index for name, index in self._missing if name == topic)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """High watermarks for the checkpoint: of partitions with other replicas. A single replica needs none, because
        all its records are visible."""
        return {
            partition.log.name: partition.high_watermark
            for partition in self
            if partition.leadership is None or partition.leadership.followers
        }

    # -- applying images -------------------------------------------------------------------------------------------

    async def start(self, image: ClusterImage) -> None:
        """Open the logs found on disk, create missing ones, and take the roles of leader and follower."""
        self._image = image
        self._high_watermarks = self.dirs.high_watermarks()
        for topic in image.topics.values():
            await self._host(None, topic, new=False)
        self._remove_strays(image)
        await self._flush_found()
        self._check_lag()

    def _remove_strays(self, image: ClusterImage) -> None:
        for stray in self.dirs.logs_not_in(image.topic_names_by_id):
            log.warning(
                "directory belongs to no topic and is not touched",
                extra={"directory": stray.path, "topic": stray.topic, "partition": stray.partition},
            )
        for found in list(self.dirs.logs.values()):
            state = image.partition(found.topic, found.partition)
            if (
                state is not None
                and found.topic_id == image.topics[found.topic].id
                and self.node_id not in state.replicas
            ):
                log.info("log is deleted: its partition is on other brokers now", extra={"directory": found.directory})
                self._delete_log(found)

    async def _flush_found(self) -> None:
        """Flush what a crash left unflushed.

        For topics that flush records before they become visible, this happens before the first reader. If the disk
        fails, the records still become visible, because readers may have seen them before the crash. The rest (indexes
        of recovered segments) is flushed in the background.
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
        """Wait until every image that was published before the call has been applied."""
        async with self._changes:
            pass

    async def follow(self, new: ClusterImage) -> None:
        """Apply the difference between the last image and this one."""
        async with self._changes:
            old = self._image
            assert old is not None
            if self._stopped:
                return
            self._image = new
            if old.brokers is not new.brokers:
                self._brokers_changed(old, new)
            delta = topics_delta(old, new)
            for topic in delta.deleted:
                self._unhost(topic)
            for before, topic in delta.altered:
                await self._host(before, topic, new=True)
                if before.configs != topic.configs:
                    self._reconfigure(topic)
            for topic in delta.created:
                await self._host(None, topic, new=True)

    def _brokers_changed(self, old: ClusterImage, new: ClusterImage) -> None:
        gone = [
            one
            for one, broker in old.brokers.items()
            if one not in new.brokers or new.brokers[one].epoch != broker.epoch
        ]
        for partition in self:
            leadership = partition.leadership
            if leadership is not None and gone:
                for one in gone:
                    leadership.lost(one)
                self.in_sync.refresh(partition)
                if partition.start_is_awaited:
                    self._look_at_starts(partition)
        self._fetchers.reconnect(one for one, broker in new.brokers.items() if old.brokers.get(one) != broker)

    def reconfigure_all(self) -> None:
        """Apply a changed broker-wide default to all topics."""
        assert self._image is not None
        for topic in self._image.topics.values():
            self._reconfigure(topic)

    async def _host(self, before: TopicImage | None, topic: TopicImage, *, new: bool) -> None:
        """Host the partitions of a topic as the image says. Partitions that have not changed since `before` are
        skipped."""
        config = self._log_config(topic)
        partitions = self._topics.setdefault(topic.name, {})
        self._topics[topic.id] = partitions
        made = 0
        missed: list[TopicPartition] = []
        for index, state in enumerate(topic.partitions):
            known = partitions.get(index)
            if before is not None and index < len(before.partitions) and before.partitions[index] is state:
                continue
            if self.node_id not in state.replicas:
                if known is not None:
                    del partitions[index]
                    self._remove(known, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self._missing.pop(TopicPartition(topic.name, index), None)
                continue
            if known is None:
                found = self.dirs.find(topic.name, index, topic.id)
                was_missing = (topic.name, index) in self._missing
                if found is None:
                    found = self._create(topic, index, config, new)
                    made += 1
                    if made % TURN == 0:
                        await asyncio.sleep(0)
                if found is None:
                    if not was_missing:
                        missed.append(TopicPartition(topic.name, index))
                    continue
                found.config = config
                # A single replica has made all its records visible; they cannot be hidden again.
                shown = found.end_offset if len(state.replicas) == 1 else self._high_watermarks.get(found.name, 0)
                known = partitions[index] = Partition(topic.name, topic.id, index, found, shown)
            self._take_role(known, state)
        if missed:
            self._spawn(self._resign(missed))

    def _create(self, topic: TopicImage, index: int, config: LogConfig, new: bool) -> Log | None:
        key = TopicPartition(topic.name, index)
        new = self._missing.get(key, new)
        try:
            if not new and self.dirs.any_offline:
                # The partition may be in the offline directory: an empty log elsewhere would make its records look
                # deleted.
                raise StorageError("it may be in a data directory that is offline", fatal=True)
            found = self.dirs.create(topic.name, topic.id, index, config)
        except (LogError, OSError) as error:
            if key not in self._missing:
                where = {"topic": topic.name, "partition": index}
                log.error("partition cannot be created, will try again", extra={**where, "reason": str(error)})
            self._missing[key] = new
            return None
        self._missing.pop(key, None)
        self._high_watermarks.pop(found.name, None)
        return found

    def _make_missing(self) -> None:
        """Try again to create missing partitions, at most once per RETRY_S."""
        now = self._loop.time()
        if now - self._made_missing_at >= RETRY_S and not self._stopped:
            self._made_missing_at = now
            self._spawn(self._host_missing())

    async def _host_missing(self) -> None:
        async with self._changes:
            assert self._image is not None
            for name in dict.fromkeys(name for name, _ in self._missing):
                await self._host(None, self._image.topics[name], new=True)

    def _unhost(self, topic: TopicImage) -> None:
        partitions = self._topics.pop(topic.id, {})
        self._topics.pop(topic.name, None)
        for key in [key for key in self._missing if key[0] == topic.name]:
            del self._missing[key]
        for partition in partitions.values():
            self._remove(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _remove(self, partition: Partition, why: ErrorCode) -> None:
        self._fail(partition, why)
        self._high_watermarks.pop(partition.log.name, None)
        self._delete_log(partition.log)

    def _delete_log(self, found: Log) -> None:
        try:
            self.dirs.delete(found)
        except StorageError as error:
            log.error("log cannot be removed", extra={"directory": found.directory, "reason": error.message})

    def _reconfigure(self, topic: TopicImage) -> None:
        config = self._log_config(topic)
        for partition in self._topics.get(topic.name, {}).values():
            partition.log.config = config
            self.in_sync.refresh(partition)  # min.insync.replicas may have changed

    # -- roles -----------------------------------------------------------------------------------------------------

    def _take_role(self, partition: Partition, state: PartitionState) -> None:
        """Lead or follow as the state says. A broker never starts to lead twice in the same epoch, also not after it
        gave up the leadership."""
        if state.leader_epoch < partition.leader_epoch:
            return
        if state.leader == self.node_id:
            if state.leader_epoch == partition.leader_epoch:
                self.in_sync.stored(partition, state)
            else:
                self._lead(partition, state)
        elif (state.leader, state.leader_epoch) != (partition.leader_id, partition.leader_epoch):
            led = partition.leads
            partition.follow(state.leader, state.leader_epoch)
            if led:
                self._notify_leadership(partition, False)
            if not partition.failure:
                self._fetchers.follow(partition)

    def _lead(self, partition: Partition, state: PartitionState) -> None:
        self._fetchers.forget(partition)
        if partition.leads:
            self._notify_leadership(partition, False)
        partition.lead(self.node_id, state, self._loop.time())
        self.in_sync.refresh(partition)
        if partition.leads:
            self._notify_leadership(partition, True)

    def stop_leading(self) -> None:
        """Stop leading all partitions: the registration is lost, so others may lead them."""
        for partition in list(self):
            if partition.leads:
                partition.stop_leading()
                self._notify_leadership(partition, False)

    def _fail(self, partition: Partition, why: ErrorCode) -> None:
        led = partition.leads
        self._fetchers.forget(partition)
        self.in_sync.forget(partition)
        partition.fail(why)
        if led:
            self._notify_leadership(partition, False)

    def _notify_leadership(self, partition: Partition, leads: bool) -> None:
        for listener in self._leadership_listeners:
            listener(partition, leads)

    # -- followers of led partitions -------------------------------------------------------------------------------

    def fetched(
        self, partition: Partition, replica: int, offset: int, start_offset: int, broker_epoch: BrokerEpoch
    ) -> None:
        """A follower fetches from `offset`, which is inside our log: it has all records before it."""
        leadership = partition.leadership
        follower = None if leadership is None else leadership.followers.get(replica)
        if leadership is None or follower is None:
            return
        moved, start_moved = follower.end_offset != offset, follower.start_offset != start_offset
        follower.fetched(offset, start_offset, broker_epoch, partition.log.end_offset, self._loop.time())
        if moved:
            self.in_sync.refresh(partition)
        if start_moved and partition.start_is_awaited:
            self._look_at_starts(partition)
        if replica not in leadership.isr and self._is_alive(replica, broker_epoch):
            self.in_sync.fetched(partition, replica)

    def _look_at_starts(self, partition: Partition) -> None:
        leadership = partition.leadership
        if leadership is not None:
            assert self._image is not None
            low = leadership.low_watermark(partition.log.start_offset, self._image.brokers)
            partition.replicas_start_at(low)

    def _is_alive(self, replica: int, broker_epoch: BrokerEpoch) -> bool:
        assert self._image is not None
        broker = self._image.brokers.get(replica)
        return broker is not None and broker.epoch == broker_epoch

    def replica_error(self, partition: Partition, replica: int, broker_epoch: int) -> ErrorCode:
        """The error for another broker that fetches a partition as a replica; NONE if it may."""
        error = partition.leader_error()
        if error:
            return error
        leadership = partition.leadership
        if leadership is None or replica not in leadership.followers:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert self._image is not None
        broker = self._image.brokers.get(replica)
        known = max(leadership.followers[replica].broker_epoch, -1 if broker is None else broker.epoch)
        # A connection of an earlier incarnation of the broker: its log may have changed since.
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if broker_epoch < known else ErrorCode.NONE

    # -- in-sync replicas ------------------------------------------------------------------------------------------

    def _check_lag(self) -> None:
        """Check the lag of followers twice per `replica.lag.time.max.ms`, like Kafka: a follower leaves the ISR after
        at most 1.5 times that time."""
        if not self._stopped:
            self.in_sync.check(self)
            if self._missing:
                self._make_missing()
            self._lag_check = self._loop.call_later(self._cluster.limits().max_lag_s / 2, self._check_lag)

    # -- stopping --------------------------------------------------------------------------------------------------

    def stop_copying(self) -> None:
        """Stop copying: this broker leaves the ISRs and is about to stop. It continues to lead."""
        self._fetchers.stop()

    def stop(self) -> None:
        """Stop copying, proposing and flushing: the logs are about to be closed."""
        self._stopped = True
        self._fetchers.stop()
        self.in_sync.stop()
        self._flushing.stop()
        if self._lag_check is not None:
            self._lag_check.cancel()

    # -- deleting old records --------------------------------------------------------------------------------------

    def delete_before(self, partition: Partition, offset: int, waiter: AckWaiter) -> None:
        """Move the start of a led log to `offset`. The waiter is called when the logs of all live replicas begin
        there."""
        if offset > partition.log.start_offset:
            partition.log.delete_before(offset)
            partition.start_moved()
        partition.await_start(offset, waiter)
        self._look_at_starts(partition)

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
        """Forget producers that have been idle for this long, in all partitions."""
        for number, partition in enumerate(list(self)):
            partition.log.producers.expire(now_ms, expiration_ms)
            if number % TURN == 0:
                await asyncio.sleep(0)

    # -- disk failures ---------------------------------------------------------------------------------------------

    def _directory_failed(self, directory: DataDirectory) -> None:
        """Called in any thread that met the error."""
        self._loop.call_soon_threadsafe(self._fail_partitions, directory)

    def _fail_partitions(self, directory: DataDirectory) -> None:
        failed = [partition for partition in self if partition.log.data_dir is directory and not partition.failure]
        for partition in failed:
            self._fail(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        if failed and not self._stopped:
            self._spawn(self._resign([TopicPartition(one.topic, one.index) for one in failed]))

    async def _resign(self, partitions: Collection[TopicPartition]) -> None:
        """Resign partitions that cannot be served, so that other brokers lead them and the ISR excludes this broker."""
        while not self._stopped:
            try:
                await self._cluster.resign(partitions)
                return
            except StoreError as error:
                log.warning("could not resign", extra={"partitions": len(partitions), "reason": str(error)})
                await asyncio.sleep(RETRY_S)
