"""EndTxn (26): commit or abort a transaction.

Versions 0-5.

* The response is sent when the decision is replicated in the coordinator's log. It is then final, and the markers
  follow.
* From version 5 on (transaction version 2), the response has the next epoch of the producer, or a new producer id when
  the epochs are used up. A repeated request with the previous epoch gets the same response.
* Below version 2 a fenced producer gets INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.security import Operation, ResourceType
from moldau.transactions.events import EndTransaction, TransactionEnded
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.wire.producer_identity import ProducerIdentity

FENCED_FROM = 2
NEW_EPOCH_FROM = 5


@handles(ApiKey.END_TXN)
def end_txn(request: Request, message: EndTxnRequest) -> Answer:
    name = message.transactional_id
    if not name:
        return _response(request, ErrorCode.INVALID_REQUEST)
    if not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return _response(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    identity = ProducerIdentity(message.producer_id, message.producer_epoch)
    client_version = 2 if request.version >= NEW_EPOCH_FROM else 1
    return request.broker.transactions.later(
        request,
        name,
        lambda ticket: EndTransaction(ticket, name, identity, message.committed, client_version),
        lambda result: _response(request, result),
    )


def _response(request: Request, result: TransactionEnded | ErrorCode) -> EndTxnResponse:
    if isinstance(result, ErrorCode):
        result = TransactionEnded(result)
    error = result.error
    if error == ErrorCode.PRODUCER_FENCED and request.version < FENCED_FROM:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(
        error_code=error, producer_id=result.identity.producer_id, producer_epoch=result.identity.epoch
    )
