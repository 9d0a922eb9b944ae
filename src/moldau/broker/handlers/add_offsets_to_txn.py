"""AddOffsetsToTxn (25): add the offsets of a consumer group to a transaction.

Versions 0-4.

* It adds the partition of `__consumer_offsets` in which the offsets of the group are.
* Producers of transaction version 2 do not send this request: TxnOffsetCommit adds the partition.
* Below version 2 a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.cluster.image import CONSUMER_OFFSETS
from moldau.security import Operation, ResourceType
from moldau.transactions.events import AddPartitions
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.wire.producer_identity import ProducerIdentity
from moldau.wire.topic_partition import TopicPartition

FENCED_FROM = 2
CLIENT_VERSION = 1


@handles(ApiKey.ADD_OFFSETS_TO_TXN)
def add_offsets_to_txn(request: Request, message: AddOffsetsToTxnRequest) -> Answer:
    name = message.transactional_id
    if not name:
        return _response(request, ErrorCode.INVALID_REQUEST)
    if not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return _response(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not request.authorized(Operation.READ, ResourceType.GROUP, message.group_id):
        return _response(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.broker.groups.runtime.partition_count:
        return _first(request, message)
    return _add(request, message)


def _add(request: Request, message: AddOffsetsToTxnRequest) -> Answer:
    name = message.transactional_id
    identity = ProducerIdentity(message.producer_id, message.producer_epoch)
    offsets = frozenset({TopicPartition(CONSUMER_OFFSETS, request.broker.groups.runtime.index_of(message.group_id))})
    return request.broker.transactions.later(
        request,
        name,
        lambda ticket: AddPartitions(ticket, name, identity, offsets, CLIENT_VERSION),
        lambda error: _response(request, error),
    )


async def _first(request: Request, message: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Create `__consumer_offsets`. The producer retries after COORDINATOR_NOT_AVAILABLE."""
    await request.broker.groups.runtime.ensure_topic()
    return _response(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _response(request: Request, error: ErrorCode) -> AddOffsetsToTxnResponse:
    if error == ErrorCode.PRODUCER_FENCED and request.version < FENCED_FROM:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=error)
