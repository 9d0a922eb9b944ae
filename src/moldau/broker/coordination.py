"""Runs the shards of a coordinator over the partitions of its internal topic. The shards decide; this stores and waits.

One event at a time: `step`, append the records as one batch, `replay` them, set the timers, and give the answers when
the high watermark has passed everything that they rest on. If the append fails, nothing has changed and whoever asked
hears an error that makes a client come back.

A shard lives as long as this broker leads its partition, in one leader epoch. When that ends, everybody who waits is
told NOT_COORDINATOR; what the shard knew stands in the log, and whoever leads the partition next replays it.

A shard may have replayed records that are not below the high watermark yet. They cannot go away under it: a leader's
log only grows, and it is cut only by a broker that follows a later leader, which has unloaded its shard before. Nobody
else hears of them either, because every answer waits until the high watermark has passed the log's end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from moldau.broker.loading import read_chunk, replay_chunk
from moldau.cluster.refusal import Refusal
from moldau.cluster.store import StoreError
from moldau.cluster.topics import NewTopic
from moldau.groups.outcome import Outcome, Producer, Shard, StoredRecord, TimerFired
from moldau.log.errors import LogError
from moldau.records import BatchError, ControlType, Record, encode_batch, encode_marker
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

log = logging.getLogger(__name__)

PROGRESS_EVERY = 500_000
"""Records between two lines in the log while a large partition loads."""

STORE_RETRY_MS = 1_000
"""After what a timer decided could not be stored."""

MAX_TIMER_S = 3600.0
"""A timer further off is set again when this has passed: loops do not promise more."""

S = TypeVar("S", bound=Shard)


KEYS_REMEMBERED = 10_000
"""Groups and transactional ids whose hash need not be computed anew."""


class InternalTopic(NamedTuple):
    """A coordinator's topic, as it is made when it is first needed."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    min_in_sync: int | None = None
    """None for what the broker's setting says."""

    def new_topic(self, live_brokers: int) -> NewTopic:
        """One broker alone must be able to serve groups: there are never more replicas than brokers."""
        factor = max(1, min(self.replication_factor, live_brokers))
        configs = dict(self.configs)
        if self.min_in_sync is not None:
            configs["min.insync.replicas"] = str(min(self.min_in_sync, factor))
        return NewTopic(self.name, self.partitions, factor, configs=configs)


@lru_cache(KEYS_REMEMBERED)
def key_hash(key: str) -> int:
    """Java's hash of a string (over UTF-16 units), without its sign: by it Kafka spreads groups over partitions."""
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


_COMES_BACK_HERE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_GOES_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR})


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """What a client of the coordinator hears where the coordinator's own log answered `code`."""
    if code in _COMES_BACK_HERE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code in _GOES_ELSEWHERE:
        return ErrorCode.NOT_COORDINATOR
    return ErrorCode.UNKNOWN_SERVER_ERROR


class Ticket:
    """Somebody who waits for an answer. Called once, with the answer or with an error."""

    __slots__ = ("answer", "refuse")

    def __init__(self, answer: Callable[[Any], None], refuse: Callable[[ErrorCode], None]) -> None:
        self.answer = answer
        self.refuse = refuse


