"""InitProducerId (22): a producer id and epoch for idempotent and transactional producers.

Versions 0-6.

* Without a transactional id: a new producer id with epoch 0.
* With a transactional id: its producer id with the next epoch, which fences all earlier producers. Their open
  transaction is aborted first (CONCURRENT_TRANSACTIONS until its markers are written).
* From version 3 on, a producer may send its current id and epoch to continue after an error. It succeeds unless a later
  producer has fenced it.
* A timeout outside of 1 to `transaction.max.timeout.ms` is INVALID_TRANSACTION_TIMEOUT.
* Below version 4 a fenced producer gets INVALID_PRODUCER_EPOCH.
* Version 6 has two-phase commit, if `transaction.two.phase.commit.enable` is set and the client is authorized. With
  `enable2_pc` transactions have no timeout. With `keep_prepared_txn` an open transaction is not aborted. The response
  names it, and the new producer may end it.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.broker.connection.session import Request
from moldau.broker.requests.handler_registry import Answer, handles
from moldau.coordinator.runtime import Ticket
from moldau.security import Operation, ResourceType
from moldau.transactions.events import InitProducer, ProducerInitialised
from moldau.transactions.transaction import NO_TIMEOUT
from moldau.wire.api import ApiKey
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.producer_identity import NO_IDENTITY, ProducerIdentity

FENCED_FROM = 4


@handles(ApiKey.INIT_PRODUCER_ID)
def init_producer_id(request: Request, message: InitProducerIdRequest) -> Answer:
    name = message.transactional_id
    if name is None:
        return _idempotent(request)
    expected = ProducerIdentity(message.producer_id, message.producer_epoch)
    if error := _refusal(request, message, expected):
        return _response(request, ProducerInitialised(error))

    def event(ticket: Ticket) -> InitProducer:
        timeout_ms = NO_TIMEOUT if message.enable2_pc else message.transaction_timeout_ms
        return InitProducer(
            ticket, name, timeout_ms, None if expected == NO_IDENTITY else expected, message.keep_prepared_txn
        )

    transactions = request.broker.transactions
    if transactions.producer_ids.available:
        return transactions.later(request, name, event, lambda result: _response(request, result))
    return _wait_and_ask(request, name, event)


async def _wait_and_ask(request: Request, name: str, event: Callable[[Ticket], InitProducer]) -> InitProducerIdResponse:
    """Wait for a block of producer ids, as the first producer after the start of a broker must, and then ask."""
    transactions = request.broker.transactions
    await transactions.producer_ids.ready()
    return _response(request, await transactions.ask(name, event))


def _refusal(request: Request, message: InitProducerIdRequest, expected: ProducerIdentity) -> ErrorCode:
    name = message.transactional_id
    assert name is not None
    settings = request.broker.settings
    if not name or (expected != NO_IDENTITY and min(expected) < 0):
        return ErrorCode.INVALID_REQUEST
    if not request.authorized(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    two_phase = message.enable2_pc or message.keep_prepared_txn
    if two_phase and not (
        settings["transaction.two.phase.commit.enable"]
        and request.authorized(Operation.TWO_PHASE_COMMIT, ResourceType.TRANSACTIONAL_ID, name)
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not message.enable2_pc and not 0 < message.transaction_timeout_ms <= settings["transaction.max.timeout.ms"]:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _idempotent(request: Request) -> Answer:
    # A producer that may write to some topic is idempotent by default (KIP-679).
    if not (
        request.authorized_any(Operation.WRITE, ResourceType.TOPIC)
        or request.authorized(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
    ):
        return _response(request, ProducerInitialised(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    producer_id = request.broker.transactions.producer_ids.take()
    return _wait_for_id(request) if producer_id is None else _new(request, producer_id)


async def _wait_for_id(request: Request) -> InitProducerIdResponse:
    ids = request.broker.transactions.producer_ids
    producer_id = ids.take() if await ids.ready() else None
    if producer_id is None:
        return _response(request, ProducerInitialised(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    return _new(request, producer_id)


def _new(request: Request, producer_id: int) -> InitProducerIdResponse:
    return _response(request, ProducerInitialised(ErrorCode.NONE, ProducerIdentity(producer_id, 0)))


def _response(request: Request, result: ProducerInitialised | ErrorCode) -> InitProducerIdResponse:
    if isinstance(result, ErrorCode):
        result = ProducerInitialised(result)
    error = result.error
    if error == ErrorCode.PRODUCER_FENCED and request.version < FENCED_FROM:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(
        error_code=error,
        producer_id=result.identity.producer_id,
        producer_epoch=result.identity.epoch,
        ongoing_txn_producer_id=result.ongoing.producer_id,
        ongoing_txn_producer_epoch=result.ongoing.epoch,
    )
