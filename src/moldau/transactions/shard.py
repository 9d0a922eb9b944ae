"""Transaction coordinator shard: the transactional ids of one partition of `__transaction_state`.

`step` decides; transactions change only by `replay`. In addition, a shard remembers in memory which epoch may repeat
its request (`_repeatable`). A producer that retries a request across a restart of the coordinator is fenced and must
initialise again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, assert_never

from moldau.coordinator.outcome import CoordinatorOutcome, TimerFired
from moldau.host.event_log import event_logger
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
from moldau.transactions.transaction import Transaction, decode_key, decode_value, encode_key, encode_value
from moldau.wire.errors import ErrorCode, WireError
from moldau.wire.producer_identity import NO_PRODUCER_EPOCH, ProducerIdentity
from moldau.wire.topic_partition import TopicPartition

log = event_logger(__name__)

TOMBSTONES_A_STEP = 1_000
"""Maximum number of ids to expire in one batch; the next batch follows at once."""
ABORTS_A_STEP = 1_000


class TransactionTimer(Enum):
    """The timers of a shard."""

    TIMEOUTS = "timeouts"
    """The next check for transactions that have timed out, and for missing markers, is due."""
    EXPIRY = "expiry"
    """The next check for expired transactional ids is due."""


TransactionEvent = InitProducer | AddPartitions | EndTransaction | MarkersWritten | TimerFired[TransactionTimer]


class TxnShardSettings(NamedTuple):
    """The settings of a shard."""

    abort_check_ms: int
    expiry_check_ms: int
    expiration_ms: int
    two_phase_max_age_ms: int


class TransactionShard:
    def __init__(self, rules: Callable[[], TxnShardSettings], take_id: TakeId) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._rules = rules
        self._take_id = take_id
        self._ongoing: dict[str, None] = {}
        self._ending: dict[str, None] = {}
        self._repeatable: dict[str, tuple[ProducerIdentity, int]] = {}
        """By transactional id: the identity that its producer received, and the epoch before it. Valid while that is
        still the current identity."""

    # -- stored state ----------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> None:
        try:
            transactional_id = decode_key(key)
            if transactional_id is None:
                return
            transaction = None if value is None else decode_value(transactional_id, value)
        except WireError as error:
            log.error("a transaction record cannot be read and is skipped", extra={"reason": str(error)})
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
        """Does nothing: records in this topic are never written in a transaction, so such a record is ignored."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Does nothing, as above."""

    def loaded(self, now_ms: int) -> CoordinatorOutcome:
        """After loading: write the missing markers of decided transactions, and start the timers."""
        outcome = CoordinatorOutcome()
        outcome.effects += self._missing_markers()
        rules = self._rules()
        outcome.timers = [
            (TransactionTimer.TIMEOUTS, now_ms + rules.abort_check_ms),
            (TransactionTimer.EXPIRY, now_ms + rules.expiry_check_ms),
        ]
        return outcome

    # -- deciding --------------------------------------------------------------------------------------------------

    def step(self, now_ms: int, event: TransactionEvent) -> CoordinatorOutcome:
        match event:
            case InitProducer():
                return self._init_producer(now_ms, event)
            case AddPartitions():
                return self._add_partitions(now_ms, event)
            case EndTransaction():
                return self._end(now_ms, event)
            case MarkersWritten():
                return self._markers_written(now_ms, event)
            case TimerFired():
                return self._timer_fired(now_ms, event.key)
            case _:
                assert_never(event)

    def _init_producer(self, now_ms: int, event: InitProducer) -> CoordinatorOutcome:
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
        outcome = CoordinatorOutcome()
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

    def _add_partitions(self, now_ms: int, event: AddPartitions) -> CoordinatorOutcome:
        outcome = CoordinatorOutcome()
        found = self.transactions.get(event.transactional_id)
        decision: Transaction | ErrorCode = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if found is not None:
            decision = decisions.add_partitions(found, event.identity, event.partitions, event.client_version, now_ms)
        if isinstance(decision, Transaction):
            _store(outcome, decision)
            decision = ErrorCode.NONE
        outcome.replies.append((event.ticket, decision))
        return outcome

    def _end(self, now_ms: int, event: EndTransaction) -> CoordinatorOutcome:
        outcome = CoordinatorOutcome()
        found = self.transactions.get(event.transactional_id)
        decision: decisions.EndDecision | ErrorCode = ErrorCode.INVALID_PRODUCER_ID_MAPPING
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

    def _markers_written(self, now_ms: int, event: MarkersWritten) -> CoordinatorOutcome:
        outcome = CoordinatorOutcome()
        found = self.transactions.get(event.markers.transactional_id)
        # This may be a duplicate, or about a transaction that was decided before the coordinator moved. Only the
        # transaction that waits for exactly these markers is completed.
        if found is not None and found.state.ending and _markers(found) == event.markers:
            _store(outcome, decisions.complete(found, now_ms))
        return outcome

    # -- timers ----------------------------------------------------------------------------------------------------

    def _timer_fired(self, now_ms: int, timer: TransactionTimer) -> CoordinatorOutcome:
        match timer:
            case TransactionTimer.TIMEOUTS:
                return self._abort_timed_out(now_ms)
            case TransactionTimer.EXPIRY:
                return self._forget_expired(now_ms)

    def _abort_timed_out(self, now_ms: int) -> CoordinatorOutcome:
        outcome = CoordinatorOutcome()
        max_age_ms = self._rules().two_phase_max_age_ms
        late = [one for name in self._ongoing if (one := self.transactions[name]).timed_out(now_ms, max_age_ms)]
        for found in late[:ABORTS_A_STEP]:
            log.info(
                "transaction timed out and is aborted",
                extra={"transactional_id": found.transactional_id, "producer_id": found.producer_id},
            )
            _store(outcome, decisions.fence(found, now_ms))
        # Request missing markers again on each check: an earlier attempt to write them may have failed.
        outcome.effects += self._missing_markers()
        again_ms = 0 if len(late) > ABORTS_A_STEP else self._rules().abort_check_ms
        outcome.timers.append((TransactionTimer.TIMEOUTS, now_ms + again_ms))
        return outcome

    def _forget_expired(self, now_ms: int) -> CoordinatorOutcome:
        outcome = CoordinatorOutcome()
        rules = self._rules()
        expired = [name for name, one in self.transactions.items() if one.expired(now_ms, rules.expiration_ms)]
        outcome.records = [(encode_key(name), None) for name in expired[:TOMBSTONES_A_STEP]]
        again_ms = 0 if len(expired) > TOMBSTONES_A_STEP else rules.expiry_check_ms
        outcome.timers.append((TransactionTimer.EXPIRY, now_ms + again_ms))
        return outcome

    # -- queries ---------------------------------------------------------------------------------------------------

    def verify(
        self, transactional_id: str, identity: ProducerIdentity, partitions: Iterable[TopicPartition]
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

    # -- state in memory -------------------------------------------------------------------------------------------

    def _remember(self, transaction: Transaction, last_epoch: int) -> None:
        """Remember which epoch may repeat its request. The entry is tied to the identity in the record: if the record
        is not stored, the entry has no effect."""
        if last_epoch == NO_PRODUCER_EPOCH:
            self._repeatable.pop(transaction.transactional_id, None)
        else:
            self._repeatable[transaction.transactional_id] = (transaction.identity, last_epoch)

    def _repeatable_epoch(self, found: Transaction) -> int:
        identity, epoch = self._repeatable.get(found.transactional_id, (None, NO_PRODUCER_EPOCH))
        return epoch if identity == found.identity else NO_PRODUCER_EPOCH


class Query(NamedTuple):
    """A filter for ListTransactions; empty and negative fields match everything."""

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


def _store(outcome: CoordinatorOutcome, transaction: Transaction) -> None:
    outcome.records.append((encode_key(transaction.transactional_id), encode_value(transaction)))
    if transaction.state.ending:
        outcome.effects.append(_markers(transaction))


def _markers(transaction: Transaction) -> WriteMarkers:
    return WriteMarkers(
        transaction.transactional_id,
        ProducerIdentity(transaction.producer_id, transaction.producer_epoch),
        transaction.committing,
        transaction.partitions,
        transaction.client_version,
    )
