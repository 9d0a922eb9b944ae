"""Simulated clients: write numbered values, read them, and record the results in the history.

They are the project's own asyncio clients, each in its own simulated process. An error that a client may raise is not
an anomaly: it is recorded in the trace, and the work continues with the same or a new client. Only acknowledgements and
records read are evidence.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from moldau.aio import Consumer, Producer
from moldau.client.errors import (
    AuthenticationError,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    MoldauError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from moldau.client.producer.engine import RecordFuture
from moldau.testing.simulation.history import (
    Acked,
    Denial,
    OffsetCommit,
    OffsetSeen,
    Place,
    Seen,
    Sent,
    TransactionOutcome,
    TransactionStep,
)
from moldau.testing.simulation.security import WORKER

if TYPE_CHECKING:
    from moldau.testing.simulation.world import World

COMMON = {
    "request.timeout.ms": 3_000,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 500,
    "metadata.max.age.ms": 10_000,
}
COMMON |= {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 500, "socket.connection.setup.timeout.ms": 1_000}
COMMON |= {"socket.connection.setup.timeout.max.ms": 2_000}

DENIED = (
    AuthenticationError,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)

CLOSE_S = 2.0
CALL_S = 20.0


class SimulatedClient:
    """A process with one client, which is replaced by a new one after a fatal error."""

    user = WORKER
    """As whom it logs in, if the cluster is secured."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.world = world
        self.history = world.history
        self.random = Random(world.random.getrandbits(64))
        self.stopping = False
        self._made = 0

    def settings(self, **more: Any) -> dict[str, Any]:
        """Settings with a new client id for every client, so that the trace can distinguish them."""
        self._made += 1
        given = {**self.world.client_settings(self.user), "client.id": f"{self.name}.{self._made}"}
        return {**given, **{key.replace("_", "."): value for key, value in more.items()}}

    def failed(self, error: BaseException) -> None:
        """Called with every error of a client: one that denies something to a user with all rights is evidence."""
        if isinstance(error, DENIED):
            what = f"{type(error).__name__}: {error}"
            self.history.denials.append(Denial(self.name, self.user, what, self.now_s))

    def note(self, what: str) -> None:
        self.world.trace.add(self.name, what)

    @property
    def now_s(self) -> float:
        return self.world.trace.now_s()

    async def run(self) -> None:
        """Work until `stopping` is set."""
        while not self.stopping:
            try:
                await self.work()
            except MoldauError as error:
                self.failed(error)
                self.note(f"starts a new client after {type(error).__name__}: {error}")
            await asyncio.sleep(0.1 + 0.4 * self.random.random())

    async def work(self) -> None:
        """Create one client and use it."""

    async def pause(self, at_most_s: float) -> None:
        await asyncio.sleep(at_most_s * self.random.random())


class Writer(SimulatedClient):
    """Sends numbered values to the partitions of a topic."""

    def __init__(
        self, world: World, name: str, topic: str, partitions: int, *, acks: str = "all", idempotent: bool = True
    ) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.partitions = partitions
        self.acks = acks
        self.idempotent = idempotent
        self._numbers: dict[Place, int] = defaultdict(int)

    async def work(self) -> None:
        settings = self.settings(
            acks=self.acks,
            enable_idempotence=self.idempotent,
            delivery_timeout_ms=15_000,
            linger_ms=2,
            max_block_ms=10_000,
        )
        producer = Producer(settings)
        await producer.start()
        try:
            while not self.stopping:
                for _ in range(self.random.choice((1, 1, 1, 2, 5))):
                    await self.send(producer, self.random.randrange(self.partitions))
                await self.pause(self.world.pace_s)
        finally:
            await producer.close(CLOSE_S)

    async def send(self, producer: Producer, partition: int, transaction: str | None = None) -> RecordFuture:
        """Send the next value; the result can be awaited for the acknowledgement."""
        place = (self.topic, partition)
        self._numbers[place] += 1
        number = self._numbers[place]
        value = f"{self.name}/{self.topic}-{partition}/{number}"
        self.history.sent[value] = Sent(
            value,
            self.name,
            number,
            place,
            self.now_s,
            idempotent=self.idempotent,
            durable=self.acks == "all",
            transaction=transaction,
        )

        def delivered(metadata: Any, error: Exception | None) -> None:
            if error is None and metadata.offset >= 0:
                self.history.acked.append(Acked(value, place, metadata.offset, self.now_s))
            elif error is not None:
                self.failed(error)
                self.note(f"{value} failed: {type(error).__name__}")

        return await producer.send(self.topic, value.encode(), partition=partition, on_delivery=delivered)


