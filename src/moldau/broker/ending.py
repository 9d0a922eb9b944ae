"""Ends decided transactions: brings their markers to the leaders of their partitions, until every one has its own.

The decision stands in the coordinator's log, and nothing may come after it before everybody has heard of it. So a
partition that cannot be written to now is tried again, wherever it is led then, for as long as this broker runs the
shard; after that, whoever runs it next finds the decision in its log and begins anew. Writing a marker twice does no
harm: the second ends nothing.

A partition that is gone has nothing to end. That it is gone is believed of the store, not of the image: a topic may
have been made a moment ago, and be known to the broker that took the first record before it is known here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.enlisting import by_topic
from moldau.broker.markers import Marker, Writing
from moldau.broker.peers import Lane, PeerUnavailable, Together
from moldau.cluster.image import NO_LEADER, PartitionStates
from moldau.cluster.names import topic_name_error
from moldau.cluster.nodes import TopicNode
from moldau.cluster.store import StoreError
from moldau.transactions.events import MarkersWritten, WriteMarkers
from moldau.transactions.transaction import TopicPartition
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersRequestTopic,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from moldau.broker.broker import Broker
    from moldau.broker.coordination import Coordination, RunningShard
    from moldau.transactions.shard import TransactionShard

    Running = RunningShard[TransactionShard]

log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
"""Before markers that could not be written are tried again; doubled with each attempt."""
COMPLAIN_EVERY: Final = 10
"""Attempts between two lines in the log: the move of a partition takes a few."""

MAX_WAITING: Final = 10_000
"""Transactions whose markers wait for one broker; those beyond are tried again later."""
MARKERS_A_REQUEST: Final = 1_000

WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""The partition has the marker, or has seen a later end of the transaction."""


class Places(NamedTuple):
    """Where the markers of a transaction are to go, as far as the image knows."""

    here: list[TopicPartition]
    elsewhere: dict[int, list[TopicPartition]]
    leaderless: list[TopicPartition]
    unknown: list[TopicPartition]


class Parcel(NamedTuple):
    """What one transaction has for one broker."""

    attempt: Attempt
    marker: Marker
    partitions: list[TopicPartition]


class Attempt:
    """One attempt to write what is missing of one transaction's markers."""

    __slots__ = ("left", "markers", "missing", "number", "running")

    def __init__(self, running: Running, markers: WriteMarkers, number: int) -> None:
        self.running = running
        self.markers = markers
        self.number = number
        self.left = 0
        """Places that have not answered."""
        self.missing: list[TopicPartition] = []


