"""DescribeTransactions (65): the state of transactions, by transactional id.

Version 0.

* The response contains only topics that the client may describe.
* An id that is not in use, or has expired, is TRANSACTIONAL_ID_NOT_FOUND.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
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
from moldau.wire.topic_partition import by_topic


@handles(ApiKey.DESCRIBE_TRANSACTIONS)
def describe_transactions(request: Request, message: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(request, name) for name in message.transactional_ids]
    )


def _describe(request: Request, name: str) -> DescribeTransactionsResponseTransactionState:
    found = _find(request, name)
    if isinstance(found, ErrorCode):
        return DescribeTransactionsResponseTransactionState(error_code=found, transactional_id=name)
    return DescribeTransactionsResponseTransactionState(
        transactional_id=name,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            DescribeTransactionsResponseTopic(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(found.partitions).items()
            if request.authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic, audited=False)
        ],
    )


def _find(request: Request, name: str) -> Transaction | ErrorCode:
    if not name:
        return ErrorCode.INVALID_REQUEST
    if not request.authorized(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not request.broker.transactions.runtime.partition_count:
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND  # only the first producer creates the topic
    shard = request.broker.transactions.shard_of(name)
    if isinstance(shard, ErrorCode):
        return shard
    return shard.transactions.get(name) or ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
