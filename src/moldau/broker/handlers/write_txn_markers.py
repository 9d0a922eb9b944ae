"""WriteTxnMarkers (27): end transactions in partitions of this broker, for the coordinator or an administrator.

Versions 1-2, CLUSTER_ACTION. Each partition is answered when its marker is safe, or with REQUEST_TIMED_OUT when it is
not for too long. A marker of an epoch before the
producer's is INVALID_PRODUCER_EPOCH; from version 2 (`transaction_version` 2) also one that does not come with a new
epoch while a transaction is open: it is late, and meant for the transaction before. In `__consumer_offsets` the group
coordinator brings the offsets into force, or forgets them.

Whoever ends a transaction by this request that its coordinator does not know to be hanging breaks it; Kafka's tools
ask DescribeProducers and DescribeTransactions first.
"""

from __future__ import annotations

import asyncio
from functools import partial

from moldau.broker.markers import Marker, Writing
from moldau.broker.registry import Answer, Later, Reply, handles
from moldau.broker.session import Request
from moldau.cluster.image import TRANSACTION_STATE
from moldau.security import Operation, ResourceType
from moldau.transactions.transaction import Identity, TopicPartition
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

PATIENCE_S = 10.0
"""For a marker to be replicated. Less than the time after which a coordinator gives up the connection, and with it the
markers of other partitions."""

Errors = dict[TopicPartition, ErrorCode]


@handles(ApiKey.WRITE_TXN_MARKERS)
def write_txn_markers(request: Request, message: WriteTxnMarkersRequest) -> Answer:
    authorized = request.authorized(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    if not authorized or not message.markers:
        return _response(message, [_all_refused(one) for one in message.markers])

    return Batch(request, message)


class Batch(Later):
    """Several markers, each for partitions of its own."""

    __slots__ = ("_message", "_patience", "_request", "_results", "_writings")

    def __init__(self, request: Request, message: WriteTxnMarkersRequest) -> None:
        self._request = request
        self._message = message
        self._results: dict[int, Errors] = {}
        self._writings: list[Writing] = []
        self._patience: asyncio.TimerHandle | None = None

    def start(self, reply: Reply) -> None:
        self._patience = self._request.broker.loop.call_later(PATIENCE_S, self._lose_patience)
        for place, one in enumerate(self._message.markers):
            partitions = _partitions(one)
            # Its own log is the coordinator's to write, whoever asks.
            refused = {at: ErrorCode.INVALID_TOPIC_EXCEPTION for at in partitions if at[0] == TRANSACTION_STATE}
            writing = Writing(partial(self._done, reply, place, refused))
            self._writings.append(writing)
            writing.start(self._request.broker, _marker(one), [at for at in partitions if at not in refused])

    def _lose_patience(self) -> None:
        for writing in self._writings:
            writing.give_up()

    def _done(self, reply: Reply, place: int, refused: Errors, writing: Writing) -> None:
        self._results[place] = writing.failed | refused
        markers = self._message.markers
        if len(self._results) == len(markers):
            if self._patience is not None:
                self._patience.cancel()
            ordered = [self._results[place] for place in range(len(markers))]
            reply([_response(self._message, ordered).encode(self._request.version)])


def _marker(one: WriteTxnMarkersRequestMarker) -> Marker:
    return Marker(
        Identity(one.producer_id, one.producer_epoch),
        one.transaction_result,
        one.coordinator_epoch,
        one.transaction_version,
    )


def _partitions(one: WriteTxnMarkersRequestMarker) -> list[TopicPartition]:
    return [(topic.name, index) for topic in one.topics for index in topic.partition_indexes]


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
                                error_code=errors.get((topic.name, index), ErrorCode.NONE),
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