class RunningShard(Generic[S]):
    """A shard, the partition it lives in for one leader epoch, and everybody who waits for it."""

    def __init__(self, coordination: Coordination[S], partition: Partition, shard: S) -> None:
        self.shard = shard
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.loading = True
        self._coordination = coordination
        self._broker = coordination.broker
        self._tickets: dict[Ticket, None] = {}
        self._early: list[Any] = []
        """What happened while the shard was loading, or between the storing of records and their replay."""
        self._storing = False
        self._unsafe: deque[_Release] = deque()
        """Outcomes that wait for the high watermark, in their order."""
        self._patience: asyncio.TimerHandle | None = None
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        self._gone = False

    # -- events ----------------------------------------------------------------------------------------------------

    def ask(self, event: Callable[[Ticket], Any], ticket: Ticket) -> None:
        """Feeds an event that somebody waits on."""
        self._tickets[ticket] = None
        self.feed(event(ticket))

    def feed(self, event: Any) -> None:
        """Feeds an event."""
        if self.loading or self._storing:
            self._early.append(event)
        elif not self._gone:
            stored = self._carry_out(self.shard.step(self._coordination.now_ms(), event))
            if not stored and isinstance(event, TimerFired):
                self._set_timer(event.key, self._coordination.now_ms() + STORE_RETRY_MS)
            if self._early:
                self._feed_early()

    def started(self) -> None:
        """All was replayed."""
        self.loading = False
        self._carry_out(self.shard.loaded(self._coordination.now_ms()))
        self._feed_early()

    def _feed_early(self) -> None:
        early, self._early = self._early, []
        for event in early:
            self.feed(event)

    def _carry_out(self, outcome: Outcome) -> bool:
        """False where the records could not be stored."""
        if outcome.records:
            try:
                self._store(outcome.records, outcome.producer)
            except LogError as error:
                log.error(
                    "a coordinator could not store its decision",
                    extra={"partition": repr(self.partition), "reason": error.message},
                )
                code = coordinator_error(error.code)
                for ticket, _ in outcome.replies:
                    self._refuse(ticket, code)
                # A timer too many finds nothing to do; one too few would leave a member in a group for ever.
                for key, at_ms in outcome.timers:
                    if at_ms is not None:
                        self._set_timer(key, at_ms)
                return False
        for key, at_ms in outcome.timers:
            self._set_timer(key, at_ms)
        if outcome.replies or outcome.effects:
            self._when_safe(outcome)
        return True

    def _store(self, records: list[StoredRecord], producer: Producer | None) -> None:
        now_ms = self._broker.now_ms()
        batch = encode_batch(
            (Record(offset, now_ms, key, value, ()) for offset, (key, value) in enumerate(records)),
            producer_id=producer.id if producer else -1,
            producer_epoch=producer.epoch if producer else -1,
            transactional=producer is not None,
        )
        shard = self.shard
        # An append may let the high watermark pass what others wait for; what they do then must find all replayed.
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
        partition.append(memoryview(batch), self._broker.now_ms(), all_replicas=True, coordinator=True)
        self._broker.replicas.appended(partition)

    def write_marker(self, producer: Producer, committed: bool, coordinator_epoch: int) -> int:
        """Ends a producer's transaction in this partition; the offset behind the marker. Raises LogError."""
        batch = encode_marker(
            ControlType.COMMIT if committed else ControlType.ABORT,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._broker.now_ms(),
        )
        self._storing = True
        try:
            self._append(batch)
            self.shard.replay_marker(producer.id, committed)
        finally:
            self._storing = False
        next_offset = self.partition.log.end_offset
        self._feed_early()
        return next_offset

    # -- answers ---------------------------------------------------------------------------------------------------

    def _when_safe(self, outcome: Outcome) -> None:
        end = self.partition.log.end_offset
        if self.partition.is_safe(end):
            self._release(outcome)
            return
        waiting = _Release(self, outcome, self._broker.loop.time() + self._coordination.patience_s)
        self._unsafe.append(waiting)
        self.partition.await_ack(end, waiting)
        if self._patience is None:
            self._patience = self._broker.loop.call_at(waiting.deadline, self._lose_patience)

    def _lose_patience(self) -> None:
        """Replicas are missing for so long that clients should hear of it. What was decided stands, and takes effect
        when it is safe: only its answers are given up."""
        self._patience = None
        unsafe, now = self._unsafe, self._broker.loop.time()
        while unsafe and (unsafe[0].done or unsafe[0].deadline <= now):
            waiting = unsafe.popleft()
            if not waiting.done:
                self._refuse_all(waiting.outcome, ErrorCode.REQUEST_TIMED_OUT)
        if unsafe:
            self._patience = self._broker.loop.call_at(unsafe[0].deadline, self._lose_patience)

    def _release(self, outcome: Outcome) -> None:
        if self._gone:
            return
        for ticket, answer in outcome.replies:
            if ticket in self._tickets:
                del self._tickets[ticket]
                ticket.answer(answer)
        for effect in outcome.effects:
            self._coordination.perform(self, effect)

    def acknowledged(self, outcome: Outcome, error: ErrorCode) -> None:
        while self._unsafe and self._unsafe[0].done:
            self._unsafe.popleft()
        if error == ErrorCode.NONE:
            self._release(outcome)
        else:
            self._refuse_all(outcome, error)

    def _refuse_all(self, outcome: Outcome, error: ErrorCode) -> None:
        for ticket, _ in outcome.replies:
            self._refuse(ticket, coordinator_error(error))

    def _refuse(self, ticket: Ticket, code: ErrorCode) -> None:
        if ticket in self._tickets:
            del self._tickets[ticket]
            ticket.refuse(code)

    # -- time ------------------------------------------------------------------------------------------------------

    def _set_timer(self, key: Any, at_ms: int | None) -> None:
        handle = self._timers.pop(key, None)
        if handle is not None:
            handle.cancel()
        if at_ms is not None:
            delay_s = max(0.0, (at_ms - self._coordination.now_ms()) / 1000)
            self._timers[key] = self._broker.loop.call_later(min(delay_s, MAX_TIMER_S), self._fired, key, at_ms)

    def _fired(self, key: Any, at_ms: int) -> None:
        del self._timers[key]
        if self._coordination.now_ms() < at_ms:
            self._set_timer(key, at_ms)
        else:
            self.feed(TimerFired(key))

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._gone = True
        self._unsafe.clear()
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        for ticket in list(self._tickets):
            self._refuse(ticket, ErrorCode.NOT_COORDINATOR)


