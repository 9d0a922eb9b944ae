"""Transaction states, with Kafka's numbers and names, and every allowed transition.

    Empty ──► Ongoing ──► PrepareCommit ──► CompleteCommit ─┐
      ▲          │                                          │
      │          └──(fence)─► PrepareAbort ──► CompleteAbort ┤
      └─────────────────────────────────────────────────────┘ a new producer, or the next transaction

A decision (Prepare) is stored before the first marker is written, so after a crash the log shows the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class TransactionState(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """The transactional id expired; stored as a tombstone."""
    PREPARE_EPOCH_FENCE = 7
    """Between the decision to fence the producer of a transaction and the abort; never stored."""

    @property
    def label(self) -> str:
        """The name in the protocol, for example `CompleteCommit`."""
        return _LABELS[self]

    @property
    def ending(self) -> bool:
        """Whether the end is decided and markers may be missing."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def at_rest(self) -> bool:
        """Whether no transaction is open: one may begin, a new producer may take over, or the id may expire."""
        return self in AT_REST


_LABELS = {state: state.name.title().replace("_", "") for state in TransactionState}
BY_LABEL: Mapping[str, TransactionState] = {label: state for state, label in _LABELS.items()}

_S = TransactionState
AT_REST = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})

TRANSITIONS: Mapping[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT}),
    _S.COMPLETE_COMMIT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.COMPLETE_ABORT: frozenset({_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD}),
    _S.DEAD: frozenset(),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.PREPARE_ABORT}),
}
"""The allowed next states of each state. The transition from Empty or Complete to PrepareAbort, without a transaction,
gives a producer of transaction version 2 a new epoch when it cannot know whether a transaction was begun."""