class Ending:
    def __init__(self, broker: Broker, coordination: Coordination[TransactionShard]) -> None:
        self._broker = broker
        self._coordination = coordination
        self._owed: dict[tuple[Running, str], WriteMarkers] = {}
        """Markers being written, by running shard and transactional id."""
        self._elsewhere: Together[Parcel] = Together(
            self._send, broker.spawn, max_waiting=MAX_WAITING, max_together=MARKERS_A_REQUEST
        )

    def begin(self, running: Running, markers: WriteMarkers) -> None:
        """Sees to it that all partitions get their marker, and tells the shard when they have."""
        key = (running, markers.transactional_id)
        if self._owed.get(key) != markers:  # a shard asks again as long as it has not heard
            self._owed[key] = markers
            self._write(running, markers, markers.partitions, 0)

    def _write(
        self, running: Running, markers: WriteMarkers, partitions: Iterable[TopicPartition], number: int
    ) -> None:
        if not self._is_running(running):
            self._owed.pop((running, markers.transactional_id), None)
            return
        attempt = Attempt(running, markers, number)
        places = self._places(partitions)
        attempt.missing += places.leaderless
        attempt.left = 1 + len(places.elsewhere) + bool(places.here) + bool(places.unknown)
        marker = Marker(markers.producer, markers.commit, running.epoch, markers.client_version)
        for broker_id, theirs in places.elsewhere.items():
            if not self._elsewhere.add(broker_id, Parcel(attempt, marker, theirs)):
                self._answered(attempt, theirs)
        if places.unknown:
            self._broker.spawn(self._look_for(attempt, places.unknown))
        if places.here:
            # The versions are the coordinator's own affair: it never writes a marker once it has gone on.
            here = Marker(markers.producer, markers.commit, running.epoch)
            Writing(lambda writing: self._answered(attempt, _missing(writing.failed))).start(
                self._broker, here, places.here
            )
        self._answered(attempt, [])  # our own, so that the last place cannot be the last before all were begun

    def _places(self, partitions: Iterable[TopicPartition]) -> Places:
        places = Places([], {}, [], [])
        for one in sorted(partitions):
            state = self._broker.image.partition(*one)
            if state is None:
                places.unknown.append(one)
            elif state.leader == self._broker.node_id:
                places.here.append(one)
            elif state.leader == NO_LEADER:
                places.leaderless.append(one)
            else:
                places.elsewhere.setdefault(state.leader, []).append(one)
        return places

    def _answered(self, attempt: Attempt, missing: Iterable[TopicPartition]) -> None:
        """One place has answered; after the last, the shard is told, or what is missing is tried again."""
        attempt.missing += missing
        attempt.left -= 1
        if attempt.left:
            return
        running, markers = attempt.running, attempt.markers
        if not attempt.missing:
            running.feed(MarkersWritten(markers))
            found = running.shard.transactions.get(markers.transactional_id)
            if found is None or not found.state.ending:
                self._owed.pop((running, markers.transactional_id), None)
                return
        # Where all have their markers, it is the shard that could not store so: it is told again.
        self._complain(attempt)
        pause_s = min(FIRST_PAUSE_S * 2 ** min(attempt.number, 10), LONGEST_PAUSE_S)
        self._broker.loop.call_later(
            pause_s, partial(self._write, running, markers, attempt.missing, attempt.number + 1)
        )

    def _complain(self, attempt: Attempt) -> None:
        if attempt.number % COMPLAIN_EVERY == COMPLAIN_EVERY - 1:
            log.warning(
                "markers of a transaction could not be written and are tried again",
                extra={
                    "transactional_id": attempt.markers.transactional_id,
                    "partitions": ",".join(f"{topic}-{index}" for topic, index in sorted(attempt.missing)),
                },
            )

    def _is_running(self, running: Running) -> bool:
        return self._coordination.shard_at(running.partition.index) is running and not self._broker.stopping

    # -- other brokers ---------------------------------------------------------------------------------------------

    async def _send(self, broker_id: int, parcels: list[Parcel]) -> None:
        # One that was overtaken while it waited (the shard is gone) may be sent all the same: its epoch is of the past.
        results: list[Mapping[TopicPartition, ErrorCode]] = [{}] * len(parcels)
        try:
            response = await self._broker.peers.ask(broker_id, request_of(parcels), Lane.MARKERS)
            results = results_of(parcels, response)
        except PeerUnavailable:
            pass  # nobody knows what was written: all is tried again
        for parcel, result in zip(parcels, results, strict=True):
            failed = {one: result.get(one, ErrorCode.UNKNOWN_SERVER_ERROR) for one in parcel.partitions}
            self._answered(parcel.attempt, _missing(failed))

    # -- partitions that the image does not know -------------------------------------------------------------------

    async def _look_for(self, attempt: Attempt, partitions: list[TopicPartition]) -> None:
        """Those that the store does not know either are gone."""
        found = []
        for topic, index in partitions:
            try:
                if 0 <= index < await self._partitions_of(topic):
                    found.append((topic, index))
            except StoreError:
                found.append((topic, index))
        self._answered(attempt, found)

    async def _partitions_of(self, topic: str) -> int:
        if topic_name_error(topic):
            return 0  # brokers are believed what they enlist, and anybody may say that it is one
        store = self._broker.metadata.store
        await store.sync()
        node = await store.get(TopicNode.path(topic))
        return 0 if node is None else len(TopicNode.decode(topic, node.value, {}, PartitionStates()).partitions)


def _missing(errors: Mapping[TopicPartition, ErrorCode]) -> list[TopicPartition]:
    return [one for one, error in errors.items() if error not in WRITTEN]


def request_of(parcels: Iterable[Parcel]) -> WriteTxnMarkersRequest:
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
            for _, marker, partitions in parcels
        ]
    )


def results_of(parcels: list[Parcel], response: WriteTxnMarkersResponse) -> list[Mapping[TopicPartition, ErrorCode]]:
    """One for each parcel, in their order; empty where the answer does not fit the question."""
    if len(response.markers) != len(parcels):
        return [{}] * len(parcels)
    return [
        {
            (topic.name, one.partition_index): ErrorCode.of(one.error_code)
            for topic in answer.topics
            for one in topic.partitions
        }
        for answer in response.markers
    ]
