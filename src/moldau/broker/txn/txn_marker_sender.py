"""Transaction marker sender: sends the markers of decided transactions to the leaders of their partitions.

The decision is in the coordinator's log, and the transactional id cannot start another transaction before every
partition has its marker. So a partition that cannot be written to now is tried again, on the broker that leads it then,
as long as this broker runs the shard. The next coordinator finds the decision in its log and starts again. A marker
that is written twice does no harm: the second one ends nothing.

A deleted partition needs no marker. Only the metadata store can confirm the deletion. The image cannot: the broker that
took the first record may have learned of a new topic before this broker does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.peers import PeerLane, Peers, PeerUnavailable, RequestBatcher
from moldau.broker.txn.txn_marker_writer import MarkerWrites, TxnMarker, TxnMarkerWriter
from moldau.cluster.image import NO_LEADER, PartitionStates
from moldau.cluster.nodes import TopicNode
from moldau.cluster.store import Store, StoreError
from moldau.cluster.topic_names import topic_name_error
from moldau.host.event_log import event_logger
from moldau.transactions.events import MarkersWritten, WriteMarkers
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)
from moldau.wire.topic_partition import TopicPartition, by_topic

if TYPE_CHECKING:
    from moldau.coordinator.runtime import CoordinatorRuntime, RunningShard
    from moldau.transactions.shard import TransactionShard

    Running = RunningShard[TransactionShard]

log = event_logger(__name__)

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
"""The pause before failed markers are tried again. It doubles with each attempt."""
WARN_EVERY_ATTEMPTS: Final = 10
"""Attempts between two log lines. A few attempts are normal while a partition moves to another leader."""

MAX_WAITING: Final = 10_000
"""Transactions whose markers wait for one broker. Further ones are tried again later."""
MARKERS_PER_REQUEST: Final = 1_000

WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""The partition has the marker, or a later marker of the same producer."""


class PartitionsByLeader(NamedTuple):
    """The partitions of a transaction, grouped by the leader that the image gives for them."""

    here: list[TopicPartition]
    elsewhere: dict[int, list[TopicPartition]]
    leaderless: list[TopicPartition]
    unknown: list[TopicPartition]


class BrokerMarkers(NamedTuple):
    """The marker of one transaction for partitions that one other broker leads."""

    attempt: MarkerAttempt
    marker: TxnMarker
    partitions: list[TopicPartition]


class MarkerAttempt:
    """One attempt to write the missing markers of one transaction."""

    __slots__ = ("left", "markers", "missing", "number", "running")

    def __init__(self, running: Running, markers: WriteMarkers, number: int) -> None:
        self.running = running
        self.markers = markers
        self.number = number
        self.left = 0
        """Number of groups of partitions that have not answered yet."""
        self.missing: list[TopicPartition] = []


