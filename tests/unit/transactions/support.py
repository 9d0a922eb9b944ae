"""A transaction coordinator without a broker: a shard, its log, and simulated crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.coordinator.outcome import CoordinatorOutcome, TimerFired
from moldau.transactions.events import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    ProducerInitialised,
    TransactionEnded,
    WriteMarkers,
)
from moldau.transactions.shard import TransactionShard, TransactionTimer, TxnShardSettings
from moldau.transactions.states import TransactionState
from moldau.transactions.transaction import Transaction, encode_key, encode_value
from moldau.wire.errors import ErrorCode
from moldau.wire.producer_identity import ProducerIdentity
from moldau.wire.topic_partition import TopicPartition

TIMEOUT_MS = 60_000
RULES = TxnShardSettings(
    abort_check_ms=10_000, expiry_check_ms=3_600_000, expiration_ms=604_800_000, two_phase_max_age_ms=86_400_000
)


class Coordinator:
    """Runs one shard like a broker: store, replay, then answer. Markers are written when the test says so."""

    def __init__(self, next_id: int = 1000, rules: TxnShardSettings = RULES) -> None:
        self.rules = rules
        self.now_ms = 1_000_000
        self.next_id = next_id
        self.out_of_ids = False
        self.log: list[tuple[bytes, bytes | None]] = []
        self.fails_to_store = False
        self.effects: list[WriteMarkers] = []
        self.timers: dict[Any, int] = {}
        self.shard = TransactionShard(lambda: self.rules, self.take_id)
        self._carry_out(self.shard.loaded(self.now_ms))

    def take_id(self) -> int | None:
        if self.out_of_ids:
            return None
        self.next_id += 1
        return self.next_id - 1

    # -- running ---------------------------------------------------------------------------------------------------

    def feed(self, event: Any) -> Any:
        """The answer, or None if the decision could not be stored or has no answer."""
        before = dict(self.shard.transactions)
        outcome = self.shard.step(self.now_ms, event)
        assert self.shard.transactions == before, "a step has changed state that only a replay may change"
        return self._carry_out(outcome)

    def _carry_out(self, outcome: CoordinatorOutcome) -> Any:
        self.timers |= {key: at for key, at in outcome.timers if at is not None}
        if outcome.records and self.fails_to_store:
            return None
        for key, value in outcome.records:
            self.log.append((key, value))
            self.shard.replay(key, value)
        self.effects += outcome.effects
        return outcome.replies[0][1] if outcome.replies else None

    def crash(self) -> None:
        """Restart the coordinator with its log only."""
        self.effects.clear()
        self.timers.clear()
        self.shard = self.replayed()
        self._carry_out(self.shard.loaded(self.now_ms))

    def replayed(self) -> TransactionShard:
        shard = TransactionShard(lambda: self.rules, self.take_id)
        for key, value in self.log:
            shard.replay(key, value)
        return shard

    def pass_time(self, ms: int) -> None:
        """Move the clock, and fire every timer when it is due."""
        end = self.now_ms + ms
        while self.timers and min(self.timers.values()) <= end:
            key = min(self.timers, key=self.timers.__getitem__)
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.feed(TimerFired(key))
        self.now_ms = end

    def sleep_through(self, ms: int) -> None:
        """Move the clock without firing timers before the end."""
        self.now_ms += ms
        self.pass_time(0)

    def fire_timeouts(self) -> None:
        self.feed(TimerFired(TransactionTimer.TIMEOUTS))

    def write_markers(self) -> list[WriteMarkers]:
        """Write every requested marker."""
        done, self.effects = self.effects, []
        for markers in done:
            self.feed(MarkersWritten(markers))
        return done

    # -- requests --------------------------------------------------------------------------------------------------

    def init(
        self,
        name: str = "t",
        *,
        expected: ProducerIdentity | None = None,
        timeout_ms: int = TIMEOUT_MS,
        keep_prepared: bool = False,
    ) -> ProducerInitialised:
        return self.feed(InitProducer("ticket", name, timeout_ms, expected, keep_prepared))  # type: ignore[no-any-return]

    def add(
        self, identity: ProducerIdentity, *partitions: TopicPartition, name: str = "t", version: int = 2
    ) -> ErrorCode:
        return self.feed(AddPartitions("ticket", name, identity, frozenset(partitions), version))  # type: ignore[no-any-return]

    def end(self, identity: ProducerIdentity, commit: bool, *, name: str = "t", version: int = 2) -> TransactionEnded:
        return self.feed(EndTransaction("ticket", name, identity, commit, version))  # type: ignore[no-any-return]

    def commit(self, identity: ProducerIdentity, **options: Any) -> TransactionEnded:
        return self.end(identity, True, **options)

    def abort(self, identity: ProducerIdentity, **options: Any) -> TransactionEnded:
        return self.end(identity, False, **options)

    # -- setup -----------------------------------------------------------------------------------------------------

    def found(self, name: str = "t") -> Transaction:
        return self.shard.transactions[name]

    def put(self, transaction: Transaction) -> None:
        key, value = encode_key(transaction.transactional_id), encode_value(transaction)
        self.log.append((key, value))
        self.shard.replay(key, value)

    def producer(self, name: str = "t", **options: Any) -> ProducerIdentity:
        """An initialised producer."""
        answer = self.init(name, **options)
        assert answer.error == ErrorCode.NONE
        return answer.identity


def in_state(state: TransactionState, *, epoch: int = 5, version: int = 2, name: str = "t") -> Transaction:
    """A transaction in this state, as a coordinator stores it."""
    busy = state in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
    return Transaction(
        name,
        42,
        epoch,
        TIMEOUT_MS,
        state,
        frozenset({("a", 0), ("b", 1)}) if busy else frozenset(),
        start_ms=900_000 if busy else -1,
        last_update_ms=900_000,
        client_version=version,
    )


Check = Callable[[Coordinator], None]
