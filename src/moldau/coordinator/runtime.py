"""Coordinator runtime: runs the shards of one coordinator over the partitions of its internal topic.

A shard decides, and the runtime acts. For each event it calls `step`, appends the records of the outcome as one batch,
replays them into the shard, sets the timers, and sends the replies when the high watermark has passed everything that
they depend on. If the append fails, nothing has changed, and the client gets an error that it retries.

A shard exists while this broker leads its partition, in one leader epoch. When the epoch ends, all waiting requests are
answered with NOT_COORDINATOR. The state of the shard is in the log, and the next leader replays it.

A shard may have replayed records that are not yet below the high watermark. They cannot disappear while the shard
exists: the log of a leader only grows. Only a broker that follows a later leader truncates its log, and it has unloaded
the shard before. Clients do not see such records either, because every reply waits for the high watermark.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from moldau.cluster.errors import Refusal
from moldau.cluster.image import ClusterImage, TopicImage
from moldau.cluster.store import StoreError
from moldau.cluster.topics import TopicCreation
from moldau.coordinator.loader import read_chunk, replay_chunk
from moldau.coordinator.outcome import CoordinatorOutcome, Shard, StoredRecord, TimerFired, TxnProducer
from moldau.host.clock import Clock
from moldau.host.event_log import event_logger
from moldau.host.threads import Threads
from moldau.log.errors import LogError
from moldau.records import BatchError, BatchRecord, ControlType, encode_batch, encode_marker
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode

log = event_logger(__name__)

PROGRESS_EVERY = 500_000
"""Number of records between two log lines while a large partition is loaded."""

STORE_RETRY_MS = 1_000
"""Delay before a timer fires again after its decision could not be stored."""

MAX_TIMER_S = 3600.0
"""Longest delay that is passed to the loop, because event loops limit it. Longer timers are set again."""

S = TypeVar("S", bound=Shard)


KEYS_REMEMBERED = 10_000
"""Number of groups and transactional ids whose hashes are cached."""


class CoordinatorHost(NamedTuple):
    """The parts of the broker that a coordinator uses."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    threads: Threads
    replicas: ReplicaManager
    image: Callable[[], ClusterImage]
    in_touch: Callable[[], bool]
    """False if the metadata store has not answered for a session timeout: another broker may lead the partitions by
    now."""
    is_stopping: Callable[[], bool]
    create_topics: Callable[[Sequence[TopicCreation]], Awaitable[Sequence[TopicImage | Refusal]]]
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    reply_timeout_s: float
    """How long a reply waits for the replication of the records that it depends on."""


class InternalTopic(NamedTuple):
    """The internal topic of a coordinator. It is created when it is first needed."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    min_in_sync: int | None = None
    """min.insync.replicas of the topic; None for the default of the broker."""

    def new_topic(self, live_brokers: int) -> TopicCreation:
        """The topic to create. It has at most as many replicas as there are live brokers, so that groups also work with
        a single broker."""
        factor = max(1, min(self.replication_factor, live_brokers))
        configs = dict(self.configs)
        if self.min_in_sync is not None:
            configs["min.insync.replicas"] = str(min(self.min_in_sync, factor))
        return TopicCreation(self.name, self.partitions, factor, configs=configs)


@lru_cache(KEYS_REMEMBERED)
def key_hash(key: str) -> int:
    """The hash code of a string in Java (over UTF-16 code units), without its sign. Kafka assigns groups to partitions
    by this hash."""
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


_RETRIED_HERE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_RETRIED_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """The error for a client, if the coordinator's own log has failed with `code`."""
    if code in _RETRIED_HERE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _RETRIED_ELSEWHERE:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR


class Ticket:
    """A request that waits for an answer. Either `answer` or `refuse` is called, once."""

    __slots__ = ("answer", "refuse")

    def __init__(self, answer: Callable[[Any], None], refuse: Callable[[ErrorCode], None]) -> None:
        self.answer = answer
        self.refuse = refuse


