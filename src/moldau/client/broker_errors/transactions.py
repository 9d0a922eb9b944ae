"""Errors of brokers about producers, their sequences and their transactions: what each means, and what to do."""

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
    says="a newer producer has started with the same transactional.id; this one must be closed",
): ...


class InvalidProducerEpoch(
    BrokerError,
    code=Code.INVALID_PRODUCER_EPOCH,
    says="the producer's epoch is over: a newer producer has taken its place, or its transaction timed out",
): ...


class OutOfOrderSequence(
    BrokerError,
    code=Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    says="a batch before this one is missing; the broker refuses to store a gap",
): ...


class DuplicateSequence(BrokerError, code=Code.DUPLICATE_SEQUENCE_NUMBER, says="the batch was stored before"): ...


class UnknownProducerId(
    BrokerError, code=Code.UNKNOWN_PRODUCER_ID, says="the broker has forgotten this producer; its records have expired"
): ...


class InvalidTxnState(
    BrokerError, code=Code.INVALID_TXN_STATE, says="the transaction is in a state in which this cannot be done"
): ...


class InvalidProducerIdMapping(
    BrokerError,
    code=Code.INVALID_PRODUCER_ID_MAPPING,
    says="the producer id does not belong to this transactional.id (any more); it has expired or was taken over",
): ...


class InvalidTransactionTimeout(
    BrokerError,
    code=Code.INVALID_TRANSACTION_TIMEOUT,
    says="transaction.timeout.ms is larger than the broker's transaction.max.timeout.ms",
): ...


class ConcurrentTransactions(
    BrokerError, code=Code.CONCURRENT_TRANSACTIONS, says="the transaction before it is still being ended; try again"
): ...


class TransactionCoordinatorFenced(
    BrokerError, code=Code.TRANSACTION_COORDINATOR_FENCED, says="an old coordinator tried to end the transaction"
): ...


class TransactionAbortable(
    BrokerError, code=Code.TRANSACTION_ABORTABLE, says="the transaction must be aborted; then a new one may begin"
): ...


class TransactionalIdNotFound(
    BrokerError, code=Code.TRANSACTIONAL_ID_NOT_FOUND, says="the cluster knows no such transactional id"
): ...
