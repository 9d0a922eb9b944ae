"""Producer sender: sends batches to the leaders of their partitions and dispatches the answers.

One object in one event loop; none of its methods waits. `run` sends all that can be sent now. It is called after each
event that may change that: new records, an answer, a new connection, new metadata, the end of a pause. If a partition
is held back, the event that ends the reason calls `run` again.

The rules of order are in `sequences.py`. A request contains at most one batch per partition, and up to max.request.size
bytes. At most max.in.flight.requests.per.connection requests per broker have no answer yet. The same limit holds per
partition, also while its leader changes.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.client.connection import Connection
from moldau.client.data_types import NO_LEADER
from moldau.client.errors import BrokerUnavailable, MoldauError, NotKafka
from moldau.client.producer.accumulator import NEVER
from moldau.client.producer.delivery import Delivery
from moldau.client.producer.engine import Accumulator, Batch, PartitionQueue
from moldau.client.producer.idempotence import IdentityKeeper
from moldau.client.producer.metrics import Counters
from moldau.client.producer.partition_send_state import PartitionSendState
from moldau.client.producer.request_assembly import RequestAssembly
from moldau.client.producer.requests import ProduceAnswer, acknowledged, batch_header, decode, prepare_body
from moldau.client.producer.transaction_hooks import NoTransactions, TransactionHooks
from moldau.host.clock import Clock, Randomness, SystemClock, SystemRandomness
from moldau.wire.api import ApiKey
from moldau.wire.errors import WireError

if TYPE_CHECKING:
    from moldau.client.metadata import ClusterMetadata
    from moldau.client.network import Network
    from moldau.client.producer.config import ProducerConfig

__all__ = ["NoTransactions", "Sender", "TransactionHooks"]

UNWRITABLE_PAUSE_S: Final = 0.005
"""The pause before the next check whether a full connection is writable; with acks=0 no answer triggers the check."""

FOLLOW_SHARE: Final = 0.25
"""How often a topic in use is reported to the network, as a share of metadata.max.idle.ms."""

CONNECT_PAUSE_S: Final = 0.01
"""The pause before the next attempt to connect, in addition to reconnect.backoff.ms, which the network keeps."""


class LeaderNode:
    """A broker as the sender sees it: the lanes of the partitions that it leads, and its requests in flight."""

    __slots__ = ("connecting", "in_flight", "lanes", "node_id")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.lanes: deque[PartitionSendState] = deque()
        """The lanes that may have something to send, in turn."""
        self.in_flight = 0
        self.connecting: asyncio.Task[None] | None = None


class Sender:
    """Sends all batches of one producer. Runs in the producer's loop only."""

    def __init__(
        self,
        network: Network,
        config: ProducerConfig,
        accumulator: Accumulator,
        transactions: TransactionHooks,
        on_memory: Callable[[], None],
        clock: Clock | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        self._network = network
        self._config = config
        self._accumulator = accumulator
        self._transactions = transactions
        self._on_memory = on_memory
        self._clock = (clock or SystemClock()).monotonic
        self._loop = loop or asyncio.get_running_loop()
        self.counters = Counters()
        chance = (randomness or SystemRandomness()).random
        self._requests = RequestAssembly(network, config, transactions)
        self._delivery = Delivery(config, accumulator, transactions, self.counters, network.refresh_soon, chance)
        self._identity = IdentityKeeper(
            network, self._loop, config.idempotent, transactions, self.resume, self._identity_refused
        )
        self._lanes: list[PartitionSendState] = []
        self._leaders: dict[int, LeaderNode] = {}
        self._follow_again: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._expire_at = NEVER
        self._stopped = False
        network.on_metadata(self._metadata_changed)

    @property
    def in_flight(self) -> int:
        """The number of requests without an answer."""
        return sum(leader.in_flight for leader in self._leaders.values())

    # -- events ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Send everything that can be sent now."""
        if self._stopped:
            return
        now = self._clock()
        ready, next_due = self._accumulator.collect(now)
        if len(ready) == 1:
            lane = self._lane_of(ready[0])
            if not self._sent_at_once(lane, now):
                self._offer(lane)
        else:
            for queue in ready:
                self._offer(self._lane_of(queue))
        if now >= self._expire_at:
            self._expire_at = self._delivery.expire(self._lanes, now)
            self._on_memory()
        if self._expire_at == NEVER and self._accumulator.incomplete:
            self._expire_at = now + self._config.delivery_timeout_s
        wake_at = min(next_due, self._expire_at)
        for leader in list(self._leaders.values()):
            if leader.lanes and leader.node_id != NO_LEADER:
                wake_at = min(wake_at, self._send_to(leader, now))
        self._set_timer(wake_at)

    def resume(self) -> None:
        """Check all lanes again, because the reason that held some back may be gone, and send."""
        for lane in self._lanes:
            self._offer(lane)
        self.run()

    def fail_waiting(self, error: MoldauError) -> None:
        """Fail all batches that are not on the wire, when a transaction is aborted or the producer is closed."""
        self._accumulator.hurry()
        for queue in self._accumulator.collect(self._clock())[0]:
            self._lane_of(queue)
        for lane in self._lanes:
            for batch in list(lane.waiting):
                self._delivery.give_up(lane, batch, error)
            while (fresh := self._accumulator.take(lane.queue, even_if_not_due=True)) is not None:
                self._delivery.give_up(lane, fresh, error)
        self._on_memory()

    def fail_all(self, error: MoldauError) -> None:
        """Fail all batches, including those on the wire."""
        self.fail_waiting(error)
        for lane in self._lanes:
            for batch in list(lane.sequences.in_flight):
                batch.in_doubt = True
                self._delivery.give_up(lane, batch, error)
        self._on_memory()

    async def stop(self) -> None:
        """Stop sending."""
        self._stopped = True
        self._set_timer(NEVER)
        tasks = [leader.connecting for leader in self._leaders.values() if leader.connecting is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._identity.close()

    # -- lanes -----------------------------------------------------------------------------------------------------

    def _lane_of(self, queue: PartitionQueue) -> PartitionSendState:
        self._follow(queue.topic)
        lane: PartitionSendState | None = queue.sender_state
        if lane is None:
            lane = queue.sender_state = PartitionSendState(queue, self._config.idempotent)
            lane.leader = self._network.metadata.leader(lane.partition)
            self._lanes.append(lane)
        self._transactions.batch_added(lane.partition)
        return lane

    def _follow(self, topic: str) -> None:
        """Report from time to time that the topic is in use. Otherwise its metadata expires (metadata.max.idle.ms)."""
        now = self._clock()
        if now >= self._follow_again.get(topic, 0.0):
            self._follow_again[topic] = now + self._config.topic_idle_s * FOLLOW_SHARE
            self._network.follow([topic])

    def _offer(self, lane: PartitionSendState) -> None:
        """Add the lane to the lanes of its leader, if it has something to send."""
        if lane.queued or not lane.has_work:
            return
        lane.queued = True
        self._leader(lane.leader).lanes.append(lane)
        if lane.leader == NO_LEADER:
            self._network.refresh_soon()

    def _leader(self, node_id: int) -> LeaderNode:
        leader = self._leaders.get(node_id)
        if leader is None:
            leader = self._leaders[node_id] = LeaderNode(node_id)
        return leader

    def _metadata_changed(self, image: ClusterMetadata) -> None:
        for lane in self._lanes:
            if lane.partition.topic not in image.topics and (lane.has_work or lane.sequences.in_flight):
                self._network.follow([lane.partition.topic])
            leader = image.leader(lane.partition)
            if leader == lane.leader:
                continue
            if lane.queued:
                self._leader(lane.leader).lanes.remove(lane)
                lane.queued = False
            lane.leader = leader
            lane.resume_at = 0.0  # the pause was for the former leader
            self._offer(lane)
        if self._leader(NO_LEADER).lanes:
            self._network.refresh_soon()  # until these partitions have a leader
        self.run()

    # -- sending ---------------------------------------------------------------------------------------------------

    def _sent_at_once(self, lane: PartitionSendState, now: float) -> bool:
        """Send one batch of a lane at once, if no other work is pending. A short cut for `_send_to`."""
        leader = self._leader(lane.leader)
        if lane.queued or lane.waiting or leader.lanes or leader.in_flight or lane.resume_at > now:
            return False
        connection = self._network.connected(lane.leader)
        if connection is None or not connection.writable or not self._identity.ready:
            return False
        batch = self._next_batch(lane)
        if batch is None:
            return False
        prepare_body(batch, self._config.codec, self._config.level)
        self._transmit(leader, connection, [(lane, batch)], now)
        self._offer(lane)
        return True

    def _send_to(self, leader: LeaderNode, now: float) -> float:
        """Send requests to one broker up to the limit in flight. Return the time of the next check without an event."""
        if not self._identity.ready:
            return NEVER
        connection = self._network.connected(leader.node_id)
        if connection is None:
            self._connect(leader)
            return NEVER
        look_again = NEVER
        while leader.lanes and leader.in_flight < self._config.max_in_flight:
            if not connection.writable:
                return min(look_again, now + UNWRITABLE_PAUSE_S)
            chosen, pause_until = self._choose(leader, now)
            look_again = min(look_again, pause_until)
            if not chosen:
                break
            self._transmit(leader, connection, chosen, now)
        return look_again

    def _choose(self, leader: LeaderNode, now: float) -> tuple[list[tuple[PartitionSendState, Batch]], float]:
        """Choose one batch per lane in turn, as many as fit into a request."""
        chosen: list[tuple[PartitionSendState, Batch]] = []
        paused: list[PartitionSendState] = []
        look_again = NEVER
        size = 0
        for _ in range(len(leader.lanes)):
            lane = leader.lanes.popleft()
            lane.queued = False
            if lane.resume_at > now:
                look_again = min(look_again, lane.resume_at)
                paused.append(lane)
                continue
            batch = self._next_batch(lane)
            if batch is None:
                continue  # the event that ends the reason offers the lane again
            size += prepare_body(batch, self._config.codec, self._config.level)
            if chosen and size > self._config.max_request_size:
                lane.waiting.appendleft(batch)
                lane.queued = True
                leader.lanes.appendleft(lane)
                break
            chosen.append((lane, batch))
        for lane in [lane for lane, _ in chosen] + paused:
            self._offer(lane)
        return chosen, look_again

    def _next_batch(self, lane: PartitionSendState) -> Batch | None:
        sequences = lane.sequences
        if not self._transactions.may_drain(lane.partition):
            return None
        if lane.on_wire >= self._config.max_in_flight:
            return None  # still on the wire to the former leader: the limit holds for the partition as a whole
        if sequences.restart_wanted and not self._restart(lane):
            return None
        if lane.waiting:
            batch = lane.waiting[0]
            if lane.was_sent(batch):
                allowed = sequences.may_send_again(batch)
            else:
                allowed = sequences.may_send_new(self._identity.current)
            return lane.waiting.popleft() if allowed else None
        if not sequences.may_send_new(self._identity.current):
            return None
        return self._accumulator.take(lane.queue)

    def _restart(self, lane: PartitionSendState) -> bool:
        """Begin the lane's sequence numbers again under another identity, if none of its batches is on the wire."""
        if lane.on_wire:
            return False
        if self._transactions.transactional_id is None:
            self._identity.raise_epoch()
            if not self._identity.ready:
                return False
        elif self._identity.current == lane.sequences.identity:
            return False  # the transaction has failed; the next one gets another epoch
        lane.sequences.restart(self._identity.current)
        return True

    def _transmit(
        self, leader: LeaderNode, connection: Connection, chosen: list[tuple[PartitionSendState, Batch]], now: float
    ) -> None:
        config = self._config
        try:
            version = self._requests.version(connection, chosen)
        except MoldauError as error:
            for lane, batch in chosen:
                self._delivery.give_up(lane, batch, error)
            return
        transactional = self._transactions.transactional_id is not None
        headers = []
        for lane, batch in chosen:
            if not lane.was_sent(batch):
                lane.sequences.sent(batch, self._identity.current)
            lane.on_wire += 1
            batch.attempts += 1
            batch.written_at = now
            headers.append(batch_header(batch, config.codec, transactional))
        leader.in_flight += 1
        self.counters.requests += 1
        connection.send(
            ApiKey.PRODUCE,
            version,
            self._requests.body(version, chosen, headers),
            partial(self._replied, leader, chosen, version),
            now + config.request_timeout_s,
            no_reply=config.acks == 0,
        )

    # -- answers ---------------------------------------------------------------------------------------------------

    def _replied(
        self,
        leader: LeaderNode,
        chosen: list[tuple[PartitionSendState, Batch]],
        version: int,
        view: memoryview | None,
        error: MoldauError | None,
    ) -> None:
        leader.in_flight -= 1
        now = self._clock()
        if view is not None:
            good = acknowledged(view, version) if len(chosen) == 1 else None
            if good is not None:
                self._delivery.acknowledged(*chosen[0], *good, now)
            else:
                self._answers(chosen, version, view, now)
        elif error is not None:
            self._network.refresh_soon()
            for lane, batch in chosen:
                self._delivery.unanswered(lane, batch, error, now)
        else:
            for lane, batch in chosen:
                self._delivery.delivered_blindly(lane, batch, now)
        offered = False
        for lane, _ in chosen:
            self._offer(lane)
            offered |= lane.queued  # possibly for another broker, which is the leader now
        self._on_memory()
        if offered or leader.lanes or error is not None:
            self.run()

    def _answers(
        self, chosen: list[tuple[PartitionSendState, Batch]], version: int, view: memoryview, now: float
    ) -> None:
        names = self._network.metadata.topic_names
        found: dict[tuple[str, int], ProduceAnswer] = {}
        try:
            answers, nodes = decode(view, version)
            for answer in answers:
                found[answer.topic or names.get(answer.topic_id, ""), answer.partition] = answer
        except WireError as problem:
            unreadable = NotKafka(f"the response to a Produce request cannot be decoded: {problem}")
            for lane, batch in chosen:
                self._delivery.unanswered(lane, batch, unreadable, now)
            return
        leaders = {}
        for lane, batch in chosen:
            result = found.get(lane.partition)
            if result is None:
                missing = BrokerUnavailable(f"the response to a Produce request does not contain {lane.partition}")
                self._delivery.unanswered(lane, batch, missing, now)
                continue
            if result.leader is not None:
                leaders[lane.partition] = result.leader
            self._delivery.answered(lane, batch, result, now)
        if leaders:
            self._network.new_leaders(leaders, nodes)

    def _identity_refused(self, error: MoldauError) -> None:
        """Fail the buffered batches, because the broker refused to give a producer id."""
        self.fail_waiting(error)
        self.run()

    # -- connections and timers ------------------------------------------------------------------------------------

    def _connect(self, leader: LeaderNode) -> None:
        if leader.connecting is None:
            name = f"producer: connect to broker {leader.node_id}"
            leader.connecting = self._loop.create_task(self._connected(leader), name=name)

    async def _connected(self, leader: LeaderNode) -> None:
        """Connect with the pauses of reconnect.backoff.ms, then run. Batches that wait too long expire on their own."""
        try:
            await self._network.connection(leader.node_id, self._clock() + self._config.request_timeout_s)
        except MoldauError as error:
            for lane in leader.lanes:
                lane.last_error = error
            self._network.refresh_soon()
            # After an immediate refusal the pool has set a backoff, which the next attempt waits for.
            await asyncio.sleep(CONNECT_PAUSE_S)
        finally:
            leader.connecting = None
        self.run()

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            if self._timer_at == at:
                return
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at != NEVER and not self._stopped:
            # Rounded up: uvloop counts in whole milliseconds, and a timer that fires early would be set again.
            delay_s = math.ceil(max(at - self._clock(), 0) * 1000) / 1000
            self._timer = self._loop.call_later(delay_s, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self.run()
