"""Transaction decisions: for each request about a transactional id, its next value or an error.

Every function is pure, except for `take_id`. It returns a producer id that was never used before, or None if none is
available; then the client must retry.

The main rules: only the current `identity` may add partitions, commit or abort. A transaction is decided once. A
producer that takes over a transactional id gets an epoch above all epochs that any client has received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from moldau.transactions.states import TransactionState
from moldau.transactions.transaction import NOT_STARTED, Transaction
from moldau.wire.errors import ErrorCode
from moldau.wire.producer_identity import (
    LAST_PRODUCER_EPOCH,
    NO_IDENTITY,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdentity,
)
from moldau.wire.topic_partition import TopicPartition

TakeId = Callable[[], int | None]

NO_ID_AVAILABLE = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The broker is reserving a block of producer ids; clients retry this error."""

EPOCH_A_TRANSACTION = 2
"""Since this transaction version, every end of a transaction gives the producer a new epoch."""

_S = TransactionState


class Initialised(NamedTuple):
    """A producer was initialised, or (`fenced`) its predecessor's transaction is being aborted and it must retry."""

    transaction: Transaction
    last_epoch: int = NO_PRODUCER_EPOCH
    """The epoch whose owner may repeat the request and get the same answer: a retry is not a second producer."""
    ongoing: ProducerIdentity = NO_IDENTITY
    """The prepared transaction that was kept for it."""
    fenced: bool = False


class EndDecision(NamedTuple):
    """The end of a transaction is decided; `transaction` is None if it was decided before."""

    identity: ProducerIdentity
    transaction: Transaction | None = None


# -- InitProducerId ----------------------------------------------------------------------------------------------------


def first_producer(transactional_id: str, timeout_ms: int, now_ms: int, take_id: TakeId) -> Initialised | ErrorCode:
    """Initialise a transactional id that is not in use."""
    producer_id = take_id()
    if producer_id is None:
        return NO_ID_AVAILABLE
    return Initialised(Transaction(transactional_id, producer_id, 0, timeout_ms, _S.EMPTY, last_update_ms=now_ms))


def initialise(
    found: Transaction,
    expected: ProducerIdentity | None,
    last_epoch: int,
    timeout_ms: int,
    keep_prepared: bool,
    now_ms: int,
    take_id: TakeId,
) -> Initialised | ErrorCode:
    """Initialise a new producer or, with `expected`, a producer that continues after an error."""
    if found.state.ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if expected is not None and not _may_go_on(found, expected, last_epoch):
        return ErrorCode.PRODUCER_FENCED
    if found.state is _S.ONGOING:
        if keep_prepared:
            return _keep(found, timeout_ms, now_ms, take_id)
        # The abort has only begun. The client retries, and is initialised when the markers are written.
        aborted = fence(found, now_ms)
        return Initialised(aborted, last_epoch=NO_PRODUCER_EPOCH if expected is None else expected.epoch, fenced=True)
    return _admit_producer(found, expected, timeout_ms, now_ms, take_id)


def _may_go_on(found: Transaction, expected: ProducerIdentity, last_epoch: int) -> bool:
    current = found.identity
    if expected == current:
        return True
    # A retry whose first answer was lost. No other producer was initialised since: that would have cleared
    # `last_epoch`.
    same_owner = expected.producer_id == current.producer_id or (
        expected.producer_id == found.previous_producer_id and expected.exhausted
    )
    return same_owner and last_epoch != NO_PRODUCER_EPOCH and expected.epoch == last_epoch


def _admit_producer(
    found: Transaction, expected: ProducerIdentity | None, timeout_ms: int, now_ms: int, take_id: TakeId
) -> Initialised | ErrorCode:
    current, previous = found.identity, found.previous_producer_id
    repeated = expected is not None and expected != current
    if repeated and current.epoch <= LAST_PRODUCER_EPOCH:
        admitted = current
    elif current.exhausted:
        producer_id = take_id()
        if producer_id is None:
            return NO_ID_AVAILABLE
        admitted, previous = ProducerIdentity(producer_id, 0), current.producer_id
    else:
        admitted = current.next()
    transaction = found.to(
        _S.EMPTY,
        now_ms,
        producer_id=admitted.producer_id,
        producer_epoch=admitted.epoch,
        previous_producer_id=previous,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_ms=NOT_STARTED,
    )
    return Initialised(transaction, NO_PRODUCER_EPOCH if expected is None else expected.epoch)


def _keep(found: Transaction, timeout_ms: int, now_ms: int, take_id: TakeId) -> Initialised | ErrorCode:
    """Keep a prepared transaction as it is, but change the identity that may end it."""
    following = _following(found.identity, take_id)
    if following is None:
        return NO_ID_AVAILABLE
    kept = found.to(
        _S.ONGOING,
        now_ms,
        next_producer_id=following.producer_id,
        next_producer_epoch=following.epoch,
        timeout_ms=timeout_ms,
    )
    return Initialised(kept, ongoing=ProducerIdentity(found.producer_id, found.producer_epoch))


def _following(identity: ProducerIdentity, take_id: TakeId) -> ProducerIdentity | None:
    """The next identity: the next epoch, or a new producer id if no epoch is left."""
    if not identity.exhausted:
        return identity.next()
    producer_id = take_id()
    return None if producer_id is None else ProducerIdentity(producer_id, 0)


# -- AddPartitionsToTxn, AddOffsetsToTxn -------------------------------------------------------------------------------


def identity_error(found: Transaction, identity: ProducerIdentity) -> ErrorCode:
    """The error for a request of this identity; NONE if it is the current one."""
    current = found.identity
    if identity.producer_id != current.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if identity.epoch == current.epoch else ErrorCode.PRODUCER_FENCED