class RunningShard(Generic[S]):
    """A shard with its partition in one leader epoch, its waiting requests and its timers."""

    def __init__(self, runtime: CoordinatorRuntime[S], partition: Partition, shard: S) -> None:
        self.shard = shard
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.loading = True
        self._runtime = runtime
        self._host = runtime.host
        self._tickets: dict[Ticket, None] = {}
        self._queued: list[Any] = []
        """Events that arrived while the shard was loading, or between the append of records and their replay."""
        self._storing = False
        self._unsafe: deque[_Release] = deque()
        """Outcomes that wait for the high watermark, in order."""
        self._reply_timer: asyncio.TimerHandle | None = None
        self._timers: dict[Any, asyncio.Handle] = {}
        self._gone = False

    # -- events ----------------------------------------------------------------------------------------------------

    def ask(self, event: Callable[[Ticket], Any], ticket: Ticket) -> None:
        """Process an event of a request that waits for an answer."""
        self._tickets[ticket] = None
        self.feed(event(ticket))

    def feed(self, event: Any) -> None:
        """Process an event, now or when the shard is ready for it."""
        if self.loading or self._storing:
            self._queued.append(event)
        elif not self._gone:
            stored = self._carry_out(self.shard.step(self._runtime.now_ms(), event))
            if not stored and isinstance(event, TimerFired):
                self._set_timer(event.key, self._runtime.now_ms() + STORE_RETRY_MS)
            if self._queued:
                self._feed_queued()

    def started(self) -> None:
        """The whole partition was replayed: start to process events."""
        self.loading = False
        self._carry_out(self.shard.loaded(self._runtime.now_ms()))
        self._feed_queued()

    def _feed_queued(self) -> None:
        queued, self._queued = self._queued, []
        for event in queued:
            self.feed(event)

    def _carry_out(self, outcome: CoordinatorOutcome) -> bool:
        """Store the records of an outcome, set its timers and send its replies. False if the records could not be
        stored."""
        if outcome.records:
            try:
                self._store(outcome.records, outcome.producer)
            except LogError as error:
                log.error(
                    "coordinator could not store its decision",
                    extra={"partition": repr(self.partition), "reason": error.message},
                )
                code = coordinator_error(error.code)
                for ticket, _ in outcome.replies:
                    self._refuse(ticket, code)
                # A superfluous timer does no harm. A missing one could leave a dead member in its group for ever.
                for key, at_ms in outcome.timers:
                    if at_ms is not None:
                        self._set_timer(key, at_ms)
                return False
        for key, at_ms in outcome.timers:
            self._set_timer(key, at_ms)
        if outcome.replies or outcome.effects:
            self._when_safe(outcome)
        return True

    def _store(self, records: list[StoredRecord], producer: TxnProducer | None) -> None:
        now_ms = self._host.clock.now_ms()
        batch = encode_batch(
            (BatchRecord(offset, now_ms, key, value, ()) for offset, (key, value) in enumerate(records)),
            producer_id=producer.id if producer else -1,
            producer_epoch=producer.epoch if producer else -1,
            transactional=producer is not None,
        )
        shard = self.shard
        # The append may advance the high watermark and so complete earlier outcomes. Events that these cause are queued
        # until the records are replayed.
        self._storing = True
        try:
            self._append(batch)
            if producer is None:
                for key, value in records:
                    shard.replay(key, value)
            else:
                for key, value in records:
                    shard.replay_pending(producer.id, key, value)
        finally:
            self._storing = False

    def _append(self, batch: bytearray) -> None:
        partition = self.partition
        if self._gone or partition.leader_epoch != self.epoch:
            raise LogError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition!r} is led in another epoch")
        partition.append(memoryview(batch), self._host.clock.now_ms(), all_replicas=True, coordinator=True)
        self._host.replicas.appended(partition)

    def write_marker(self, producer: TxnProducer, committed: bool, coordinator_epoch: int) -> int:
        """Write the marker that ends a producer's transaction. Returns the offset after it. Raises LogError."""
        batch = encode_marker(
            ControlType.COMMIT if committed else ControlType.ABORT,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._host.clock.now_ms(),
        )
        self._storing = True
        try:
            self._append(batch)
            self.shard.replay_marker(producer.id, committed)
        finally:
            self._storing = False
        next_offset = self.partition.log.end_offset
        self._feed_queued()
        return next_offset

    # -- replies ---------------------------------------------------------------------------------------------------

    def _when_safe(self, outcome: CoordinatorOutcome) -> None:
        end = self.partition.log.end_offset
        if self.partition.is_safe(end):
            self._release(outcome)
            return
        waiting = _Release(self, outcome, self._host.loop.time() + self._host.reply_timeout_s)
        self._unsafe.append(waiting)
        self.partition.await_ack(end, waiting)
        if self._reply_timer is None:
            self._reply_timer = self._host.loop.call_at(waiting.deadline, self._replies_timed_out)

    def _replies_timed_out(self) -> None:
        """Answer the requests that have waited too long for replication with an error. Their decisions stay valid, and
        take effect when they are replicated."""
        self._reply_timer = None
        unsafe, now = self._unsafe, self._host.loop.time()
        while unsafe and (unsafe[0].done or unsafe[0].deadline <= now):
            waiting = unsafe.popleft()
            if not waiting.done:
                self._refuse_all(waiting.outcome, ErrorCode.REQUEST_TIMED_OUT)
        if unsafe:
            self._reply_timer = self._host.loop.call_at(unsafe[0].deadline, self._replies_timed_out)

    def _release(self, outcome: CoordinatorOutcome) -> None:
        if self._gone:
            return
        for ticket, answer in outcome.replies:
            if ticket in self._tickets:
                del self._tickets[ticket]
                ticket.answer(answer)
        for effect in outcome.effects:
            self._runtime.perform(self, effect)

    def acknowledged(self, outcome: CoordinatorOutcome, error: ErrorCode) -> None:
        while self._unsafe and self._unsafe[0].done:
            self._unsafe.popleft()
        if error == ErrorCode.NONE:
            self._release(outcome)
        else:
            self._refuse_all(outcome, error)

    def _refuse_all(self, outcome: CoordinatorOutcome, error: ErrorCode) -> None:
        for ticket, _ in outcome.replies:
            self._refuse(ticket, coordinator_error(error))

    def _refuse(self, ticket: Ticket, code: ErrorCode) -> None:
        if ticket in self._tickets:
            del self._tickets[ticket]
            ticket.refuse(code)

    # -- timers ----------------------------------------------------------------------------------------------------

    def _set_timer(self, key: Any, at_ms: int | None) -> None:
        handle = self._timers.pop(key, None)
        if handle is not None:
            handle.cancel()
        if at_ms is not None:
            loop = self._host.loop
            delay_s = (at_ms - self._runtime.now_ms()) / 1000
            if delay_s > 0:
                self._timers[key] = loop.call_later(min(delay_s, MAX_TIMER_S), self._fired, key, at_ms)
            else:
                self._timers[key] = loop.call_soon(self._due, key, at_ms)

    def _due(self, key: Any, at_ms: int) -> None:
        """Fire a timer that was due when it was set, after the loop has read its sockets once.

        A loop reads its sockets between two rounds of callbacks. When the timer is set, a request may already wait in a
        socket. For example, two members that join at the same moment should be in the same generation.
        """
        self._timers[key] = self._host.loop.call_soon(self._fired, key, at_ms)

    def _fired(self, key: Any, at_ms: int) -> None:
        del self._timers[key]
        if self._runtime.now_ms() < at_ms:
            self._set_timer(key, at_ms)
        else:
            self.feed(TimerFired(key))

    # -- closing ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._gone = True
        self._unsafe.clear()
        if self._reply_timer is not None:
            self._reply_timer.cancel()
            self._reply_timer = None
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        for ticket in list(self._tickets):
            self._refuse(ticket, ErrorCode.NOT_COORDINATOR)


