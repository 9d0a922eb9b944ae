"""One shard of the transaction coordinator: the transactional ids of one partition of `__transaction_state`.

`step` decides, `replay` is the only way that a transaction changes. Beside the transactions a shard remembers, until it
is unloaded, which epoch may repeat its request (`_repeatable`); a producer that repeats one across a restart of the
coordinator is told that it is fenced, and starts anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from moldau.groups.outcome import Outcome, TimerFired
from moldau.transactions import decisions
from moldau.transactions.decisions import EPOCH_A_TRANSACTION, TakeId
from moldau.transactions.events import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerInitialised,
    TransactionEnded,
    WriteMarkers,
)
from moldau.transactions.states import TransactionState
from moldau.transactions.transaction import (
    NO_EPOCH,
    Identity,
    TopicPartition,
    Transaction,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from moldau.wire.errors import ErrorCode, WireError

log = logging.getLogger(__name__)

TIMEOUTS = "time-outs"
EXPIRY = "expiry"
"""The two timers of a shard."""

TOMBSTONES_A_STEP = 1_000
"""Ids forgotten in one batch; the rest follow at once in the next."""
ABORTS_A_STEP = 1_000


class Rules(NamedTuple):
    """The settings that a shard goes by."""

    abort_check_ms: int
    expiry_check_ms: int
    expiration_ms: int
    two_phase_max_age_ms: int


class TransactionShard:
    def __init__(self, rules: Callable[[], Rules], take_id: TakeId) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._rules = rules
        self._take_id = take_id
        self._ongoing: dict[str, None] = {}
        self._ending: dict[str, None] = {}
        self._repeatable: dict[str, tuple[Identity, int]] = {}
        """By id: who its producer was told to be, and the epoch it had before. Holds while that is its identity."""

    # -- what is stored --------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        try:
            transactional_id = decode_key(key)
            if transactional_id is None:
                return
            transaction = None if value is None else decode_value(transactional_id, value)
        except WireError as error:
            log.error("a record of a transaction cannot be read and is passed over", extra={"reason": str(error)})
            return
        self._ongoing.pop(transactional_id, None)
        self._ending.pop(transactional_id, None)
        if transaction is None or transaction.state is TransactionState.DEAD:
            self.transactions.pop(transactional_id, None)
            self._repeatable.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
        elif transaction.state.ending:
            self._ending[transactional_id] = None

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        """Nobody writes to this topic within a transaction; what is found there counts for nothing."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """As above."""

    def loaded(self, now_ms: int) -> Outcome:
        """Finish what was decided and not completed; begin to look at the clock."""
        outcome = Outcome()
        outcome.effects += self._missing_markers()
        rules = self._rules()
        outcome.timers = [(TIMEOUTS, now_ms + rules.abort_check_ms), (EXPIRY, now_ms + rules.expiry_check_ms)]
        return outcome

    # -- deciding --------------------------------------------------------------------------------------------------

    def step(self, now_ms: int, event: Any) -> Outcome:
        return _STEPS[type(event)](self, now_ms, event)

    def _init_producer(self, now_ms: int, event: InitProducer) -> Outcome:
        found = self.transactions.get(event.transactional_id)
        if found is None:
            decision = decisions.first_producer(event.transactional_id, event.timeout_ms, now_ms, self._take_id)
        else:
            decision = decisions.initialise(
                found,
                event.expected,
                self._repeatable_epoch(found),
                event.timeout_ms,
                event.keep_prepared,
                now_ms,
                self._take_id,
            )
        outcome = Outcome()
        if isinstance(decision, ErrorCode):
            outcome.replies.append((event.ticket, ProducerInitialised(decision)))
            return outcome
        _store(outcome, decision.transaction)
        self._remember(decision.transaction, decision.last_epoch)
        if decision.fenced:
            answer = ProducerInitialised(ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            answer = ProducerInitialised(ErrorCode.NONE, decision.transaction.identity, decision.ongoing)
        outcome.replies.append((event.ticket, answer))
        return outcome

    def _add_partitions(self, now_ms: int, event: AddPartitions) -> Outcome:
        outcome = Outcome()
        found = self.transactions.get(event.transactional_id)
        decision: Transaction | ErrorCode = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if found is not None:
            decision = decisions.add_partitions(found, event.identity, event.partitions, event.client_version, now_ms)
        if isinstance(decision, Transaction):
            _store(outcome, decision)
            decision = ErrorCode.NONE
        outcome.replies.append((event.ticket, decision))
        return outcome

    def _end(self, now_ms: int, event: EndTransaction) -> Outcome:
        outcome = Outcome()
        found = self.transactions.get(event.transactional_id)
        decision: decisions.Ended | ErrorCode = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if found is not None:
            decision = decisions.end(found, event.identity, event.commit, event.client_version, now_ms, self._take_id)
        if isinstance(decision, ErrorCode):
            outcome.replies.append((event.ticket, TransactionEnded(decision)))
            return outcome
        if decision.transaction is not None:
            _store(outcome, decision.transaction)
            if event.client_version >= EPOCH_A_TRANSACTION:
                self._remember(decision.transaction, event.identity.epoch)
        outcome.replies.append((event.ticket, TransactionEnded(ErrorCode.NONE, decision.identity)))
        return outcome

    def _markers_written(self, now_ms: int, event: MarkersWritten) -> Outcome:
        outcome = Outcome()
        found = self.transactions.get(event.markers.transactional_id)
        # Told twice, or about a transaction that was decided before the coordinator moved: only the one that waits
        # for exactly these markers goes on.
        if found is not None and found.state.ending and _markers(found) == event.markers:
            _store(outcome, decisions.complete(found, now_ms))
        return outcome

    # -- time ------------------------------------------------------------------------------------------------------

    def _timer_fired(self, now_ms: int, event: TimerFired) -> Outcome:
        return self._abort_timed_out(now_ms) if event.key == TIMEOUTS else self._forget_expired(now_ms)

    def _abort_timed_out(self, now_ms: int) -> Outcome:
        outcome = Outcome()
        max_age_ms = self._rules().two_phase_max_age_ms
        late = [one for name in self._ongoing if (one := self.transactions[name]).timed_out(now_ms, max_age_ms)]
        for found in late[:ABORTS_A_STEP]:
            log.info(
                "transaction timed out and is aborted",
                extra={"transactional_id": found.transactional_id, "producer_id": found.producer_id},
            )
            _store(outcome, decisions.fence(found, now_ms))
        # Markers are asked for again as long as they are missing: somebody may have failed to carry that out.
        outcome.effects += self._missing_markers()
        again_ms = 0 if len(late) > ABORTS_A_STEP else self._rules().abort_check_ms
        outcome.timers.append((TIMEOUTS, now_ms + again_ms))
        return outcome

    def _forget_expired(self, now_ms: int) -> Outcome:
        outcome = Outcome()
        rules = self._rules()
        expired = [name for name, one in self.transactions.items() if one.expired(now_ms, rules.expiration_ms)]
        outcome.records = [(encode_key(name), None) for name in expired[:TOMBSTONES_A_STEP]]
        again_ms = 0 if len(expired) > TOMBSTONES_A_STEP else rules.expiry_check_ms
        outcome.timers.append((EXPIRY, now_ms + again_ms))
        return outcome

    # -- looking ---------------------------------------------------------------------------------------------------

    def verify(
        self, transactional_id: str, identity: Identity, partitions: Iterable[TopicPartition]
    ) -> ErrorCode | Mapping[TopicPartition, ErrorCode]:
        """Whether partitions are part of the open transaction of this producer."""
        found = self.transactions.get(transactional_id)
        if found is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return decisions.verify(found, identity, partitions)

    def matching(self, query: Query, now_ms: int) -> Iterator[Transaction]:
        return (one for one in self.transactions.values() if query.takes(one, now_ms))

    def _missing_markers(self) -> list[WriteMarkers]:
        return [_markers(self.transactions[name]) for name in self._ending]

    # -- soft state ------------------------------------------------------------------------------------------------

    def _remember(self, transaction: Transaction, last_epoch: int) -> None:
        """Who may repeat. Tied to the identity that the record gives: if it is not stored, this counts for nothing."""
        if last_epoch == NO_EPOCH:
            self._repeatable.pop(transaction.transactional_id, None)
        else:
            self._repeatable[transaction.transactional_id] = (transaction.identity, last_epoch)

    def _repeatable_epoch(self, found: Transaction) -> int:
        identity, epoch = self._repeatable.get(found.transactional_id, (None, NO_EPOCH))
        return epoch if identity == found.identity else NO_EPOCH


class Query(NamedTuple):
    """Which transactions to list; what is empty or negative does not narrow."""

    states: frozenset[TransactionState] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    longer_than_ms: int = -1
    id_matches: Callable[[str], object] | None = None

    def takes(self, one: Transaction, now_ms: int) -> bool:
        return (
            (not self.states or one.state in self.states)
            and (not self.producer_ids or one.producer_id in self.producer_ids)
            and (self.longer_than_ms < 0 or (one.start_ms >= 0 and now_ms - one.start_ms > self.longer_than_ms))
            and (self.id_matches is None or bool(self.id_matches(one.transactional_id)))
        )


def _store(outcome: Outcome, transaction: Transaction) -> None:
    outcome.records.append((encode_key(transaction.transactional_id), encode_value(transaction)))
    if transaction.state.ending:
        outcome.effects.append(_markers(transaction))


def _markers(transaction: Transaction) -> WriteMarkers:
    return WriteMarkers(
        transaction.transactional_id,
        Identity(transaction.producer_id, transaction.producer_epoch),
        transaction.committing,
        transaction.partitions,
        transaction.client_version,
    )


_STEPS: Mapping[type[Any], Callable[[TransactionShard, int, Any], Outcome]] = {
    InitProducer: TransactionShard._init_producer,
    AddPartitions: TransactionShard._add_partitions,
    EndTransaction: TransactionShard._end,
    MarkersWritten: TransactionShard._markers_written,
    TimerFired: TransactionShard._timer_fired,
}
