"""Simulation of a producer's sender: real code between a simulated clock, network and brokers.

Requests are decoded from their bytes. A broker keeps what Kafka's brokers keep for a producer: its epoch and the last
five batches. The network loses connections before and after a request was processed, and delivers requests of lost
connections late, after they were sent again. Leadership of all partitions can move at any time to a broker that has all
batches of the former leader. Random choices come from a seed; the clock jumps from event to event.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from moldau.client.data_types import Node, TopicPartition
from moldau.client.errors import BrokerUnavailable, MoldauError
from moldau.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from moldau.client.producer.config import ProducerConfig
from moldau.client.producer.engine import Accumulator, RecordFuture
from moldau.client.producer.sender import NoTransactions, Sender
from moldau.client.settings import PRODUCER, ClientSettings
from moldau.records import decode_batch, peek_header
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.init_producer_id import InitProducerIdResponse
from moldau.wire.messages.produce import (
    ProduceRequest,
    ProduceResponse,
    ProduceResponsePartition,
    ProduceResponseTopic,
)

VERSION = 12
TOPIC = "orders"
BROKERS = 2
REMEMBERED = 5
MOST_SILENCE_S = 0.2
"""The longest time until a client notices that a broker is gone."""


class VirtualLoop:
    """The part of an event loop that the sender uses."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def call_later(self, delay: float, callback: Callable[..., object], *arguments: Any) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(0, callback, arguments, self)  # type: ignore[arg-type]

        def run() -> None:
            if not handle.cancelled():
                callback(*arguments)

        heapq.heappush(self._events, (self.now + max(delay, 1e-6), next(self._numbers), run))
        return handle

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        self.call_later(0, callback, *arguments)

    def create_task(self, coroutine: Coroutine[Any, Any, None], name: str = "") -> None:
        """Run the coroutine at once: none of those started here waits for anything."""

        def run() -> None:
            try:
                coroutine.send(None)
            except StopIteration:
                return
            raise AssertionError(f"{name} waits")

        self.call_soon(run)

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def run_until(self, at: float) -> None:
        while self._events and self._events[0][0] <= at:
            self.now, _, callback = heapq.heappop(self._events)
            callback()
        self.now = max(self.now, at)


