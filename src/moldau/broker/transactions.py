"""The transaction coordinator as the broker runs it: its shards, its producer ids, and the markers that it owes.

Decisions are made in `moldau.transactions`; here they meet the log, the clock and other partitions. It also answers
the question that Produce and TxnOffsetCommit ask before they write for a transaction: is this partition part of it?
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moldau.broker.coordination import Coordination, InternalTopic, RunningShard, Ticket
from moldau.broker.markers import GONE, PAST, Marker, Writing
from moldau.broker.producer_ids import ProducerIds
from moldau.broker.registry import Later, Message, Reply
from moldau.cluster.image import TRANSACTION_STATE
from moldau.transactions.events import AddPartitions, MarkersWritten, WriteMarkers
from moldau.transactions.shard import Rules, TransactionShard
from moldau.transactions.transaction import Identity, TopicPartition
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.broker.session import Request

log = logging.getLogger(__name__)

TRANSACTION_VERSION = 2
"""Of the feature `transaction.version`: partitions are verified, and each transaction ends with a new epoch."""

MARKER_RETRY_S = 0.5
"""Before markers that could not be written are tried again."""


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
        )
        self.coordination: Coordination[TransactionShard] = Coordination(
            broker, topic, lambda _: TransactionShard(self._rules, self.producer_ids.take), self._perform
        )
        self._owed: dict[tuple[int, str], WriteMarkers] = {}
        """Markers being written, by shard and transactional id."""

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

    async def add(self, transactional_id: str, identity: Identity, partitions: frozenset[TopicPartition]) -> ErrorCode:
        """Makes partitions part of the transaction, as a client of version 2 leaves to the broker.

        Its transaction before may still be getting its last markers: that is waited for a moment, since the client
        cannot know.
        """
        settings = self.broker.settings
        pause_s = settings["add.partitions.to.txn.retry.backoff.ms"] / 1000
        until = self.broker.loop.time() + settings["add.partitions.to.txn.retry.backoff.max.ms"] / 1000
        while True:
            error: ErrorCode = await self.ask(
                transactional_id,
                lambda ticket: AddPartitions(ticket, transactional_id, identity, partitions, TRANSACTION_VERSION),
            )
            if error != ErrorCode.CONCURRENT_TRANSACTIONS or self.broker.loop.time() >= until:
                return error
            await asyncio.sleep(pause_s)

    # -- markers ---------------------------------------------------------------------------------------------------

    def _perform(self, running: RunningShard[TransactionShard], markers: WriteMarkers) -> None:
        key = (running.partition.index, markers.transactional_id)
        if self._owed.get(key) != markers:  # a shard asks again as long as it has not heard
            self._owed[key] = markers
            self._write(running, markers, markers.partitions)

    def _write(
        self, running: RunningShard[TransactionShard], markers: WriteMarkers, partitions: frozenset[TopicPartition]
    ) -> None:
        def done(writing: Writing) -> None:
            self._written(running, markers, writing)

        # The versions are the coordinator's own affair: it never writes a marker once it has gone on.
        marker = Marker(markers.producer, markers.commit, running.partition.leader_epoch)
        Writing(done).start(self.broker, marker, partitions)

    def _written(self, running: RunningShard[TransactionShard], markers: WriteMarkers, writing: Writing) -> None:
        missing = frozenset(one for one, error in writing.failed.items() if error not in GONE and error not in PAST)
        if not missing:
            running.feed(MarkersWritten(markers))
            found = running.shard.transactions.get(markers.transactional_id)
            if found is None or not found.state.ending:
                self._owed.pop((running.partition.index, markers.transactional_id), None)
                return
        if not self._is_running(running):
            # Whoever runs the shard next finds the decision in its log.
            self._owed.pop((running.partition.index, markers.transactional_id), None)
            return
        log.warning(
            "markers of a transaction could not be written and are tried again",
            extra={
                "transactional_id": markers.transactional_id,
                "partitions": ",".join(f"{topic}-{index}" for topic, index in sorted(missing)),
            },
        )
        self.broker.loop.call_later(MARKER_RETRY_S, self._write, running, markers, missing)

    def _is_running(self, running: RunningShard[TransactionShard]) -> bool:
        return self.coordination.shard_at(running.partition.index) is running and not self.broker.stopping
