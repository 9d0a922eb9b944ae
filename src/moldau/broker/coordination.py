"""Runs the shards of a coordinator over the partitions of its internal topic. The shards decide; this stores and waits.

One event at a time: `step`, append the records as one batch, `replay` them, set the timers, and give the answers when
the high watermark has passed everything that they rest on. If the append fails, nothing has changed and whoever asked
hears an error that makes a client come back.

A shard lives as long as its partition is here and whole. When the partition goes, everybody who waits is told
NOT_COORDINATOR; what the shard knew stands in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from moldau.cluster.refusal import Refusal
from moldau.cluster.topics import NewTopic
from moldau.groups.outcome import Outcome, Producer, Shard, StoredRecord, TimerFired
from moldau.log.errors import LogError
from moldau.log.log import Log
from moldau.log.scan import BATCH_STEP, LENGTH_END
from moldau.records import (
    NO_PRODUCER_ID,
    BatchError,
    ControlType,
    Record,
    decode_batch,
    encode_batch,
    encode_marker,
    parse_marker,
    peek_header,
)
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

log = logging.getLogger(__name__)

LOAD_CHUNK_BYTES = 2 << 20
REPLAYS_A_TURN = 2_000
"""Records replayed before the loop gets to look after its clients again."""
PROGRESS_EVERY = 500_000
"""Records between two lines in the log while a large partition loads."""

STORE_RETRY_MS = 1_000
"""After what a timer decided could not be stored."""

MAX_TIMER_S = 3600.0
"""A timer further off is set again when this has passed: loops do not promise more."""

_FLAGS_AT = 22
_SPECIAL = 0x30
"""In a batch's attributes: of a transaction, or a marker."""

S = TypeVar("S", bound=Shard)


KEYS_REMEMBERED = 10_000
"""Groups and transactional ids whose hash need not be computed anew."""


class InternalTopic(NamedTuple):
    """A coordinator's topic, as it is made when it is first needed."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]

    def new_topic(self, live_brokers: int) -> NewTopic:
        """One broker alone must be able to serve groups: there are never more replicas than brokers."""
        return NewTopic(
            self.name, self.partitions, max(1, min(self.replication_factor, live_brokers)), configs={**self.configs}
        )


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
    """A shard, the partition it lives in, and everybody who waits for it."""

    def __init__(self, coordination: Coordination[S], partition: Partition, shard: S) -> None:
        self.shard = shard
        self.partition = partition
        self.loading = True
        self._coordination = coordination
        self._broker = coordination.broker
        self._tickets: dict[Ticket, None] = {}
        self._early: list[Any] = []
        """What happened while the shard was loading."""
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        self._gone = False
        partition.await_bytes(self)  # for `partition_changed`

    # -- events ----------------------------------------------------------------------------------------------------

    def ask(self, event: Callable[[Ticket], Any], ticket: Ticket) -> None:
        """Feeds an event that somebody waits on."""
        self._tickets[ticket] = None
        self.feed(event(ticket))

    def feed(self, event: Any) -> None:
        """Feeds an event."""
        if self.loading:
            self._early.append(event)
        elif not self._gone:
            stored = self._carry_out(self.shard.step(self._coordination.now_ms(), event))
            if not stored and isinstance(event, TimerFired):
                self._set_timer(event.key, self._coordination.now_ms() + STORE_RETRY_MS)

    def started(self) -> None:
        """All was replayed."""
        self.loading = False
        self._carry_out(self.shard.loaded(self._coordination.now_ms()))
        for event in self._early:
            self.feed(event)
        self._early.clear()

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
        self._append(batch)
        shard = self.shard
        if producer is None:
            for key, value in records:
                shard.replay(key, value)
        else:
            for key, value in records:
                shard.replay_pending(producer.id, key, value)

    def _append(self, batch: bytearray) -> None:
        partition = self.partition
        if error := partition.leader_error():
            raise LogError(error, f"{partition!r} is not available")
        partition.log.append(memoryview(batch), partition.leader_epoch, self._broker.now_ms(), coordinator=True)
        partition.advance()
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
        self._append(batch)
        self.shard.replay_marker(producer.id, committed)
        return self.partition.log.end_offset

    # -- answers ---------------------------------------------------------------------------------------------------

    def _when_safe(self, outcome: Outcome) -> None:
        end = self.partition.log.end_offset
        if self.partition.is_safe(end):
            self._release(outcome)
        else:
            self.partition.await_ack(end, _Release(self, outcome))

    def _release(self, outcome: Outcome) -> None:
        for ticket, answer in outcome.replies:
            if ticket in self._tickets:
                del self._tickets[ticket]
                ticket.answer(answer)
        for effect in outcome.effects:
            self._coordination.perform(self, effect)

    def acknowledged(self, outcome: Outcome, error: ErrorCode) -> None:
        if error == ErrorCode.NONE:
            self._release(outcome)
            return
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

    def bytes_arrived(self, count: int) -> None:
        """Records in our own partition are our own."""

    def partition_changed(self) -> None:
        self._coordination.unload(self.partition.index)

    def close(self) -> None:
        self._gone = True
        self.partition.forget_reader(self)
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        for ticket in list(self._tickets):
            self._refuse(ticket, ErrorCode.NOT_COORDINATOR)


class _Release:
    """Waits for the high watermark."""

    __slots__ = ("_outcome", "_running")

    def __init__(self, running: RunningShard[Any], outcome: Outcome) -> None:
        self._running = running
        self._outcome = outcome

    def acknowledged(self, error: ErrorCode) -> None:
        self._running.acknowledged(self._outcome, error)


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
        """The shard of a partition; one that is not running is started, and the client told to come back."""
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
        finally:
            self._creation = None
        if isinstance(answer, Refusal) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            log.error(
                "an internal topic could not be created", extra={"topic": self.topic.name, "reason": answer.message}
            )
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self.start()
        return ErrorCode.NONE

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the shard of every partition that is here."""
        for index in range(self.partition_count):
            if index not in self._shards:
                self._start(index)

    def stop(self) -> None:
        for index in list(self._shards):
            self.unload(index)

    def _start(self, index: int) -> RunningShard[S] | None:
        partition = self.broker.replicas.find(self.topic.name, index)
        if partition is None or partition.failure or self.broker.stopping:
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
                replayed += await _replay_chunk(running.shard, chunk)
                offset = chunk.next_offset
                if replayed - reported >= PROGRESS_EVERY:
                    reported = replayed
                    log.info(
                        "loading a coordinator",
                        extra={"partition": repr(partition), "records": replayed, "offset": offset, "end": end},
                    )
        except (LogError, BatchError) as error:
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


