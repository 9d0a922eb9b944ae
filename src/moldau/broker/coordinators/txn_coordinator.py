"""Transaction coordinator of a broker: its shards, its producer ids, and requests from handlers.

`moldau.transactions` makes the decisions. `txn_marker_sender` writes the markers that end a transaction, on this broker
and on others. `txn_partition_adder` adds partitions to a transaction and verifies them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.broker.coordinators.producer_ids import ProducerIds
from moldau.broker.peers import Peers
from moldau.broker.requests.handler_registry import DeferredAnswer, Encodable, Reply
from moldau.broker.txn.marker_watches import MarkerWatches
from moldau.broker.txn.txn_marker_sender import TxnMarkerSender
from moldau.broker.txn.txn_marker_writer import TxnMarkerWriter
from moldau.broker.txn.txn_partition_adder import TxnPartitionAdder
from moldau.cluster.image import NO_LEADER, TRANSACTION_STATE
from moldau.cluster.store import Store
from moldau.coordinator.runtime import CoordinatorHost, CoordinatorRuntime, InternalTopic, RunningShard, Ticket
from moldau.settings import BrokerSettings
from moldau.transactions.events import AddPartitions, WriteMarkers
from moldau.transactions.shard import TransactionShard, TxnShardSettings
from moldau.wire.errors import ErrorCode
from moldau.wire.producer_identity import ProducerIdentity
from moldau.wire.topic_partition import TopicPartition

if TYPE_CHECKING:
    from moldau.broker.connection.session import Request

TRANSACTION_VERSION = 2
"""The level of the feature `transaction.version`: partitions are verified, and each transaction ends with a new
epoch."""


class TxnRequest(DeferredAnswer):
    """A request that the shard of one transactional id answers."""

    __slots__ = ("_encode", "_event", "_request", "_transactional_id")

    def __init__(
        self,
        request: Request,
        transactional_id: str,
        event: Callable[[Ticket], Any],
        encode: Callable[[Any], Encodable],
    ) -> None:
        self._request = request
        self._transactional_id = transactional_id
        self._event = event
        self._encode = encode

    def start(self, reply: Reply) -> None:
        def answer(result: Any) -> None:
            reply([self._encode(result).encode(self._request.version)])

        self._request.broker.transactions.runtime.send(self._transactional_id, self._event, Ticket(answer, answer))


class TxnCoordinator:
    """The shards of `__transaction_state`."""

    def __init__(
        self,
        host: CoordinatorHost,
        settings: Callable[[], BrokerSettings],
        store: Callable[[], Store],
        peers: Peers,
        group_shard_at: Callable[[int], RunningShard[Any] | ErrorCode],
    ) -> None:
        self._host = host
        self._settings = settings
        self._node_id = host.replicas.node_id
        self.producer_ids = ProducerIds(store, host.spawn)
        at_start = settings()
        topic = InternalTopic(
            TRANSACTION_STATE,
            at_start["transaction.state.log.num.partitions"],
            at_start["transaction.state.log.replication.factor"],
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(at_start["transaction.state.log.segment.bytes"]),
            },
            at_start["transaction.state.log.min.isr"],
        )
        self.runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            host, topic, lambda _: TransactionShard(self._rules, self.producer_ids.take), self._perform
        )
        self.marker_watches = MarkerWatches()
        self.partition_adder = TxnPartitionAdder(self, peers, settings, host.spawn)
        self.marker_writer = TxnMarkerWriter(host.replicas, host.clock.now_ms, group_shard_at, self.marker_watches)
        self._marker_sender = TxnMarkerSender(self.runtime, self.marker_writer, peers, store)

    def _rules(self) -> TxnShardSettings:
        settings = self._settings()
        return TxnShardSettings(
            settings["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            settings["transaction.remove.expired.transaction.cleanup.interval.ms"],
            settings["transactional.id.expiration.ms"],
            settings["moldau.transaction.two.phase.max.age.ms"],
        )

    def start(self) -> None:
        self.runtime.start()

    def stop(self) -> None:
        self.runtime.stop()

    # -- questions to shards ---------------------------------------------------------------------------------------

    def shard_of(self, transactional_id: str) -> TransactionShard | ErrorCode:
        found = self.runtime.find(transactional_id)
        return found if isinstance(found, ErrorCode) else found.shard

    def later(
        self,
        request: Request,
        transactional_id: str,
        event: Callable[[Ticket], Any],
        encode: Callable[[Any], Encodable],
    ) -> DeferredAnswer:
        """The answer of a handler that lets a shard decide. `encode` builds the response from the shard's answer, or
        from the ErrorCode that replaces it."""
        return TxnRequest(request, transactional_id, event, encode)

    def ask(self, transactional_id: str, event: Callable[[Ticket], Any]) -> asyncio.Future[Any]:
        """The same for coroutines. The future is already done if the shard could answer at once."""
        future: asyncio.Future[Any] = self._host.loop.create_future()

        def answer(result: Any) -> None:
            if not future.done():  # the waiting task may have been cancelled
                future.set_result(result)

        self.runtime.send(transactional_id, event, Ticket(answer, answer))
        return future

    def verify(self, transactional_id: str, identity: ProducerIdentity, partition: TopicPartition) -> ErrorCode:
        """NONE if a partition is part of the open transaction."""
        shard = self.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        verified = shard.verify(transactional_id, identity, (partition,))
        return verified if isinstance(verified, ErrorCode) else verified[partition]

    def is_kept(self, transactional_id: str) -> bool:
        """Whether a prepared transaction was handed over to another producer, as far as this broker knows. The producer
        that wrote it is then fenced."""
        shard = self.shard_of(transactional_id)
        found = None if isinstance(shard, ErrorCode) else shard.transactions.get(transactional_id)
        return found is not None and found.is_kept

    def add(
        self, transactional_id: str, identity: ProducerIdentity, partitions: frozenset[TopicPartition]
    ) -> asyncio.Future[ErrorCode]:
        """Add partitions to a transaction that this broker coordinates."""
        return self.ask(
            transactional_id,
            lambda ticket: AddPartitions(ticket, transactional_id, identity, partitions, TRANSACTION_VERSION),
        )

    # -- finding the coordinator -----------------------------------------------------------------------------------

    def coordinator_of(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id; NO_LEADER if there is none now."""
        state = self._host.image().partition(TRANSACTION_STATE, self.runtime.index_of(transactional_id))
        return NO_LEADER if state is None else state.leader

    def coordinates(self, transactional_id: str) -> bool:
        """Whether there is no other broker to ask: this broker is the coordinator, or there is none."""
        return self.coordinator_of(transactional_id) in (self._node_id, NO_LEADER)

    def _perform(self, running: RunningShard[TransactionShard], markers: WriteMarkers) -> None:
        self._marker_sender.begin(running, markers)