class Log:
    """A partition at its leader."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = {}
        self.restarts = 0

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        header = peek_header(batch)
        values = [record.value or b"" for record in decode_batch(batch)]
        if header.producer_id < 0:
            return self._store(values)
        epoch, known = self._producers.get(header.producer_id, (-1, deque()))
        if header.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > epoch:
            if header.base_sequence != 0 and epoch >= 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.restarts += epoch >= 0
            known = deque(maxlen=REMEMBERED)  # Kafka accepts any sequence number of an unknown producer
        elif known:
            for first, last, offset in known:
                if (first, last) == (header.base_sequence, header.base_sequence + header.count - 1):
                    return ErrorCode.NONE, offset
            if header.base_sequence != known[-1][1] + 1:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        code, offset = self._store(values)
        known.append((header.base_sequence, header.base_sequence + header.count - 1, offset))
        self._producers[header.producer_id] = (header.producer_epoch, known)
        return code, offset

    def forget(self) -> None:
        """Forget all but the last batch of each producer, as a restarted broker does."""
        for _, known in self._producers.values():
            while len(known) > 1:
                known.popleft()

    def _store(self, values: list[bytes]) -> tuple[ErrorCode, int]:
        self.values += values
        return ErrorCode.NONE, len(self.values) - len(values)


class Connection:
    """One connection. Requests arrive in order, with a delay."""

    writable = True

    def __init__(self, simulation: ProducerSimulation, node: int) -> None:
        self._world = simulation
        self._node = node
        self._waiting: list[Callable[[memoryview | None, MoldauError | None], None]] = []
        self.lost = False
        self.silent = False  # the broker is gone, but the client does not know it yet
        self._arrives = 0.0
        self._answers = 0.0

    def version(self, key: ApiKey, at_most: int | None = None, at_least: int = 0) -> int:
        return VERSION

    def send(
        self, key: ApiKey, version: int, body: Sequence[Any], on_reply: Any, deadline: float, no_reply: bool = False
    ) -> None:
        simulation = self._world
        request = ProduceRequest.decode(b"".join(body), version)
        if self.lost:
            simulation.loop.call_soon(on_reply, None, BrokerUnavailable("lost"))
            return
        self._waiting.append(on_reply)
        self._arrives = max(self._arrives, simulation.loop.now + simulation.chance.uniform(0.0005, 0.003))
        simulation.loop.call_later(self._arrives - simulation.loop.now, self._arrived, request, on_reply)

    def _arrived(self, request: ProduceRequest, on_reply: Any) -> None:
        """Requests of a connection that the client has closed may still reach the broker, even much later."""
        simulation = self._world
        if self.silent or (self.lost and not simulation.strikes("late requests")):
            return
        if simulation.strikes("lost before"):
            self.lose()
            return
        response = simulation.produce(request, self._node)
        if simulation.leader == self._node and simulation.strikes("leader moves"):
            simulation.move_leader()
        if simulation.strikes("lost after"):
            self.lose()
            return
        self._answers = max(self._answers, simulation.loop.now + simulation.chance.uniform(0.0005, 0.003))
        simulation.loop.call_later(
            self._answers - simulation.loop.now, self._answered, response.encode(VERSION), on_reply
        )

    def _answered(self, answer: bytes, on_reply: Any) -> None:
        if on_reply in self._waiting and not self.silent:
            self._waiting.remove(on_reply)
            on_reply(memoryview(answer), None)

    def lose(self) -> None:
        self.lost = True
        if self._world.links.get(self._node) is self:
            del self._world.links[self._node]
        waiting, self._waiting = self._waiting, []
        for on_reply in waiting:
            self._world.loop.call_soon(on_reply, None, BrokerUnavailable("lost"))


class ProducerSimulation:
    """Sender, network and brokers. It is also the network object of the sender."""

    def __init__(self, seed: int, faults: dict[str, float], partitions: int = 2, **settings: Any) -> None:
        self.chance = random.Random(seed)
        self.faults = faults
        self.most_records = self.chance.choice([2, 3, 5, 1000])  # records per batch; more are "too large"
        self.loop = VirtualLoop()
        self.logs = [Log() for _ in range(partitions)]
        self.sent: list[list[tuple[bytes, RecordFuture]]] = [[] for _ in range(partitions)]
        self.links: dict[int, Connection] = {}
        self.leader = 0
        self._listeners: list[Callable[[ClusterMetadata], None]] = []
        self.metadata = self._led_by(0)
        config = ProducerConfig.of(
            ClientSettings.of(PRODUCER, {"bootstrap.servers": "h:1", "batch.size": "200", "linger.ms": "0"}, settings)
        )
        self.accumulator = Accumulator(
            config.batch_size, config.linger_s, 1 << 25, 1 << 20, self._wake, self._refused, False, self.loop
        )
        self.accumulator.know_topic(TOPIC, partitions, list(range(partitions)))
        self.sender = Sender(
            self,  # type: ignore[arg-type]
            config,
            self.accumulator,
            NoTransactions(),
            lambda: None,
            self.loop,
            self.loop,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
        )

    def random(self) -> float:
        return self.chance.random()

    def strikes(self, fault: str) -> bool:
        return self.chance.random() < self.faults.get(fault, 0)

    # -- the application -------------------------------------------------------------------------------------------

    def send(self, partition: int, value: bytes) -> None:
        when = 1_700_000_000_000 + self.chance.randrange(10_000)
        future = self.accumulator.send(TOPIC, value, partition=partition, timestamp=when)
        self.sent[partition].append((value, future))

    def _wake(self) -> None:
        self.loop.call_soon(self.sender.run)

    def _refused(self, refusal: Any, *arguments: Any) -> RecordFuture:
        raise AssertionError(refusal)

    # -- the brokers -----------------------------------------------------------------------------------------------

    def _led_by(self, leader: int) -> ClusterMetadata:
        listed = [PartitionMetadata(i, leader, 0) for i in range(len(self.logs))]
        nodes = {node: Node(node, "h", 1 + node) for node in range(BROKERS)}
        return ClusterMetadata("c", 0, nodes, {TOPIC: TopicMetadata(TOPIC, partitions=listed)})

    def move_leader(self) -> None:
        """Make the other broker the leader. The client hears of it before it notices that the old leader is gone."""
        before = self.links.get(self.leader)
        self.leader = (self.leader + 1) % BROKERS
        self.metadata = self._led_by(self.leader)
        for listener in self._listeners:
            listener(self.metadata)
        if before is not None and self.chance.random() < 0.5:
            before.silent = True
            self.loop.call_later(self.chance.uniform(0, MOST_SILENCE_S), before.lose)

    def produce(self, request: ProduceRequest, node: int) -> ProduceResponse:
        parts = [part for topic in request.topic_data for part in topic.partition_data]
        answers = [self._one(part.index, bytes(part.records or b""), node) for part in parts]
        return ProduceResponse(responses=[ProduceResponseTopic(name=TOPIC, partition_responses=answers)])

    def _one(self, index: int, batch: bytes, node: int) -> ProduceResponsePartition:
        count = peek_header(batch).count
        if node != self.leader or self.strikes("not leader"):
            return ProduceResponsePartition(index=index, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.strikes("invalid"):
            return ProduceResponsePartition(index=index, error_code=ErrorCode.INVALID_RECORD)
        if count > self.most_records:
            return ProduceResponsePartition(index=index, error_code=ErrorCode.MESSAGE_TOO_LARGE)
        code, offset = self.logs[index].append(batch)
        if code is ErrorCode.NONE and self.strikes("after append"):
            code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        elif code is ErrorCode.NONE and self.strikes("leader moves after append"):
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self.logs[index].forget()
        return ProduceResponsePartition(index=index, error_code=code, base_offset=offset)

    # -- the network, as the sender sees it ------------------------------------------------------------------------

    def on_metadata(self, listener: Callable[[ClusterMetadata], None]) -> None:
        self._listeners.append(listener)

    def refresh_soon(self) -> None:
        pass

    def follow(self, topics: list[str]) -> None:
        assert topics == [TOPIC]

    def connected(self, node: int) -> Connection | None:
        return self.links.get(node)

    async def connection(self, node: int, deadline: float) -> Connection:
        self.links[node] = Connection(self, node)
        return self.links[node]

    async def retrying(self, attempt: Any, *, deadline: float, what: str) -> Any:
        return InitProducerIdResponse(producer_id=7, producer_epoch=0)

    def new_leaders(self, leaders: dict[TopicPartition, tuple[int, int]]) -> None:
        pass