def add_partitions(
    found: Transaction,
    identity: ProducerIdentity,
    partitions: frozenset[TopicPartition],
    client_version: int,
    now_ms: int,
) -> Transaction | ErrorCode:
    """The transaction with the partitions added; ErrorCode.NONE if all of them were already in it."""
    if error := identity_error(found, identity):
        return error
    if found.state.ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if found.is_kept:
        return ErrorCode.INVALID_TXN_STATE  # a prepared transaction may only be committed or aborted
    if found.state is _S.ONGOING:
        if partitions <= found.partitions:
            return ErrorCode.NONE
        return found.to(_S.ONGOING, now_ms, partitions=found.partitions | partitions, client_version=client_version)
    return found.to(_S.ONGOING, now_ms, partitions=partitions, start_ms=now_ms, client_version=client_version)


def verify(
    found: Transaction, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
) -> ErrorCode | Mapping[TopicPartition, ErrorCode]:
    """For each partition, whether it is part of the open transaction."""
    if error := identity_error(found, identity):
        return error
    if found.state.ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if found.is_kept:
        return ErrorCode.INVALID_TXN_STATE  # its markers are for the producer id that it was prepared with
    present = found.partitions if found.state is _S.ONGOING else frozenset()
    return {one: ErrorCode.NONE if one in present else ErrorCode.TRANSACTION_ABORTABLE for one in partitions}


# -- EndTxn ------------------------------------------------------------------------------------------------------------


def end(
    found: Transaction, identity: ProducerIdentity, commit: bool, client_version: int, now_ms: int, take_id: TakeId
) -> EndDecision | ErrorCode:
    """Commit or abort at the request of a client."""
    bumps = client_version >= EPOCH_A_TRANSACTION
    repeated = bumps and _is_repeated_end(found, identity)
    if not repeated and (error := identity_error(found, identity)):
        return error
    state = found.state
    if state is _S.ONGOING:
        return _decide(found, commit, client_version, now_ms, take_id)
    decided = state in (_COMMITTED if commit else _ABORTED)
    asks_again = repeated or not bumps
    if state.ending:
        return _CONFLICT if asks_again and not decided else ErrorCode.CONCURRENT_TRANSACTIONS
    if asks_again and state is not _S.EMPTY:
        return EndDecision(found.identity) if decided else _CONFLICT
    if bumps and not commit:
        # The producer cannot know whether a transaction was begun: accept the abort, and give it a new epoch.
        return _decide(found, commit, client_version, now_ms, take_id)
    return _CONFLICT


_COMMITTED = (_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT)
_ABORTED = (_S.PREPARE_ABORT, _S.COMPLETE_ABORT)
_CONFLICT = ErrorCode.INVALID_TXN_STATE


def _is_repeated_end(found: Transaction, identity: ProducerIdentity) -> bool:
    """Whether this is a retry of the EndTxn request that led to this state, from a client that has not received its new
    epoch."""
    if found.state in (_S.EMPTY, _S.ONGOING):
        return False
    current = found.identity
    if identity.epoch < LAST_PRODUCER_EPOCH:
        return identity.producer_id == current.producer_id and identity.epoch == current.epoch - 1
    return (
        identity.epoch == LAST_PRODUCER_EPOCH
        and identity.producer_id == found.previous_producer_id
        and current.epoch == 0
    )


def _decide(
    found: Transaction, commit: bool, client_version: int, now_ms: int, take_id: TakeId
) -> EndDecision | ErrorCode:
    """The decision as it is stored: its epoch is that of the markers."""
    current, previous = found.identity, found.previous_producer_id
    after = current
    if client_version >= EPOCH_A_TRANSACTION:
        following = _following(current, take_id)
        if following is None:
            return NO_ID_AVAILABLE
        after = following
        if current.exhausted:
            previous = current.producer_id
    prepared = _prepare(found, _S.PREPARE_COMMIT if commit else _S.PREPARE_ABORT, after, now_ms)
    return EndDecision(after, replace(prepared, client_version=client_version, previous_producer_id=previous))


def fence(found: Transaction, now_ms: int) -> Transaction:
    """Abort an open transaction and fence its producer: the markers carry an epoch that no client has received."""
    following = found.identity.next()  # LAST_EPOCH leaves one epoch free for this
    return _prepare(found.to(_S.PREPARE_EPOCH_FENCE, now_ms), _S.PREPARE_ABORT, following, now_ms)


def _prepare(found: Transaction, state: TransactionState, after: ProducerIdentity, now_ms: int) -> Transaction:
    """The prepared transaction. `after` is the identity that is valid once the markers are written.

    Markers use the transaction's own producer id. Their epoch is the new one if `after` has the same producer id,
    otherwise the epoch of the records plus one.
    """
    if after.producer_id == found.producer_id:
        return found.to(
            state,
            now_ms,
            producer_epoch=after.epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
        )
    return found.to(
        state,
        now_ms,
        producer_epoch=found.producer_epoch + 1,
        next_producer_id=after.producer_id,
        next_producer_epoch=after.epoch or NO_PRODUCER_EPOCH,
    )


def complete(found: Transaction, now_ms: int) -> Transaction:
    """The transaction after all markers are written."""
    after = found.identity
    state = _S.COMPLETE_COMMIT if found.committing else _S.COMPLETE_ABORT
    return found.to(
        state,
        now_ms,
        producer_id=after.producer_id,
        producer_epoch=after.epoch,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        partitions=frozenset(),
    )
