"""ListTransactions (66): the transactions that this broker coordinates.

Versions 0-2.

* Filters: state, producer id, duration (from version 1 on), and a pattern in RE2 syntax that the whole transactional id
  must match (from version 2 on).
* Unknown states are returned in the response. An invalid pattern is INVALID_REGULAR_EXPRESSION.
* The response contains only ids that the client may describe.
* While the broker loads some of its transactions, the error is COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import handles
from moldau.security import Operation, ResourceType
from moldau.transactions.shard import Query
from moldau.transactions.states import BY_LABEL
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)


@handles(ApiKey.LIST_TRANSACTIONS)
def list_transactions(request: Request, message: ListTransactionsRequest) -> ListTransactionsResponse:
    unknown = [name for name in message.state_filters if name not in BY_LABEL]
    states = frozenset(BY_LABEL[name] for name in message.state_filters if name in BY_LABEL)
    if message.state_filters and not states:
        return ListTransactionsResponse(unknown_state_filters=unknown)
    try:
        matches = _matcher(message.transactional_id_pattern)
    except ValueError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    runtime = request.broker.transactions.runtime
    shards = [runtime.shard_at(index) for index in range(runtime.partition_count)]
    if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in shards:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    query = Query(states, frozenset(message.producer_id_filters), message.duration_filter, matches)
    now_ms = runtime.now_ms()
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            ListTransactionsResponseTransactionState(
                transactional_id=found.transactional_id,
                producer_id=found.producer_id,
                transaction_state=found.state.label,
            )
            for one in shards
            if not isinstance(one, ErrorCode)
            for found in one.shard.matching(query, now_ms)
            if request.authorized(
                Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, found.transactional_id, audited=False
            )
        ],
    )


def _matcher(pattern: str | None) -> Callable[[str], object] | None:
    """The match function of a pattern; None without a pattern. Raises ValueError if the pattern is invalid."""
    if not pattern:
        return None
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        raise ValueError(pattern) from None
    matches: Callable[[str], object] = compiled.fullmatch
    return matches