class _Release:
    """An outcome that waits for the high watermark."""

    __slots__ = ("_running", "deadline", "done", "outcome")

    def __init__(self, running: RunningShard[Any], outcome: CoordinatorOutcome, deadline: float) -> None:
        self._running = running
        self.outcome = outcome
        self.deadline = deadline
        self.done = False

    def acknowledged(self, error: ErrorCode) -> None:
        self.done = True
        self._running.acknowledged(self.outcome, error)


class CoordinatorRuntime(Generic[S]):
    """All shards of one coordinator that this broker runs."""

    def __init__(
        self,
        host: CoordinatorHost,
        topic: InternalTopic,
        make_shard: Callable[[int], S],
        perform: Callable[[RunningShard[S], Any], None] | None = None,
    ) -> None:
        self.host = host
        self.topic = topic
        self._make_shard = make_shard
        self._perform = perform
        self._shards: dict[int, RunningShard[S]] = {}
        self._creation: asyncio.Task[ErrorCode] | None = None
        host.replicas.on_leadership(self._leadership_changed)
        clock = host.clock
        self._began_ms = clock.now_ms() - int(clock.monotonic() * 1000)

    def now_ms(self) -> int:
        """The time for decisions: the wall clock at the start plus monotonic time since. If the wall clock is changed,
        member sessions must not expire."""
        return self._began_ms + int(self.host.clock.monotonic() * 1000)

    # -- lookup ----------------------------------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """The number of partitions; 0 if the topic does not exist yet."""
        topic = self.host.image().topics.get(self.topic.name)
        return 0 if topic is None else len(topic.partitions)

    def index_of(self, key: str) -> int:
        """The partition of a group or a transactional id; -1 if the topic does not exist yet."""
        count = self.partition_count
        return key_hash(key) % count if count else -1

    def find(self, key: str) -> RunningShard[S] | ErrorCode:
        """The shard of a key, or the error for the client."""
        return self.shard_at(self.index_of(key))

    def shard_at(self, index: int) -> RunningShard[S] | ErrorCode:
        """The shard of a partition, or the error for the client.

        If this broker leads the partition but its shard is not running, it is started and the client must retry. While
        the metadata store does not answer, another broker may have become the coordinator and have newer state. The
        error is then NOT_COORDINATOR.
        """
        if not self.host.in_touch():
            return ErrorCode.NOT_COORDINATOR
        running = self._shards.get(index)
        if running is None:
            if index < 0:
                return ErrorCode.NOT_COORDINATOR  # the client sends FindCoordinator, which creates the topic
            running = self._start(index)
        if running is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if running.loading else running

    def running(self) -> list[RunningShard[S]]:
        """The shards that are loaded."""
        return [one for one in self._shards.values() if not one.loading]

    def tell_all(self, event: Any) -> None:
        """Feed an event to every shard. Shards that are loading get it afterwards."""
        for running in list(self._shards.values()):
            running.feed(event)

    def send(self, key: str, event: Callable[[Ticket], Any], ticket: Ticket) -> None:
        """Let the shard of `key` decide about an event. The ticket is answered or refused, now or later."""
        found = self.find(key)
        if isinstance(found, ErrorCode):
            ticket.refuse(found)
        else:
            found.ask(event, ticket)

    def perform(self, running: RunningShard[S], effect: Any) -> None:
        assert self._perform is not None, "the shard has effects, but the runtime has no `perform`"
        self._perform(running, effect)

    # -- internal topic --------------------------------------------------------------------------------------------

    async def ensure_topic(self) -> ErrorCode:
        """Create the internal topic if it does not exist. Concurrent calls wait for the same creation."""
        if self.partition_count:
            return ErrorCode.NONE
        if self._creation is None:
            self._creation = self.host.loop.create_task(self._create())
        return await asyncio.shield(self._creation)

    async def _create(self) -> ErrorCode:
        try:
            new = self.topic.new_topic(len(self.host.image().brokers))
            (answer,) = await self.host.create_topics([new])
        except StoreError as error:
            answer = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
        finally:
            self._creation = None
        # TOPIC_ALREADY_EXISTS: another broker has created it at the same moment.
        if isinstance(answer, Refusal) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            log.error("internal topic could not be created", extra={"topic": self.topic.name, "reason": answer.message})
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.start()
        return ErrorCode.NONE

    # -- lifecycle -------------------------------------------------------------------------------------------------

    def _leadership_changed(self, partition: Partition, leads: bool) -> None:
        """Restart the shard in each new leader epoch, also if this broker was the leader before."""
        if partition.topic == self.topic.name:
            self.unload(partition.index)
            if leads:
                self._start(partition.index)

    def start(self) -> None:
        """Start the shards of all partitions that this broker leads."""
        for index in range(self.partition_count):
            if index not in self._shards:
                self._start(index)

    def stop(self) -> None:
        for index in list(self._shards):
            self.unload(index)

    def _start(self, index: int) -> RunningShard[S] | None:
        partition = self.host.replicas.find(self.topic.name, index)
        if partition is None or not partition.leads or self.host.is_stopping():
            return None
        running = RunningShard(self, partition, self._make_shard(index))
        self._shards[index] = running
        if partition.log.start_offset == partition.log.end_offset:
            running.started()
        else:
            self.host.spawn(self._load(running))
        return running

    def unload(self, index: int) -> None:
        running = self._shards.pop(index, None)
        if running is not None:
            running.close()

    async def _load(self, running: RunningShard[S]) -> None:
        partition = running.partition
        lane = f"coordinator:{self.topic.name}"
        began = self.host.clock.monotonic()
        offset, end = partition.log.start_offset, partition.log.end_offset
        replayed, reported = 0, 0
        try:
            while offset < end and self._shards.get(partition.index) is running:
                chunk = await self.host.threads.run(lane, read_chunk, partition.log, offset, end)
                if chunk.next_offset == offset:
                    break
                replayed += await replay_chunk(running.shard, chunk)
                offset = chunk.next_offset
                if replayed - reported >= PROGRESS_EVERY:
                    reported = replayed
                    log.info(
                        "coordinator is loading",
                        extra={"partition": repr(partition), "records": replayed, "offset": offset, "end": end},
                    )
        except (LogError, BatchError) as error:
            if self._shards.get(partition.index) is not running:
                return  # no longer led here: the log may be truncated or removed while it is read
            log.error("coordinator could not be loaded", extra={"partition": repr(partition), "reason": str(error)})
            self.unload(partition.index)
            return
        if self._shards.get(partition.index) is not running:
            return
        log.info(
            "coordinator loaded",
            extra={
                "partition": repr(partition),
                "records": replayed,
                "milliseconds": round((self.host.clock.monotonic() - began) * 1000),
            },
        )
        running.started()