# -- loading -----------------------------------------------------------------------------------------------------------


class StoredBatch(NamedTuple):
    """One batch of an internal topic, decoded; or several neighbours that belong to no transaction."""

    producer_id: int
    transactional: bool
    marker: bool | None
    """Whether the transaction was committed, where the batch is the marker that ends it."""
    records: list[Record]


class Chunk(NamedTuple):
    batches: list[StoredBatch]
    next_offset: int


def read_chunk(source: Log, offset: int, end_offset: int) -> Chunk:
    """The batches from `offset` on, a few megabytes of them. Runs in a thread."""
    data = source.read(offset, LOAD_CHUNK_BYTES, end_offset)
    assert data is not None  # only a read of the cache may come back without data
    batches: list[StoredBatch] = []
    at = 0
    while at < len(data):
        base_offset, length, _, last_delta = BATCH_STEP.unpack_from(data, at)
        if data[at + _FLAGS_AT] & _SPECIAL:
            header = peek_header(data, at)
            if not header.is_control:
                batches.append(StoredBatch(header.producer_id, True, None, decode_batch(data, at)))
            elif (type_ := parse_marker(data, at).type) in (ControlType.COMMIT, ControlType.ABORT):
                batches.append(StoredBatch(header.producer_id, True, type_ == ControlType.COMMIT, []))
        elif not batches or batches[-1].transactional:
            batches.append(StoredBatch(NO_PRODUCER_ID, False, None, decode_batch(data, at)))
        else:
            batches[-1].records.extend(decode_batch(data, at))
        at += LENGTH_END + length
        offset = base_offset + last_delta + 1
    return Chunk(batches, offset)


async def _replay_chunk(shard: Shard, chunk: Chunk) -> int:
    """Replays a chunk, a turn of the loop at a time; how many records it had."""
    replayed = in_turn = 0
    for batch in chunk.batches:
        for at in range(0, len(batch.records) or 1, REPLAYS_A_TURN):
            replay_batch(shard, batch, at, at + REPLAYS_A_TURN)
            in_turn += min(len(batch.records) - at, REPLAYS_A_TURN)
            if in_turn >= REPLAYS_A_TURN:
                in_turn = 0
                await asyncio.sleep(0)
        replayed += len(batch.records)
    return replayed


def replay_batch(shard: Shard, batch: StoredBatch, first: int = 0, last: int | None = None) -> None:
    """Hands a stored batch, or some of its records, to a shard."""
    if batch.marker is not None:
        shard.replay_marker(batch.producer_id, batch.marker)
    elif batch.transactional:
        for record in batch.records[first:last]:
            if record.key is not None:
                shard.replay_pending(batch.producer_id, record.key, record.value)
    else:
        replay = shard.replay
        for _, _, key, value, _ in batch.records[first:last]:
            if key is not None:
                replay(key, value)
