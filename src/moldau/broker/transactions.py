"""The transaction coordinator as the broker runs it: its shards, its producer ids, and how handlers ask them.

Decisions are made in `moldau.transactions`; here they meet the log and the clock. What they mean for partitions, on
this broker and on others, is in `ending` (the markers) and `enlisting` (is this partition part of the transaction?).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.broker.coordination import Coordination, InternalTopic, RunningShard, Ticket
from moldau.broker.ending import Ending
from moldau.broker.enlisting import Enlisting
from moldau.broker.producer_ids import ProducerIds
from moldau.broker.registry import Later, Message, Reply
from moldau.broker.verification import Guards
from moldau.cluster.image import NO_LEADER, TRANSACTION_STATE
from moldau.transactions.events import AddPartitions, WriteMarkers
from moldau.transactions.shard import Rules, TransactionShard
from moldau.transactions.transaction import Identity, TopicPartition
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.broker.session import Request

TRANSACTION_VERSION = 2
"""Of the feature `transaction.version`: partitions are verified, and each transaction ends with a new epoch."""


class Asking(Later):
    """A request that one shard answers."""

    __slots__ = ("_encode", "_event", "_request", "_transactional_id")

    def __init__(
        self, request: Request, transactional_id: str, event: Callable[[Ticket], Any], encode: Callable[[Any], Message]
    ) -> None:
        self._request = request
        self._transactional_id = transactional_id
        self._event = event
        self._encode = encode

    def start(self, reply: Reply) -> None:
        def answer(result: Any) -> None:
            reply([self._encode(result).encode(self._request.version)])

        self._request.broker.transactions.coordination.send(self._transactional_id, self._event, Ticket(answer, answer))


class Transactions:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.producer_ids = ProducerIds(lambda: broker.metadata.store, broker.spawn)
        settings = broker.settings
        topic = InternalTopic(
            TRANSACTION_STATE,
            settings["transaction.state.log.num.partitions"],
            settings["transaction.state.log.replication.factor"],
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(settings["transaction.state.log.segment.bytes"]),
            },
            settings["transaction.state.log.min.isr"],
        )
        self.coordination: Coordination[TransactionShard] = Coordination(
            broker, topic, lambda _: TransactionShard(self._rules, self.producer_ids.take), self._perform
        )
        self.guards = Guards()
        self.enlisting = Enlisting(self)
        self._ending = Ending(broker, self.coordination)

    def _rules(self) -> Rules:
        settings = self.broker.settings
        return Rules(
            settings["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
            settings["transaction.remove.expired.transaction.cleanup.interval.ms"],
            settings["transactional.id.expiration.ms"],
            settings["moldau.transaction.two.phase.max.age.ms"],
        )

    def start(self) -> None:
        self.coordination.start()

    def stop(self) -> None:
        self.coordination.stop()

    # -- asking ----------------------------------------------------------------------------------------------------

    def shard_of(self, transactional_id: str) -> TransactionShard | ErrorCode:
        found = self.coordination.find(transactional_id)
        return found if isinstance(found, ErrorCode) else found.shard

    def later(
        self, request: Request, transactional_id: str, event: Callable[[Ticket], Any], encode: Callable[[Any], Message]
    ) -> Later:
        """Has a shard decide; `encode` turns its answer, or the ErrorCode that stands for none, into the response."""
        return Asking(request, transactional_id, event, encode)

    def ask(self, transactional_id: str, event: Callable[[Ticket], Any]) -> asyncio.Future[Any]:
        """The same for whoever can await; done at once where nothing has to be waited for."""
        future: asyncio.Future[Any] = self.broker.loop.create_future()

        def answer(result: Any) -> None:
            if not future.done():  # whoever waited may be gone
                future.set_result(result)

        self.coordination.send(transactional_id, event, Ticket(answer, answer))
        return future

    def verify(self, transactional_id: str, identity: Identity, partition: TopicPartition) -> ErrorCode:
        """Whether a partition is part of the open transaction."""
        shard = self.shard_of(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        verified = shard.verify(transactional_id, identity, (partition,))
        return verified if isinstance(verified, ErrorCode) else verified[partition]

    def is_kept(self, transactional_id: str) -> bool:
        """Whether a prepared transaction was handed on, as far as this broker knows: whoever wrote it is out."""
        shard = self.shard_of(transactional_id)
        found = None if isinstance(shard, ErrorCode) else shard.transactions.get(transactional_id)
        return found is not None and found.is_kept

    def add(
        self, transactional_id: str, identity: Identity, partitions: frozenset[TopicPartition]
    ) -> asyncio.Future[ErrorCode]:
        """Makes partitions part of a transaction that is coordinated here."""
        return self.ask(
            transactional_id,
            lambda ticket: AddPartitions(ticket, transactional_id, identity, partitions, TRANSACTION_VERSION),
        )

    # -- who coordinates -------------------------------------------------------------------------------------------

    def coordinator_of(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id; NO_LEADER where there is none now."""
        state = self.broker.image.partition(TRANSACTION_STATE, self.coordination.index_of(transactional_id))
        return NO_LEADER if state is None else state.leader

    def coordinates(self, transactional_id: str) -> bool:
        """Whether nobody else is to be asked: this broker coordinates it, or nobody does."""
        return self.coordinator_of(transactional_id) in (self.broker.node_id, NO_LEADER)

    def _perform(self, running: RunningShard[TransactionShard], markers: WriteMarkers) -> None:
        self._ending.begin(running, markers)
