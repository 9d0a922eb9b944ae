"""AddPartitionsToTxn (24): add partitions to a transaction, or verify that they are part of it.

Versions 0-5.

* Versions 0-3 are for clients: one transaction. All partitions are added or none. If one is unknown or not authorized,
  the others get OPERATION_NOT_ATTEMPTED.
* Versions 4-5 are for brokers (CLUSTER_ACTION): many transactions. With `verify_only` nothing is added, and
  TRANSACTION_ABORTABLE means that the partition is not part of the transaction. Moldau's own tagged field
  (`TWO_PHASE_TAG`) marks two-phase transactions.
* Below version 2 a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import Answer, DeferredAnswer, Reply, handles
from moldau.broker.txn.txn_partition_adder import TWO_PHASE_TAG
from moldau.cluster.image import INTERNAL_TOPICS
from moldau.security import Operation, ResourceType
from moldau.transactions.events import AddPartitions
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
from moldau.wire.producer_identity import ProducerIdentity
from moldau.wire.topic_partition import TopicPartition

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
    identity = ProducerIdentity(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)

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
    """The partitions that a client cannot add, with their errors."""
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        known = request.broker.image.topics.get(topic.name)
        may = request.authorized(Operation.WRITE, ResourceType.TOPIC, topic.name) and topic.name not in INTERNAL_TOPICS
        for index in topic.partitions:
            if not may:
                refused[TopicPartition(topic.name, index)] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or not 0 <= index < len(known.partitions):
                refused[TopicPartition(topic.name, index)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


# -- requests of brokers -----------------------------------------------------------------------------------------------


def _for_brokers(request: Request, message: AddPartitionsToTxnRequest) -> Answer:
    if not request.authorized(Operation.CLUSTER_ACTION, ResourceType.CLUSTER):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    request.session.quota.do_not_count_time()
    if not message.transactions:
        return AddPartitionsToTxnResponse()
    return BatchedAddPartitions(request, message.transactions)


class BatchedAddPartitions(DeferredAnswer):
    """A request for many transactions, each answered by its own shard."""

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
    identity = ProducerIdentity(one.producer_id, one.producer_epoch)
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


# -- responses ---------------------------------------------------------------------------------------------------------


def _partitions(topics: Topics) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(request: Request, topics: Topics, errors: ErrorCode | Errors) -> list[AddPartitionsToTxnResponseTopic]:
    return [
        AddPartitionsToTxnResponseTopic(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnResponsePartition(
                    partition_index=index,
                    partition_error_code=_client_error(
                        request.version,
                        errors if isinstance(errors, ErrorCode) else errors[TopicPartition(topic.name, index)],
                    ),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _client_error(version: int, error: ErrorCode) -> ErrorCode:
    if error == ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
