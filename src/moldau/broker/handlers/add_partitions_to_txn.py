"""AddPartitionsToTxn (24): make partitions part of a producer's transaction, or ask whether they are.

Versions 0-5. Up to 3 for clients: one transaction, all of its partitions or none; where one is unknown or may not be
written to, the others are answered with OPERATION_NOT_ATTEMPTED. From 4 on for brokers (CLUSTER_ACTION): many
transactions, and with `verify_only` a question that changes nothing: TRANSACTION_ABORTABLE means no. A tagged field of
our own (`enlisting`) tells which of the transactions are two-phase ones.

Below version 2 being fenced is told as INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from moldau.broker.enlisting import TWO_PHASE_TAG
from moldau.broker.registry import Answer, Later, Reply, handles
from moldau.broker.session import Request
from moldau.cluster.image import INTERNAL_TOPICS
from moldau.security import Operation, ResourceType
from moldau.transactions.events import AddPartitions
from moldau.transactions.transaction import Identity, TopicPartition
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartition,
    AddPartitionsToTxnResponseTopic,
    AddPartitionsToTxnResponseTransaction,
)
from moldau.wire.primitives import NO_TAGS

FENCED_FROM = 2
MANY_FROM = 4
CLIENT_VERSION = 1
BROKER_VERSION = 2

Topics = Sequence[AddPartitionsToTxnRequestTopic]
Errors = Mapping[TopicPartition, ErrorCode]


@handles(ApiKey.ADD_PARTITIONS_TO_TXN)
def add_partitions_to_txn(request: Request, message: AddPartitionsToTxnRequest) -> Answer:
    if request.version >= MANY_FROM:
        return _for_brokers(request, message)
    name, topics = message.v3_and_below_transactional_id, message.v3_and_below_topics
    identity = Identity(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)

    def response(errors: ErrorCode | Errors) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(request, topics, errors))

    if not name:
        return response(ErrorCode.INVALID_REQUEST)
    if not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return response(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    refused = _refused(request, topics)
    if refused:
        return response({one: refused.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in _partitions(topics)})
    return request.broker.transactions.later(
        request,
        name,
        lambda ticket: AddPartitions(ticket, name, identity, frozenset(_partitions(topics)), CLIENT_VERSION),
        response,
    )


def _refused(request: Request, topics: Topics) -> dict[TopicPartition, ErrorCode]:
    """The partitions that cannot be part of a client's transaction."""
    refused = {}
    for topic in topics:
        known = request.broker.image.topics.get(topic.name)
        may = request.authorized(Operation.WRITE, ResourceType.TOPIC, topic.name) and topic.name not in INTERNAL_TOPICS
        for index in topic.partitions:
            if not may:
                refused[topic.name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or not 0 <= index < len(known.partitions):
                refused[topic.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


# -- for brokers -------------------------------------------------------------------------------------------------------


def _for_brokers(request: Request, message: AddPartitionsToTxnRequest) -> Answer:
    if not request.authorized(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not message.transactions:
        return AddPartitionsToTxnResponse()

    return Batch(request, message.transactions)


class Batch(Later):
    """Many transactions, each with its own shard."""

    __slots__ = ("_request", "_results", "_transactions")

    def __init__(self, request: Request, transactions: list[AddPartitionsToTxnRequestTransaction]) -> None:
        self._request = request
        self._transactions = transactions
        self._results: dict[int, AddPartitionsToTxnResponseTransaction] = {}

    def start(self, reply: Reply) -> None:
        for place, one in enumerate(self._transactions):
            _ask(self._request, one, partial(self._settled, reply, place))

    def _settled(self, reply: Reply, place: int, errors: ErrorCode | Errors) -> None:
        one = self._transactions[place]
        self._results[place] = AddPartitionsToTxnResponseTransaction(
            transactional_id=one.transactional_id,
            topic_results=_results(self._request, one.topics, errors),
            unknown_tags={TWO_PHASE_TAG: b""} if _is_two_phase(self._request, one.transactional_id) else NO_TAGS,
        )
        if len(self._results) == len(self._transactions):
            answers = [self._results[place] for place in sorted(self._results)]
            reply([AddPartitionsToTxnResponse(results_by_transaction=answers).encode(self._request.version)])


def _ask(
    request: Request, one: AddPartitionsToTxnRequestTransaction, settled: Callable[[ErrorCode | Errors], None]
) -> None:
    transactions = request.broker.transactions
    identity = Identity(one.producer_id, one.producer_epoch)
    partitions = frozenset(_partitions(one.topics))
    if not one.verify_only:
        future = transactions.ask(
            one.transactional_id,
            lambda ticket: AddPartitions(ticket, one.transactional_id, identity, partitions, BROKER_VERSION),
        )
        future.add_done_callback(lambda done: settled(done.result()))
        return
    shard = transactions.shard_of(one.transactional_id)
    settled(shard if isinstance(shard, ErrorCode) else shard.verify(one.transactional_id, identity, partitions))


def _is_two_phase(request: Request, name: str) -> bool:
    shard = request.broker.transactions.shard_of(name)
    found = None if isinstance(shard, ErrorCode) else shard.transactions.get(name)
    return found is not None and found.is_two_phase


# -- answers -----------------------------------------------------------------------------------------------------------


def _partitions(topics: Topics) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _results(request: Request, topics: Topics, errors: ErrorCode | Errors) -> list[AddPartitionsToTxnResponseTopic]:
    return [
        AddPartitionsToTxnResponseTopic(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnResponsePartition(
                    partition_index=index,
                    partition_error_code=_told(
                        request.version, errors if isinstance(errors, ErrorCode) else errors[topic.name, index]
                    ),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _told(version: int, error: ErrorCode) -> ErrorCode:
    if error == ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
