"""Broker errors about producers, sequence numbers and transactions."""

from __future__ import annotations

from moldau.client.broker_errors.base import BrokerError
from moldau.wire.errors import ErrorCode as Code

__all__ = [
    "ConcurrentTransactions",
    "DuplicateSequence",
    "InvalidProducerEpoch",
    "InvalidProducerIdMapping",
    "InvalidTransactionTimeout",
    "InvalidTxnState",
    "OutOfOrderSequence",
    "ProducerFenced",
    "TransactionAbortable",
    "TransactionCoordinatorFenced",
    "TransactionalIdNotFound",
    "UnknownProducerId",
]


class ProducerFenced(
    BrokerError,
    code=Code.PRODUCER_FENCED,
    says="a newer producer uses the same transactional.id; close this one",
): ...


class InvalidProducerEpoch(
    BrokerError,
    code=Code.INVALID_PRODUCER_EPOCH,
    says="the producer's epoch is too old: a newer producer has the same transactional.id, or the transaction timed "
    "out",
): ...


class OutOfOrderSequence(
    BrokerError,
    code=Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    says="an earlier batch of this producer is missing, so the broker did not write this one",
): ...


class DuplicateSequence(BrokerError, code=Code.DUPLICATE_SEQUENCE_NUMBER, says="the batch was written before"): ...


class UnknownProducerId(
    BrokerError,
    code=Code.UNKNOWN_PRODUCER_ID,
    says="the broker has no state of this producer any more, because its records have expired",
): ...


class InvalidTxnState(
    BrokerError, code=Code.INVALID_TXN_STATE, says="the state of the transaction does not allow this operation"
): ...


class InvalidProducerIdMapping(
    BrokerError,
    code=Code.INVALID_PRODUCER_ID_MAPPING,
    says="the producer id does not belong to this transactional.id; it has expired, or another producer has used the "
    "transactional.id since",
): ...


class InvalidTransactionTimeout(
    BrokerError,
    code=Code.INVALID_TRANSACTION_TIMEOUT,
    says="transaction.timeout.ms is larger than transaction.max.timeout.ms of the broker; lower it",
): ...


class ConcurrentTransactions(
    BrokerError, code=Code.CONCURRENT_TRANSACTIONS, says="the previous transaction is still being ended; try again"
): ...


class TransactionCoordinatorFenced(
    BrokerError,
    code=Code.TRANSACTION_COORDINATOR_FENCED,
    says="a former transaction coordinator sent the request; the new one has fenced it",
): ...


class TransactionAbortable(
    BrokerError, code=Code.TRANSACTION_ABORTABLE, says="abort the transaction, then begin a new one"
): ...


class TransactionalIdNotFound(
    BrokerError, code=Code.TRANSACTIONAL_ID_NOT_FOUND, says="the cluster has no transactions with this transactional id"
): ...