class TransactionalWriter(Writer):
    """Sends values in transactions, and aborts some of them."""

    def __init__(self, world: World, name: str, topic: str, partitions: int) -> None:
        super().__init__(world, name, topic, partitions)
        self._transactions = 0

    async def work(self) -> None:
        producer = self._producer()
        await producer.start()
        try:
            await producer.init_transactions()
            while not self.stopping:
                await self._one(producer)
                await self.pause(self.world.pace_s * 4)
        finally:
            await producer.close(CLOSE_S)

    def _producer(self) -> Producer:
        return Producer(
            self.settings(
                transactional_id=self.name, transaction_timeout_ms=8_000, delivery_timeout_ms=6_000, max_block_ms=10_000
            )
        )

    async def _one(self, producer: Producer) -> None:
        self._transactions += 1
        name = f"{self.name}#{self._transactions}"
        self._ended(name, TransactionOutcome.OPEN)
        await producer.begin_transaction()
        try:
            for _ in range(self.random.randint(1, 4)):
                await self.send(producer, self.random.randrange(self.partitions), name)
                await self.pause(self.world.pace_s / 2)
            fate = self.random.random()
            if fate < 0.25:
                await self._abort(producer, name)
                return
            if fate < 0.33:
                await self._be_replaced(name)
            await producer.flush(CALL_S)
            replaced = self.history.outcomes()[name] is TransactionOutcome.ABORTED
            if not replaced:
                self._ended(name, TransactionOutcome.COMMITTING)
            await producer.commit_transaction()
            if replaced:
                self.world.anomaly("replaced producer obeyed", f"{name} was committed")
            self._ended(name, TransactionOutcome.COMMITTED)
        except MoldauError as error:
            self.failed(error)
            self.note(f"transaction {name}: {type(error).__name__}: {error}")
            if self.history.outcomes()[name] is TransactionOutcome.OPEN:
                await self._abort(producer, name)
            else:
                raise

    async def _be_replaced(self, name: str) -> None:
        """Let another producer take over the transactional id while this one does not know it.

        The first producer then tries to commit. That must fail, and its records must never be visible.
        """
        successor = self._producer()
        await successor.start()
        try:
            await successor.init_transactions()
            self._ended(name, TransactionOutcome.ABORTED)
            self.note(f"transaction {name} was begun by a producer that has been replaced since")
        finally:
            await successor.close(CLOSE_S)

    async def _abort(self, producer: Producer, name: str) -> None:
        # From now on no commit is requested, so the records must not become visible, whatever happens to the request.
        self._ended(name, TransactionOutcome.ABORTED)
        await producer.abort_transaction()

    def _ended(self, name: str, outcome: TransactionOutcome) -> None:
        self.history.ended.append(TransactionStep(name, outcome, self.now_s))


class Reader(SimulatedClient):
    """Reads all partitions of some topics from the beginning, and records what it gets."""

    def __init__(
        self, world: World, name: str, places: Sequence[Place], *, committed_only: bool = False, rack: str = ""
    ) -> None:
        super().__init__(world, name)
        self.places = places
        self.committed_only = committed_only
        self.rack = rack
        """If set, it reads from the follower in that rack, if there is one."""

    async def work(self) -> None:
        consumer = self.consumer()
        try:
            await consumer.assign(list(self.places))
            ends_s = self.now_s + 5 + 25 * self.random.random()
            while not self.stopping and self.now_s < ends_s:
                self.take(await consumer.poll(1.0))
        finally:
            await consumer.close(CLOSE_S)

    def consumer(self, **more: Any) -> Consumer:
        isolation = "read_committed" if self.committed_only else "read_uncommitted"
        return Consumer(
            self.settings(
                auto_offset_reset="earliest",
                isolation_level=isolation,
                default_api_timeout_ms=10_000,
                fetch_max_wait_ms=2_000,
                client_rack=self.rack,
                **more,
            )
        )

    def take(self, records: Sequence[Any]) -> None:
        for record in records:
            self.history.seen.append(
                Seen(
                    self.name,
                    (record.topic, record.partition),
                    record.offset,
                    bytes(record.value).decode(),
                    self.now_s,
                    self.committed_only,
                )
            )


class Member(Reader):
    """A member of a group: reads its assigned partitions, commits, leaves and joins again."""

    def __init__(self, world: World, name: str, group: str, topic: str, protocol: str) -> None:
        super().__init__(world, name, [])
        self.group = group
        self.topic = topic
        self.protocol = protocol

    async def work(self) -> None:
        more: dict[str, Any] = {"group_id": self.group, "enable_auto_commit": False, "group_protocol": self.protocol}
        if self.protocol == "classic":
            more |= {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}
        consumer = self.consumer(**more)
        try:
            await consumer.subscribe([self.topic])
            ends_s = self.now_s + 5 + 25 * self.random.random()
            while not self.stopping and self.now_s < ends_s:
                records = await consumer.poll(1.0)
                self.take(records)
                if records:
                    await self._commit(consumer, records)
        finally:
            await consumer.close(CLOSE_S)

    async def _commit(self, consumer: Consumer, records: Sequence[Any]) -> None:
        ends: dict[Place, int] = {}
        for record in records:
            place = (record.topic, record.partition)
            self.history.group_read.setdefault((self.group, place), {})[record.offset] = None
            ends[place] = record.offset + 1
        began_s = self.now_s
        try:
            await consumer.commit(dict(ends), timeout=CALL_S)  # type: ignore[arg-type]
        except MoldauError as error:
            self.failed(error)
            self.note(f"commit failed: {type(error).__name__}: {error}")
            self._committed(ends, began_s, None)
            if not error.retriable:
                raise
            return
        self._committed(ends, began_s, self.now_s)

    def _committed(self, ends: dict[Place, int], began_s: float, at_s: float | None) -> None:
        for place, offset in ends.items():
            self.history.offset_commits.append(OffsetCommit(self.group, place, offset, began_s, at_s))


class OffsetWatcher(SimulatedClient):
    """Repeatedly reads a group's committed offsets."""

    def __init__(self, world: World, name: str, group: str, places: Sequence[Place]) -> None:
        super().__init__(world, name)
        self.group = group
        self.places = places

    async def work(self) -> None:
        consumer = Consumer(self.settings(group_id=self.group, enable_auto_commit=False, default_api_timeout_ms=10_000))
        try:
            while not self.stopping:
                await self.look(consumer)
                await self.pause(4.0)
        finally:
            await consumer.close(CLOSE_S)

    async def look(self, consumer: Consumer) -> dict[Place, int | None]:
        began_s = self.now_s
        told = await consumer.committed(*self.places, timeout=CALL_S)
        found: dict[Place, int | None] = {}
        for partition, offset in told.items():
            place = (partition[0], partition[1])
            found[place] = None if offset is None else offset.offset
            self.history.offsets_seen.append(OffsetSeen(self.group, place, found[place], began_s, self.now_s))
        return found
