"""State machine of a producer's transactions: the order in which calls are allowed.

Nothing here waits or sends. `transaction_manager.py` asks what is allowed, does it, and reports the result.

The two versions of the protocol differ in how a partition becomes part of a transaction. In version 1 the client adds
the partition at the coordinator, and sends records after the answer. In version 2 (KIP-890) the partition's leader adds
it when the first records arrive, and each end of a transaction gives the producer a new epoch. A late record of one
transaction can therefore never become part of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NoReturn

from moldau.client.client_errors import error_copy
from moldau.client.data_types import TopicPartition
from moldau.client.errors import IllegalStateError, MoldauError
from moldau.client.producer.txn.prepared import PreparedTransaction
from moldau.wire.producer_identity import NO_IDENTITY, ProducerIdentity


class ProducerTxnState(Enum):
    """The state of a producer's transactions. The value is the description that error messages use."""

    UNINITIALISED = "init_transactions() was not called yet"
    INITIALISING = "init_transactions() has not succeeded yet"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    PREPARING = "the transaction is being prepared"
    PREPARED = "the transaction is prepared"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    ABORTABLE_ERROR = "the transaction has failed and must be aborted"
    FATAL_ERROR = "the producer has failed and must be closed"


_S = ProducerTxnState

TRANSITIONS: Final[Mapping[ProducerTxnState, frozenset[ProducerTxnState]]] = {
    _S.UNINITIALISED: frozenset({_S.INITIALISING, _S.FATAL_ERROR}),
    # To UNINITIALISED: the coordinator refused the request. To PREPARED: it kept a prepared transaction.
    _S.INITIALISING: frozenset({_S.INITIALISING, _S.READY, _S.PREPARED, _S.UNINITIALISED, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset(
        {_S.PREPARING, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR},
    ),
    _S.PREPARING: frozenset({_S.PREPARING, _S.PREPARED, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.PREPARED: frozenset({_S.COMMITTING, _S.ABORTING, _S.FATAL_ERROR}),
    # Not to ABORTING: if the answer to EndTxn was lost, the transaction may be committed. The call is repeated instead.
    _S.COMMITTING: frozenset({_S.COMMITTING, _S.READY, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.ABORTING, _S.READY, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}
"""The allowed transitions. A transition to the same state is a call that is repeated after a timeout."""

ADVICE: Final[Mapping[ProducerTxnState, str]] = {
    _S.UNINITIALISED: "call init_transactions() first",
    _S.INITIALISING: "call init_transactions() again until it succeeds",
    _S.READY: "use `with producer.transaction():`, or call begin_transaction() first",
    _S.IN_TRANSACTION: "commit or abort it first",
    _S.PREPARING: "call prepare_transaction() again, or abort_transaction()",
    _S.PREPARED: "commit or abort it; nothing can be added to it",
    _S.COMMITTING: "call commit_transaction() again until it succeeds: the commit may have happened already",
    _S.ABORTING: "call abort_transaction() again until it succeeds",
    _S.ABORTABLE_ERROR: "call abort_transaction(), then begin a new transaction",
    _S.FATAL_ERROR: "close it and create a new one",
}

SENDING: Final = frozenset({_S.IN_TRANSACTION, _S.PREPARING, _S.COMMITTING})
"""States in which buffered records are sent as part of the transaction."""

OPEN: Final = SENDING | {_S.ABORTABLE_ERROR, _S.ABORTING}
"""States in which the coordinator may have an open transaction of this producer."""


class TransactionMachine:
    """The transaction state of one producer."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = _S.UNINITIALISED
        self.identity = NO_IDENTITY
        self.version = 1
        """The version of the transaction protocol: 1 or 2."""
        self.error: MoldauError | None = None
        """Why the state is ABORTABLE_ERROR or FATAL_ERROR."""
        self.prepared: PreparedTransaction | None = None
        self._clear()

    def _clear(self) -> None:
        self.started = False
        """Whether the coordinator knows the transaction; in version 2 also if it may know it."""
        self.uncertain = False
        """Version 1: a request that may have started the transaction got no answer."""
        self.bump_wanted = False
        """Version 1: the next transaction needs a new epoch, because old records may still be on their way."""
        self.sealed = False
        """Whether all records are delivered and no more may be sent, because the transaction is being ended."""
        self._added: set[TopicPartition] = set()
        self._to_add: dict[TopicPartition, None] = {}  # in order

    # -- calls -----------------------------------------------------------------------------------------------------

    def _go(self, to: ProducerTxnState, what: str) -> None:
        if to not in TRANSITIONS[self.state]:
            self._refuse(what)
        self.state = to

    def _refuse(self, what: str) -> NoReturn:
        if self.state is _S.FATAL_ERROR:
            assert self.error is not None
            raise error_copy(self.error)
        problem = IllegalStateError(f"{what}: {self.state.value}; {ADVICE[self.state]}")
        raise problem from self.error

    def begin_init(self) -> None:
        self._go(_S.INITIALISING, "init_transactions()")

    def initialised(self, identity: ProducerIdentity, version: int, kept: ProducerIdentity = NO_IDENTITY) -> None:
        """InitProducerId succeeded: earlier producers are fenced. `kept` identifies a prepared transaction."""
        self.identity = identity
        self.version = version
        if kept.known:
            self._go(_S.PREPARED, "init_transactions()")
            self.started = True
            self.prepared = PreparedTransaction(self.transactional_id, *kept)
        else:
            self._go(_S.READY, "init_transactions()")

    def init_refused(self) -> None:
        """The coordinator refused for a reason that the user can correct: a timeout setting, a missing permission."""
        self._go(_S.UNINITIALISED, "init_transactions()")

    def begin(self) -> None:
        self._go(_S.IN_TRANSACTION, "begin_transaction()")

    def begin_prepare(self) -> None:
        self._go(_S.PREPARING, "prepare_transaction()")

    def is_prepared(self) -> PreparedTransaction:
        """All records are delivered: the transaction can be committed or aborted, and nothing else."""
        self._go(_S.PREPARED, "prepare_transaction()")
        identity = self.identity if self.started else NO_IDENTITY
        self.prepared = PreparedTransaction(self.transactional_id, *identity)
        return self.prepared

    def begin_commit(self) -> None:
        if self.state is _S.ABORTABLE_ERROR:
            assert self.error is not None
            raise error_copy(self.error)  # the cause says more than an IllegalStateError about the state
        self._go(_S.COMMITTING, "commit_transaction()")

    def begin_abort(self) -> None:
        self._go(_S.ABORTING, "abort_transaction()")
        self._to_add.clear()

    def ended(self, identity: ProducerIdentity) -> None:
        """The transaction has ended. The next one uses this identity."""
        self._go(_S.READY, "ending the transaction")
        self.identity = identity
        self.error = None
        self.prepared = None
        self._clear()

    def check_send(self, what: str = "send()") -> None:
        """Raise the fitting error unless a transaction is open to which something can be added."""
        if self.state is not _S.IN_TRANSACTION:
            self._refuse(what)

    # -- failures --------------------------------------------------------------------------------------------------

    def abortable(self, error: MoldauError) -> bool:
        """Mark the transaction as failed, so that it must be aborted. Return False if no open one can fail."""
        if self.state not in SENDING:
            return False
        self._go(_S.ABORTABLE_ERROR, "failing")
        self.error = error
        self._to_add.clear()
        return True

    def fatal(self, error: MoldauError) -> bool:
        """Mark the producer as failed: it can only be closed. Return False if it had failed before."""
        if self.state is _S.FATAL_ERROR:
            return False
        self.state = _S.FATAL_ERROR
        self.error = error
        self._to_add.clear()
        return True

    # -- partitions ------------------------------------------------------------------------------------------------

    def partition_seen(self, partition: TopicPartition) -> bool:
        """Note that there are records for the partition. Return True if it must be added at the coordinator first."""
        if self.state not in SENDING or self.sealed or partition in self._added or partition in self._to_add:
            return False
        if self.version >= 2:
            self._added.add(partition)
            self.started = True
            return False
        self._to_add[partition] = None
        return True

    def may_drain(self, partition: TopicPartition) -> bool:
        """Whether records of the partition may be sent. Retries of sent batches continue during an abort."""
        if self.sealed or partition not in self._added:
            return False
        return self.state in SENDING or self.state is _S.ABORTING

    def partitions_to_add(self) -> list[TopicPartition]:
        """Version 1: the partitions that are not added at the coordinator yet."""
        return list(self._to_add) if self.state in SENDING else []

    def partitions_added(self, partitions: Iterable[TopicPartition]) -> None:
        """The coordinator has added the partitions."""
        self.started = True
        self.uncertain = False
        for one in partitions:
            if one in self._to_add:  # empty if the transaction has failed or is being aborted since
                del self._to_add[one]
                self._added.add(one)

    def seal(self) -> None:
        """Send no more records: one that is given to `send` while the transaction is being ended is not part of it."""
        self.sealed = True

    def offsets_going(self) -> None:
        """Version 2: offsets are being sent, so the coordinator may know a transaction even if the request fails."""
        self.started = True