class TxnMarkerSender:
    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionShard],
        writer: TxnMarkerWriter,
        peers: Peers,
        store: Callable[[], Store],
    ) -> None:
        self._runtime = runtime
        self._writer = writer
        self._peers = peers
        self._store = store
        self._node_id = runtime.host.replicas.node_id
        self._pending: dict[tuple[Running, str], WriteMarkers] = {}
        """Markers being written, by running shard and transactional id."""
        self._elsewhere: RequestBatcher[BrokerMarkers] = RequestBatcher(
            self._send, runtime.host.spawn, max_waiting=MAX_WAITING, max_batch=MARKERS_PER_REQUEST
        )

    def begin(self, running: Running, markers: WriteMarkers) -> None:
        """Write the markers to all partitions, and then feed MarkersWritten to the shard."""
        key = (running, markers.transactional_id)
        if self._pending.get(key) != markers:  # the shard asks again until it gets MarkersWritten
            self._pending[key] = markers
            self._write(running, markers, markers.partitions, 0)

    def _write(
        self, running: Running, markers: WriteMarkers, partitions: Iterable[TopicPartition], number: int
    ) -> None:
        if not self._is_running(running):
            self._pending.pop((running, markers.transactional_id), None)
            return
        attempt = MarkerAttempt(running, markers, number)
        groups = self._by_leader(partitions)
        attempt.missing += groups.leaderless
        attempt.left = 1 + len(groups.elsewhere) + bool(groups.here) + bool(groups.unknown)
        marker = TxnMarker(markers.producer, markers.commit, running.epoch, markers.client_version)
        for broker_id, theirs in groups.elsewhere.items():
            if not self._elsewhere.add(broker_id, BrokerMarkers(attempt, marker, theirs)):
                self._answered(attempt, theirs)
        if groups.unknown:
            self._runtime.host.spawn(self._look_up(attempt, groups.unknown))
        if groups.here:
            # Without the transaction version, so without its check: this coordinator writes no late markers, because it
            # accepts the next transaction only after all markers of this one.
            here = TxnMarker(markers.producer, markers.commit, running.epoch)
            MarkerWrites(lambda writes: self._answered(attempt, _missing(writes.failed))).start(
                self._writer, here, groups.here
            )
        # The 1 in `left`: without it, a group that answers at once could complete the attempt before all have begun.
        self._answered(attempt, [])

    def _by_leader(self, partitions: Iterable[TopicPartition]) -> PartitionsByLeader:
        groups = PartitionsByLeader([], {}, [], [])
        image = self._runtime.host.image()
        for one in sorted(partitions):
            state = image.partition(*one)
            if state is None:
                groups.unknown.append(one)
            elif state.leader == self._node_id:
                groups.here.append(one)
            elif state.leader == NO_LEADER:
                groups.leaderless.append(one)
            else:
                groups.elsewhere.setdefault(state.leader, []).append(one)
        return groups

    def _answered(self, attempt: MarkerAttempt, missing: Iterable[TopicPartition]) -> None:
        """One group has answered. After the last one, inform the shard, or try the missing partitions again."""
        attempt.missing += missing
        attempt.left -= 1
        if attempt.left:
            return
        running, markers = attempt.running, attempt.markers
        if not attempt.missing:
            running.feed(MarkersWritten(markers))
            found = running.shard.transactions.get(markers.transactional_id)
            if found is None or not found.state.ending:
                self._pending.pop((running, markers.transactional_id), None)
                return
        # If nothing is missing, the shard could not store the end of the transaction: feed MarkersWritten again later.
        self._warn(attempt)
        pause_s = min(FIRST_PAUSE_S * 2 ** min(attempt.number, 10), LONGEST_PAUSE_S)
        self._runtime.host.loop.call_later(
            pause_s, partial(self._write, running, markers, attempt.missing, attempt.number + 1)
        )

    def _warn(self, attempt: MarkerAttempt) -> None:
        if attempt.number % WARN_EVERY_ATTEMPTS == WARN_EVERY_ATTEMPTS - 1:
            log.warning(
                "markers of a transaction could not be written and are tried again",
                extra={
                    "transactional_id": attempt.markers.transactional_id,
                    "partitions": ",".join(f"{topic}-{index}" for topic, index in sorted(attempt.missing)),
                },
            )

    def _is_running(self, running: Running) -> bool:
        return self._runtime.shard_at(running.partition.index) is running and not self._runtime.host.is_stopping()

    # -- other brokers ---------------------------------------------------------------------------------------------

    async def _send(self, broker_id: int, batch: list[BrokerMarkers]) -> None:
        # The shard of an entry may have ended by now. Sending its marker is harmless: its epoch is outdated.
        results: list[Mapping[TopicPartition, ErrorCode]] = [{}] * len(batch)
        try:
            response = await self._peers.ask(broker_id, request_of(batch), PeerLane.MARKERS)
            results = results_of(batch, response)
        except PeerUnavailable:
            pass  # it is unknown which markers were written: all are tried again
        for entry, result in zip(batch, results, strict=True):
            errors = {one: result.get(one, ErrorCode.UNKNOWN_SERVER_ERROR) for one in entry.partitions}
            self._answered(entry.attempt, _missing(errors))

    # -- partitions that the image does not contain ----------------------------------------------------------------

    async def _look_up(self, attempt: MarkerAttempt, partitions: list[TopicPartition]) -> None:
        """Look for partitions in the store. Those that it does not contain either are deleted and need no marker."""
        found = []
        for one in partitions:
            try:
                if 0 <= one.partition < await self._partition_count(one.topic):
                    found.append(one)
            except StoreError:
                found.append(one)
        self._answered(attempt, found)

    async def _partition_count(self, topic: str) -> int:
        if topic_name_error(topic):
            # Names in AddPartitionsToTxn requests of brokers are not checked, and any client may send such a request.
            return 0
        store = self._store()
        await store.sync()
        node = await store.get(TopicNode.path(topic))
        return 0 if node is None else len(TopicNode.decode(topic, node.value, {}, PartitionStates()).partitions)


def _missing(errors: Mapping[TopicPartition, ErrorCode]) -> list[TopicPartition]:
    return [one for one, error in errors.items() if error not in WRITTEN]


def request_of(batch: Iterable[BrokerMarkers]) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequestMarker(
                producer_id=marker.producer.producer_id,
                producer_epoch=marker.producer.epoch,
                transaction_result=marker.commit,
                topics=[
                    WriteTxnMarkersRequestTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(partitions).items()
                ],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
            for _, marker, partitions in batch
        ]
    )


def results_of(
    batch: list[BrokerMarkers], response: WriteTxnMarkersResponse
) -> list[Mapping[TopicPartition, ErrorCode]]:
    """One result for each entry, in their order. All are empty if the response has another number of markers."""
    if len(response.markers) != len(batch):
        return [{}] * len(batch)
    return [
        {
            TopicPartition(topic.name, one.partition_index): ErrorCode.of(one.error_code)
            for topic in answer.topics
            for one in topic.partitions
        }
        for answer in response.markers
    ]
