"""WriteTxnMarkers (27): end transactions in partitions of this broker.

Versions 1-2. Sent by transaction coordinators (CLUSTER_ACTION), and by administrators to end hanging transactions
(ALTER on the cluster).

* Each partition is answered when its marker is replicated. The error is REQUEST_TIMED_OUT if that takes too long.
* A marker with an epoch below the producer's is INVALID_PRODUCER_EPOCH. From version 2 on (`transaction_version` 2), so
  is a marker without a new epoch while a transaction is open: it is late and belongs to the previous transaction.
* In `__consumer_offsets` the group coordinator writes the marker, and commits or discards the offsets.
* An administrator who ends a transaction that is not hanging breaks it. Kafka's tools therefore send DescribeProducers
  and DescribeTransactions first.
"""

from __future__ import annotations

import asyncio
from functools import partial

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import Answer, DeferredAnswer, Reply, handles
from moldau.broker.txn.txn_marker_writer import MarkerWrites, TxnMarker
from moldau.cluster.image import TRANSACTION_STATE
from moldau.security import Operation, ResourceType
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestMarker,
    WriteTxnMarkersResponse,
    WriteTxnMarkersResponseMarker,
    WriteTxnMarkersResponsePartition,
    WriteTxnMarkersResponseTopic,
)
from moldau.wire.producer_identity import ProducerIdentity
from moldau.wire.topic_partition import TopicPartition

REPLICATION_TIMEOUT_S = 10.0
"""Timeout for the replication of a marker. It is shorter than the timeout after which a coordinator closes the
connection, which would also affect the markers of other partitions."""

Errors = dict[TopicPartition, ErrorCode]


@handles(ApiKey.WRITE_TXN_MARKERS)
def write_txn_markers(request: Request, message: WriteTxnMarkersRequest) -> Answer:
    authorized = request.authorized(Operation.ALTER, ResourceType.CLUSTER, audited=False) or request.authorized(
        Operation.CLUSTER_ACTION, ResourceType.CLUSTER
    )
    if not authorized or not message.markers:
        return _response(message, [_all_refused(one) for one in message.markers])
    request.session.quota.do_not_count_time()
    return BatchedMarkers(request, message)


class BatchedMarkers(DeferredAnswer):
    """A request with several markers, each with its own partitions."""

    __slots__ = ("_message", "_request", "_results", "_timer", "_writes")

    def __init__(self, request: Request, message: WriteTxnMarkersRequest) -> None:
        self._request = request
        self._message = message
        self._results: dict[int, Errors] = {}
        self._writes: list[MarkerWrites] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self, reply: Reply) -> None:
        writer = self._request.broker.transactions.marker_writer
        self._timer = self._request.broker.loop.call_later(REPLICATION_TIMEOUT_S, self._timed_out)
        for place, one in enumerate(self._message.markers):
            partitions = _partitions(one)
            # Only the coordinator itself writes to its log.
            refused = {at: ErrorCode.INVALID_TOPIC_EXCEPTION for at in partitions if at[0] == TRANSACTION_STATE}
            writes = MarkerWrites(partial(self._done, reply, place, refused))
            self._writes.append(writes)
            writes.start(writer, _marker(one), [at for at in partitions if at not in refused])

    def _timed_out(self) -> None:
        for writes in self._writes:
            writes.give_up()

    def _done(self, reply: Reply, place: int, refused: Errors, writes: MarkerWrites) -> None:
        self._results[place] = writes.failed | refused
        markers = self._message.markers
        if len(self._results) == len(markers):
            if self._timer is not None:
                self._timer.cancel()
            ordered = [self._results[place] for place in range(len(markers))]
            reply([_response(self._message, ordered).encode(self._request.version)])


def _marker(one: WriteTxnMarkersRequestMarker) -> TxnMarker:
    return TxnMarker(
        ProducerIdentity(one.producer_id, one.producer_epoch),
        one.transaction_result,
        one.coordinator_epoch,
        one.transaction_version,
    )


def _partitions(one: WriteTxnMarkersRequestMarker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in one.topics for index in topic.partition_indexes]


def _all_refused(one: WriteTxnMarkersRequestMarker) -> Errors:
    return dict.fromkeys(_partitions(one), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _response(message: WriteTxnMarkersRequest, results: list[Errors]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WriteTxnMarkersResponseMarker(
                producer_id=one.producer_id,
                topics=[
                    WriteTxnMarkersResponseTopic(
                        name=topic.name,
                        partitions=[
                            WriteTxnMarkersResponsePartition(
                                partition_index=index,
                                error_code=errors.get(TopicPartition(topic.name, index), ErrorCode.NONE),
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one, errors in zip(message.markers, results, strict=True)
        ]
    )
