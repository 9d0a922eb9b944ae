"""A producer's transactions as a state machine: which call may follow which, and what is known at every point.

Nothing here waits or sends. `transactions.py` asks it what may be done, does it, and tells it what came of it.

Two versions of the protocol differ in how a partition becomes part of a transaction. In version 1 the client tells the
coordinator first, and sends records after the answer. In version 2 (KIP-890) the partition's leader does that when the
first records come, and every end of a transaction gives the producer a new epoch, so that no late record of one
transaction can ever be taken for one of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NoReturn

from moldau.client.errors import IllegalStateError, MoldauError
from moldau.client.model import TopicPartition
from moldau.client.own_errors import another
from moldau.client.producer.identity import NO_IDENTITY, Identity
from moldau.client.producer.transactions_prepared import PreparedTransaction


class TransactionState(Enum):
    """Where a producer is; the value says it in a sentence."""

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


_S = TransactionState

TRANSITIONS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALISED: frozenset({_S.INITIALISING, _S.FATAL_ERROR}),
    # Back: the coordinator refused, and nothing was begun. Straight to PREPARED: such a transaction was kept.
    _S.INITIALISING: frozenset({_S.INITIALISING, _S.READY, _S.PREPARED, _S.UNINITIALISED, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset(
        {_S.PREPARING, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR},
    ),
    _S.PREPARING: frozenset({_S.PREPARING, _S.PREPARED, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.PREPARED: frozenset({_S.COMMITTING, _S.ABORTING, _S.FATAL_ERROR}),
    # Not to ABORTING: a commit whose answer was lost may have happened. It is repeated until there is an answer.
    _S.COMMITTING: frozenset({_S.COMMITTING, _S.READY, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.ABORTING, _S.READY, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}
"""Every state that may follow another. A state that follows itself is a call made again after a time-out."""

ADVICE: Final[Mapping[TransactionState, str]] = {
    _S.UNINITIALISED: "call init_transactions() first",
    _S.INITIALISING: "call init_transactions() again until it succeeds",
    _S.READY: "use `with producer.transaction():`, or call begin_transaction() first",
    _S.IN_TRANSACTION: "end it first",
    _S.PREPARING: "call prepare_transaction() again, or abort_transaction()",
    _S.PREPARED: "commit or abort it; nothing can be added to it",
    _S.COMMITTING: "call commit_transaction() again until it succeeds: it may have happened already",
    _S.ABORTING: "call abort_transaction() again until it succeeds",
    _S.ABORTABLE_ERROR: "call abort_transaction(), then begin again",
    _S.FATAL_ERROR: "close it and make a new one",
}

SENDING: Final = frozenset({_S.IN_TRANSACTION, _S.PREPARING, _S.COMMITTING})
"""Records that were given to the producer go out as part of the transaction."""

OPEN: Final = SENDING | {_S.ABORTABLE_ERROR, _S.ABORTING}
"""The coordinator may know of a transaction that this producer has not ended."""


class TransactionMachine:
    """All that one transactional producer knows about its transactions."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = _S.UNINITIALISED
        self.identity = NO_IDENTITY
        self.version = 1
        """Of the protocol: 1 or 2."""
        self.error: MoldauError | None = None
        """Why the state is ABORTABLE_ERROR or FATAL_ERROR."""
        self.prepared: PreparedTransaction | None = None
        self._clear()

    def _clear(self) -> None:
        self.started = False
        """Whether the coordinator has heard, or (version 2) may have heard, of the transaction."""
        self.uncertain = False
        """Version 1: a request that may have started the transaction was left without an answer."""
        self.bump_wanted = False
        """Version 1: records may be under way that must not be taken for the next transaction's."""
        self.sealed = False
        """Whether all records are with the brokers, and none may follow: the end is on its way, or will be."""
        self._added: set[TopicPartition] = set()
        self._to_add: dict[TopicPartition, None] = {}  # in order

    # -- calls -----------------------------------------------------------------------------------------------------

    def _go(self, to: TransactionState, what: str) -> None:
        if to not in TRANSITIONS[self.state]:
            self._refuse(what)
        self.state = to

    def _refuse(self, what: str) -> NoReturn:
        if self.state is _S.FATAL_ERROR:
            assert self.error is not None
            raise another(self.error)
        problem = IllegalStateError(f"{what}: {self.state.value}; {ADVICE[self.state]}")
        raise problem from self.error

    def begin_init(self) -> None:
        self._go(_S.INITIALISING, "init_transactions()")

    def initialised(self, identity: Identity, version: int, kept: Identity = NO_IDENTITY) -> None:
        """The coordinator knows this producer now, and has fenced those before it; `kept` is what was prepared."""
        self.identity = identity
        self.version = version
        if kept.known:
            self._go(_S.PREPARED, "init_transactions()")
            self.started = True
            self.prepared = PreparedTransaction(self.transactional_id, *kept)
        else:
            self._go(_S.READY, "init_transactions()")

    def init_refused(self) -> None:
        """The coordinator said no to something that may be put right: a time-out, a permission."""
        self._go(_S.UNINITIALISED, "init_transactions()")

    def begin(self) -> None:
        self._go(_S.IN_TRANSACTION, "begin_transaction()")

    def begin_prepare(self) -> None:
        self._go(_S.PREPARING, "prepare_transaction()")

    def is_prepared(self) -> PreparedTransaction:
        """Every record is with the brokers; only the outcome is missing."""
        self._go(_S.PREPARED, "prepare_transaction()")
        identity = self.identity if self.started else NO_IDENTITY
        self.prepared = PreparedTransaction(self.transactional_id, *identity)
        return self.prepared

    def begin_commit(self) -> None:
        if self.state is _S.ABORTABLE_ERROR:
            assert self.error is not None
            raise another(self.error)  # what went wrong says more than that something did
        self._go(_S.COMMITTING, "commit_transaction()")

    def begin_abort(self) -> None:
        self._go(_S.ABORTING, "abort_transaction()")
        self._to_add.clear()

    def ended(self, identity: Identity) -> None:
        """The transaction is over, and the next one is this identity's."""
        self._go(_S.READY, "ending the transaction")
        self.identity = identity
        self.error = None
        self.prepared = None
        self._clear()

    def check_send(self, what: str = "send()") -> None:
        """Raises where nothing can be added to a transaction now."""
        if self.state is not _S.IN_TRANSACTION:
            self._refuse(what)

    # -- failures --------------------------------------------------------------------------------------------------

    def abortable(self, error: MoldauError) -> bool:
        """The transaction cannot be committed any more; False where there is none, or it is being aborted anyhow."""
        if self.state not in SENDING:
            return False
        self._go(_S.ABORTABLE_ERROR, "failing")
        self.error = error
        self._to_add.clear()
        return True

    def fatal(self, error: MoldauError) -> bool:
        """The producer cannot go on; False where it could not before."""
        if self.state is _S.FATAL_ERROR:
            return False
        self.state = _S.FATAL_ERROR
        self.error = error
        self._to_add.clear()
        return True

    # -- partitions ------------------------------------------------------------------------------------------------

    def partition_seen(self, partition: TopicPartition) -> bool:
        """There are records for it. True where the coordinator has to be told of it first."""
        if self.state not in SENDING or self.sealed or partition in self._added or partition in self._to_add:
            return False
        if self.version >= 2:
            self._added.add(partition)
            self.started = True
            return False
        self._to_add[partition] = None
        return True

    def may_drain(self, partition: TopicPartition) -> bool:
        """Whether records for it may leave. What was under way goes on being sent while the transaction is aborted."""
        if self.sealed or partition not in self._added:
            return False
        return self.state in SENDING or self.state is _S.ABORTING

    def partitions_to_add(self) -> list[TopicPartition]:
        """Version 1: those that the coordinator was not told of yet."""
        return list(self._to_add) if self.state in SENDING else []

    def partitions_added(self, partitions: Iterable[TopicPartition]) -> None:
        """The coordinator has them."""
        self.started = True
        self.uncertain = False
        for one in partitions:
            if one in self._to_add:  # not where it failed or is aborted meanwhile
                del self._to_add[one]
                self._added.add(one)

    def seal(self) -> None:
        """Nothing more may leave: a record that came while the transaction was being ended is in none."""
        self.sealed = True

    def offsets_going(self) -> None:
        """Version 2: offsets are sent, and whatever comes of it, there may be a transaction now."""
        self.started = True
