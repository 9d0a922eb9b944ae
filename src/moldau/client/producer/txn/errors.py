"""Severity of errors in a transaction: retry, abort it, or close the producer. The rules of Kafka's producer."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from moldau.client.errors import BrokerError, CommitFailed, MoldauError, UnsupportedByBroker
from moldau.wire.errors import ErrorCode

_E = ErrorCode


class Severity(Enum):
    """The reaction to an error."""

    RETRY = auto()
    ABORT = auto()
    FATAL = auto()
    NOTHING = auto()
    """The call fails without a change of state. It may be repeated when the cause is removed."""


FENCED: Final = frozenset({_E.PRODUCER_FENCED, _E.INVALID_PRODUCER_EPOCH})
"""Another producer uses the transactional id, or the coordinator aborted the transaction after its timeout."""

MEMBER_LEFT: Final = frozenset(
    {_E.UNKNOWN_MEMBER_ID, _E.ILLEGAL_GENERATION, _E.FENCED_INSTANCE_ID, _E.STALE_MEMBER_EPOCH, _E.FENCED_MEMBER_EPOCH}
)
"""The consumer has lost its partitions: another member reads them from the last committed offset."""

_BATCH_FATAL: Final = frozenset(
    {
        _E.CLUSTER_AUTHORIZATION_FAILED,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _E.PRODUCER_FENCED,
        _E.UNSUPPORTED_VERSION,
        _E.INVALID_PRODUCER_ID_MAPPING,
    }
)

_REQUEST_ABORTABLE: Final = frozenset(
    {
        _E.TOPIC_AUTHORIZATION_FAILED,
        _E.GROUP_AUTHORIZATION_FAILED,
        _E.OPERATION_NOT_ATTEMPTED,
        _E.UNKNOWN_PRODUCER_ID,
        _E.INVALID_PRODUCER_ID_MAPPING,
        _E.TRANSACTION_ABORTABLE,
        _E.OFFSET_METADATA_TOO_LARGE,
        _E.INVALID_COMMIT_OFFSET_SIZE,
        _E.INVALID_GROUP_ID,
        _E.GROUP_ID_NOT_FOUND,
        *MEMBER_LEFT,
    }
)


def of_batch(error: MoldauError) -> Severity:
    """The severity of an error because of which records were not written."""
    if isinstance(error, UnsupportedByBroker):
        return Severity.FATAL
    if isinstance(error, BrokerError) and error.code in _BATCH_FATAL:
        return Severity.FATAL
    return Severity.ABORT


def of_request(error: MoldauError) -> Severity:
    """The severity of a failed AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit or EndTxn."""
    if error.retriable:
        return Severity.RETRY
    if isinstance(error, BrokerError) and (error.code in _REQUEST_ABORTABLE or isinstance(error, CommitFailed)):
        return Severity.ABORT
    return Severity.FATAL


def of_init(error: MoldauError) -> Severity:
    """The severity of a failed InitProducerId."""
    if error.retriable:
        return Severity.RETRY
    if isinstance(error, BrokerError) and error.code in FENCED:
        return Severity.FATAL
    return Severity.NOTHING
