"""State topic: a compacted topic as a table that every process of a service follows.

    state = StateTopic("connect-configs", {"bootstrap.servers": brokers}, on_record=apply)
    await state.start()                       # creates the topic, reads it to its end
    await state.write(b"connector-a", value)  # returns when this process has read it back

Readers see committed records only. With a `transactional_id` every write is a transaction; `claim` fences the process
that claimed the same id before: its next write raises `Fenced`, and nothing of it becomes visible.

One task follows the topic and owns the consumer. Calls that wait for a position hand it a `_Waiter`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.aio import Admin, Consumer, Producer
from moldau.client.data_types import RecordMetadata, TopicPartition
from moldau.client.errors import (
    ClosedError,
    IllegalStateError,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    MoldauError,
    ProducerFenced,
    TimedOut,
    WakeupError,
)
from moldau.host.event_log import event_logger
from moldau.service.compacted_topic import StateTopicError, ensure_compacted_topic

__all__ = ["Fenced", "StateRecord", "StateTopic", "StateTopicError"]

log = event_logger(__name__)

READ_TIMEOUT_S: Final = 30.0
IDLE_POLL_S: Final = 1.0
WAITING_POLL_S: Final = 0.01
"""How long the follower polls while a call waits. Poll does not return for control records, which move the position."""
RETRY_S: Final = 0.2
"""The pause after an error that may go away."""
QUERY_TIMEOUT_S: Final = 5.0
CHECK_EVERY_S: Final = 30.0
"""How often the follower looks whether the topic still exists, if nothing fails."""
GONE_AFTER_S: Final = 5.0
"""A topic that brokers do not know for this long was deleted; shorter, and it may be a broker that just started."""
MAX_BATCH: Final = 10_000
"""The largest number of records of one `write_all`."""

FENCING: Final = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping)


class Fenced(MoldauError):
    """Another process has claimed the topic since; this one wrote nothing, and must claim it again to write."""


@dataclass(frozen=True)
class StateRecord:
    """One record of the topic. A value of None is a tombstone."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass(eq=False)
class _Waiter:
    """A call that waits until the follower has reached these offsets; None: the end of all partitions, asked once."""

    reached: asyncio.Future[None]
    targets: dict[int, int] | None = field(default=None)


