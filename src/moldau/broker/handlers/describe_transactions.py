"""DescribeTransactions (65): transactions as their coordinator knows them, by transactional id.

Version 0. Only topics that the client may describe are named. An id that nobody uses, or used for long, is
TRANSACTIONAL_ID_NOT_FOUND.
"""

from __future__ import annotations

from moldau.broker.registry import handles
from moldau.broker.session import Request
from moldau.security import Operation, ResourceType
from moldau.transactions.transaction import Transaction
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopic,
    DescribeTransactionsResponseTransactionState,
)


@handles(ApiKey.DESCRIBE_TRANSACTIONS)
def describe_transactions(request: Request, message: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(request, name) for name in message.transactional_ids]
    )


def _describe(request: Request, name: str) -> DescribeTransactionsResponseTransactionState:
    found = _find(request, name)
    if isinstance(found, ErrorCode):
        return DescribeTransactionsResponseTransactionState(error_code=found, transactional_id=name)
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(found.partitions):
        if request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic):
            by_topic.setdefault(topic, []).append(index)
    return DescribeTransactionsResponseTransactionState(
        transactional_id=name,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            DescribeTransactionsResponseTopic(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()
        ],
    )


def _find(request: Request, name: str) -> Transaction | ErrorCode:
    if not name:
        return ErrorCode.INVALID_REQUEST
    if not request.authorized(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not request.broker.transactions.coordination.partition_count:
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND  # the topic is made for the first producer, not for a question
    shard = request.broker.transactions.shard_of(name)
    if isinstance(shard, ErrorCode):
        return shard
    return shard.transactions.get(name) or ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