class _Release:
    """Waits for the high watermark."""

    __slots__ = ("_running", "deadline", "done", "outcome")

    def __init__(self, running: RunningShard[Any], outcome: Outcome, deadline: float) -> None:
        self._running = running
        self.outcome = outcome
        self.deadline = deadline
        self.done = False

    def acknowledged(self, error: ErrorCode) -> None:
        self.done = True
        self._running.acknowledged(self.outcome, error)


class Coordination(Generic[S]):
    """All shards of one coordinator that this broker runs."""

    def __init__(
        self,
        broker: Broker,
        topic: InternalTopic,
        make_shard: Callable[[int], S],
        perform: Callable[[RunningShard[S], Any], None] | None = None,
    ) -> None:
        self.broker = broker
        self.topic = topic
        self._make_shard = make_shard
        self._perform = perform
        self._shards: dict[int, RunningShard[S]] = {}
        self._creation: asyncio.Task[ErrorCode] | None = None
        self.patience_s: float = broker.settings["offsets.commit.timeout.ms"] / 1000
        """For how long an answer waits until the replicas have what it rests on."""
        broker.replicas.on_leadership(self._leadership_changed)
        clock = broker.clock
        self._began_ms = clock.now_ms() - int(clock.monotonic() * 1000)

    def now_ms(self) -> int:
        """The time for decisions: as of the wall clock at start, and steady since. A clock that is set must not end
        every member's session."""
        return self._began_ms + int(self.broker.clock.monotonic() * 1000)

    # -- finding ---------------------------------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """0 where the topic does not exist yet."""
        topic = self.broker.image.topics.get(self.topic.name)
        return 0 if topic is None else len(topic.partitions)

    def index_of(self, key: str) -> int:
        """The partition that a group or a transactional id belongs to; -1 where there is none yet."""
        count = self.partition_count
        return key_hash(key) % count if count else -1

    def find(self, key: str) -> RunningShard[S] | ErrorCode:
        """The shard of a key, or what to tell the client instead."""
        return self.shard_at(self.index_of(key))

    def shard_at(self, index: int) -> RunningShard[S] | ErrorCode:
        """The shard of a partition; one that is led here and not running is started, and the client told to come
        back. Where another broker may coordinate by now, it may have told more than this one knows."""
        if not self.broker.metadata.in_touch:
            return ErrorCode.NOT_COORDINATOR
        running = self._shards.get(index)
        if running is None:
            if index < 0:
                return ErrorCode.NOT_COORDINATOR  # the client looks for its coordinator again, and that makes the topic
            running = self._start(index)
        if running is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if running.loading else running

    def running(self) -> list[RunningShard[S]]:
        """The shards that are loaded."""
        return [one for one in self._shards.values() if not one.loading]

    def tell_all(self, event: Any) -> None:
        """Feeds an event that nobody waits on to every shard; those that still load get it when they are done."""
        for running in list(self._shards.values()):
            running.feed(event)

    def send(self, key: str, event: Callable[[Ticket], Any], ticket: Ticket) -> None:
        """Has the shard of `key` decide over an event; the ticket is answered or refused, now or later."""
        found = self.find(key)
        if isinstance(found, ErrorCode):
            ticket.refuse(found)
        else:
            found.ask(event, ticket)

    def perform(self, running: RunningShard[S], effect: Any) -> None:
        assert self._perform is not None, "a shard with effects needs somebody to carry them out"
        self._perform(running, effect)

    # -- the topic -------------------------------------------------------------------------------------------------

    async def ensure_topic(self) -> ErrorCode:
        """Makes the internal topic if it is not there; requests that come meanwhile wait for the same creation."""
        if self.partition_count:
            return ErrorCode.NONE
        if self._creation is None:
            self._creation = self.broker.loop.create_task(self._create())
        return await asyncio.shield(self._creation)

    async def _create(self) -> ErrorCode:
        try:
            new = self.topic.new_topic(len(self.broker.image.brokers))
            (answer,) = await self.broker.create_topics([new])
        except StoreError as error:
            answer = Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
        finally:
            self._creation = None
        # Another broker may have been asked at the same moment: the store has let one of us make it.
        if isinstance(answer, Refusal) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            log.error(
                "an internal topic could not be created", extra={"topic": self.topic.name, "reason": answer.message}
            )
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.start()
        return ErrorCode.NONE

    # -- life ------------------------------------------------------------------------------------------------------

    def _leadership_changed(self, partition: Partition, leads: bool) -> None:
        """A new leader epoch is a new life for the shard, also where the leader before was this broker."""
        if partition.topic == self.topic.name:
            self.unload(partition.index)
            if leads:
                self._start(partition.index)

    def start(self) -> None:
        """Starts the shard of every partition that is led here."""
        for index in range(self.partition_count):
            if index not in self._shards:
                self._start(index)

    def stop(self) -> None:
        for index in list(self._shards):
            self.unload(index)

    def _start(self, index: int) -> RunningShard[S] | None:
        partition = self.broker.replicas.find(self.topic.name, index)
        if partition is None or not partition.leads or self.broker.stopping:
            return None
        running = RunningShard(self, partition, self._make_shard(index))
        self._shards[index] = running
        if partition.log.start_offset == partition.log.end_offset:
            running.started()
        else:
            self.broker.spawn(self._load(running))
        return running

    def unload(self, index: int) -> None:
        running = self._shards.pop(index, None)
        if running is not None:
            running.close()

    async def _load(self, running: RunningShard[S]) -> None:
        partition = running.partition
        lane = f"coordinator:{self.topic.name}"
        began = self.broker.clock.monotonic()
        offset, end = partition.log.start_offset, partition.log.end_offset
        replayed, reported = 0, 0
        try:
            while offset < end and self._shards.get(partition.index) is running:
                chunk = await self.broker.threads.run(lane, read_chunk, partition.log, offset, end)
                if chunk.next_offset == offset:
                    break
                replayed += await replay_chunk(running.shard, chunk)
                offset = chunk.next_offset
                if replayed - reported >= PROGRESS_EVERY:
                    reported = replayed
                    log.info(
                        "loading a coordinator",
                        extra={"partition": repr(partition), "records": replayed, "offset": offset, "end": end},
                    )
        except (LogError, BatchError) as error:
            if self._shards.get(partition.index) is not running:
                return  # the log is somebody else's now: it may be cut or removed while it is read
            log.error("a coordinator could not be loaded", extra={"partition": repr(partition), "reason": str(error)})
            self.unload(partition.index)
            return
        if self._shards.get(partition.index) is not running:
            return
        log.info(
            "coordinator loaded",
            extra={
                "partition": repr(partition),
                "records": replayed,
                "milliseconds": round((self.broker.clock.monotonic() - began) * 1000),
            },
        )
        running.started()