class StateTopic:
    """A compacted topic as a table. Used from one event loop; calls may run concurrently."""

    def __init__(
        self,
        topic: str,
        client_settings: Mapping[str, Any],
        *,
        on_record: Callable[[StateRecord], None] = lambda record: None,
        on_failure: Callable[[MoldauError], None] = lambda error: None,
        partitions: int = 1,
        replication_factor: int = -1,
        fewer_replicas: bool = False,
        topic_configs: Mapping[str, str] | None = None,
        transactional_id: str | None = None,
        consumer_settings: Mapping[str, Any] | None = None,
        producer_settings: Mapping[str, Any] | None = None,
        admin_settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`client_settings` are for all three clients, the others come on top.

        `on_record` is called in the loop, in the order of each partition, once per record, before `write` and
        `read_to_end` that wait for it return. It must not block. `on_failure` is called once if the topic can no
        longer be followed; from then on every call raises that error. `fewer_replicas`: a cluster with fewer brokers
        than `replication_factor` gets one replica per broker.
        """
        self.topic = topic
        self.table: dict[bytes, StateRecord] = {}
        """The newest record of each key; a key whose newest record is a tombstone is not in it."""
        self.failure: MoldauError | None = None
        """The error that ended the following of the topic."""
        self._on_record = on_record
        self._on_failure = on_failure
        self._wanted = (partitions, replication_factor, fewer_replicas, dict(topic_configs or {}))
        self._transactional_id = transactional_id
        self._admin_settings = {**client_settings, **(admin_settings or {})}
        self._producer_settings = {**client_settings, "acks": "all", "linger.ms": 0, **(producer_settings or {})}
        self._consumer_settings = {
            **client_settings,
            **(consumer_settings or {}),
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
        }
        self._consumer: Consumer | None = None
        self._producer: Producer | None = None
        self._writing = asyncio.Lock()
        self._follower: asyncio.Task[None] | None = None
        self._waiters: set[_Waiter] = set()
        self._positions: dict[int, int] = {}
        self._missing_since: float | None = None
        self._check_at = 0.0

    # -- starting and closing --------------------------------------------------------------------------------------

    async def start(self, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Create the topic if it does not exist, check that it is compacted, and read it to its end.

        Raises StateTopicError if it is not compacted, or has not the wanted number of partitions where that matters
        (one); TimedOut if the brokers do not answer in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        partitions, replication_factor, fewer_replicas, configs = self._wanted
        async with Admin(self._admin_settings) as admin:
            count = await ensure_compacted_topic(
                admin,
                self.topic,
                partitions=partitions,
                replication_factor=replication_factor,
                fewer_replicas=fewer_replicas,
                configs=configs,
                deadline=deadline,
            )
        self._positions = dict.fromkeys(range(count), 0)
        self._consumer = Consumer(self._consumer_settings)
        try:
            await self._consumer.start()
            await self._consumer.assign([TopicPartition(self.topic, index) for index in range(count)])
            self._follower = loop.create_task(self._follow(self._consumer), name=f"follower of {self.topic}")
            await self.read_to_end(deadline - loop.time())
            if self._transactional_id is None:
                self._producer = await Producer(self._producer_settings).start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop following the topic, and close the clients. Waiting calls raise ClosedError."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.cancel()
            await asyncio.wait([follower])
        self._release_waiters(ClosedError(f"the table of topic {self.topic!r} is closed"))
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(timeout=1.0)
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.close(timeout=1.0)

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        """How many partitions the topic has (known after `start`)."""
        return len(self._positions)

    def position(self, partition: int = 0) -> int:
        """The next offset of the partition that this process will read: every record before it was applied."""
        return self._positions[partition]

    async def read_to_end(self, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Return when every record that was committed before this call has been applied."""
        await self._reach(None, timeout_s)

    async def _reach(self, targets: dict[int, int] | None, timeout_s: float) -> None:
        if self.failure is not None:
            raise self.failure
        if self._consumer is None or self._follower is None:
            raise ClosedError(f"the table of topic {self.topic!r} is closed, or was not started")
        waiter = _Waiter(asyncio.get_running_loop().create_future(), targets)
        self._waiters.add(waiter)
        self._consumer.wakeup()
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.reached
        except TimeoutError:
            raise TimedOut(f"topic {self.topic!r} was not read to its end within {timeout_s:g} s") from None
        finally:
            self._waiters.discard(waiter)

    async def _follow(self, consumer: Consumer) -> None:
        """Apply records as they come, for ever. An error that may go away is retried."""
        while True:
            try:
                await self._follow_once(consumer)
            except WakeupError:
                continue
            except MoldauError as error:
                if not error.retriable:
                    self._fail(error)
                    return
                log.warning("reading the topic failed", extra={"topic": self.topic, "reason": str(error)})
                self._check_at = 0.0
                await asyncio.sleep(RETRY_S)
            except Exception as error:  # noqa: BLE001 - `on_record` raised: the table is not what the topic says
                self._fail(StateTopicError(f"a record of topic {self.topic!r} could not be applied: {error!r}"), error)
                return

    async def _follow_once(self, consumer: Consumer) -> None:
        for record in await consumer.poll(WAITING_POLL_S if self._waiters else IDLE_POLL_S):
            self._apply(StateRecord(record.partition, record.offset, record.timestamp, record.key, record.value))
        now = asyncio.get_running_loop().time()
        if now >= self._check_at:
            await self._check_existence(consumer, now)
        if self._waiters:
            await self._serve_waiters(consumer)

    async def _check_existence(self, consumer: Consumer, now: float) -> None:
        """Look whether the topic still exists: a consumer waits for a deleted topic without an error."""
        if await consumer.partitions_for(self.topic, timeout=QUERY_TIMEOUT_S):
            self._missing_since, self._check_at = None, now + CHECK_EVERY_S
            return
        self._missing_since = now if self._missing_since is None else self._missing_since
        if now - self._missing_since >= GONE_AFTER_S:
            raise StateTopicError(
                f"topic {self.topic!r} was deleted; restart the service, which creates it again, empty"
            )

    def _apply(self, record: StateRecord) -> None:
        if record.key is not None:
            if record.value is None:
                self.table.pop(record.key, None)
            else:
                self.table[record.key] = record
        self._on_record(record)
        self._positions[record.partition] = record.offset + 1

    async def _serve_waiters(self, consumer: Consumer) -> None:
        asked = [waiter for waiter in self._waiters if waiter.targets is None]
        if asked:
            ends = await consumer.end_offsets(timeout=QUERY_TIMEOUT_S)
            for waiter in asked:
                waiter.targets = {partition.partition: end for partition, end in ends.items()}
        for partition in self._positions:
            # Beyond the last record there may be control records, which only the consumer's own position passes.
            self._positions[partition] = await consumer.position(TopicPartition(self.topic, partition), QUERY_TIMEOUT_S)
        for waiter in list(self._waiters):
            targets = waiter.targets
            if targets is not None and all(self._positions[index] >= end for index, end in targets.items()):
                self._waiters.discard(waiter)
                if not waiter.reached.done():
                    waiter.reached.set_result(None)

    def _fail(self, error: MoldauError, cause: Exception | None = None) -> None:
        error.__cause__ = cause
        self.failure = error
        log.error("the topic can no longer be followed", extra={"topic": self.topic, "reason": str(error)})
        self._release_waiters(error)
        self._on_failure(error)

    def _release_waiters(self, error: MoldauError) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            if not waiter.reached.done():
                waiter.reached.set_exception(error)

    # -- writing ---------------------------------------------------------------------------------------------------

    async def claim(self, timeout_s: float = READ_TIMEOUT_S) -> None:
        """Become the writer: fence the process that claimed the same transactional id, then read to the end."""
        if self._transactional_id is None:
            raise IllegalStateError(f"topic {self.topic!r} has no transactional_id, so it cannot be claimed")
        async with self._time_limit("claiming", timeout_s), self._writing:
            old, self._producer = self._producer, None
            if old is not None:
                await old.close(timeout=0.0)
            producer = Producer({**self._producer_settings, "transactional.id": self._transactional_id})
            try:
                await producer.start()
                await producer.init_transactions()
            except BaseException:
                await producer.close(timeout=0.0)
                raise
            self._producer = producer
            await self.read_to_end(timeout_s)

    async def write(
        self, key: bytes | None, value: bytes | None, *, partition: int | None = None, timeout_s: float = READ_TIMEOUT_S
    ) -> StateRecord:
        """Write one record; None deletes the key. Return when this process has applied it (read-your-write).

        Raises Fenced if another process has claimed the topic, TimedOut if the outcome is not known in time. After any
        error of a transactional write, `claim` the topic again: that ends the transaction, and the table says whether
        it was written.
        """
        return (await self.write_all([(key, value)], partition=partition, timeout_s=timeout_s))[0]

    async def write_all(
        self,
        records: Sequence[tuple[bytes | None, bytes | None]],
        *,
        partition: int | None = None,
        timeout_s: float = READ_TIMEOUT_S,
    ) -> list[StateRecord]:
        """Write several records in this order, in one transaction if the topic has a `transactional_id`."""
        if len(records) > MAX_BATCH:
            raise IllegalStateError(f"{len(records)} records are more than one call may write ({MAX_BATCH})")
        if not records:
            return []
        async with self._time_limit("writing", timeout_s), self._writing:
            written = await self._send(records, partition)
        targets: dict[int, int] = {}
        for one in written:
            targets[one.partition] = max(targets.get(one.partition, 0), one.offset + 1)
        await self._reach(targets, timeout_s)
        return [
            StateRecord(one.partition, one.offset, one.timestamp, key, value)
            for one, (key, value) in zip(written, records, strict=True)
        ]

    async def _send(
        self, records: Sequence[tuple[bytes | None, bytes | None]], partition: int | None
    ) -> list[RecordMetadata]:
        if self.failure is not None:
            raise self.failure
        producer = self._producer
        if producer is None:
            unclaimed = self._transactional_id is not None and self._follower is not None
            raise (
                Fenced(f"this process has not claimed topic {self.topic!r}")
                if unclaimed
                else ClosedError(f"the table of topic {self.topic!r} is closed, or was not started")
            )
        if self._transactional_id is None:
            return [await one for one in [await self._send_one(producer, *record, partition) for record in records]]
        try:
            async with producer.transaction():
                sent = [await self._send_one(producer, *record, partition) for record in records]
            return [await one for one in sent]
        except FENCING as error:
            await self._drop(producer)
            raise Fenced(f"another process has claimed topic {self.topic!r} since; nothing was written") from error
        except BaseException:
            # The outcome may be unknown. A new claim ends this transaction, and then the topic says what was written.
            await self._drop(producer)
            raise

    async def _send_one(self, producer: Producer, key: bytes | None, value: bytes | None, partition: int | None) -> Any:
        return await producer.send(self.topic, value, key, partition=partition)

    async def _drop(self, producer: Producer) -> None:
        self._producer = None
        await producer.close(timeout=0.0)

    @asynccontextmanager
    async def _time_limit(self, doing: str, timeout_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(timeout_s):
                yield
        except TimeoutError as error:
            if isinstance(error, MoldauError):
                raise
            raise TimedOut(
                f"{doing} topic {self.topic!r} took more than {timeout_s:g} s; the outcome is not known"
            ) from None
