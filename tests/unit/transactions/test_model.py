"""Random histories of producers, zombies, crashes, lost answers and full disks, checked against promises.

The model keeps the contents of each partition (open records per transaction, and how they ended) and the answers to
each producer. It does not know the coordinator's rules, only its promises.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from moldau.transactions.events import MarkersWritten, WriteMarkers
from moldau.transactions.states import TransactionState
from moldau.transactions.transaction import NO_TIMEOUT, Transaction
from moldau.wire.errors import ErrorCode
from moldau.wire.producer_identity import LAST_PRODUCER_EPOCH, ProducerIdentity
from moldau.wire.topic_partition import TopicPartition
from tests.unit.transactions.support import RULES, TIMEOUT_MS, Coordinator

NAMES = ("t", "u")
PARTITIONS = [("a", 0), ("a", 1), ("b", 0)]
names = st.sampled_from(NAMES)
versions = st.sampled_from([1, 2])


@dataclass
class Written:
    """A record of a transaction, in one partition."""

    name: str
    number: int
    """The number of the transaction of that id, counted by the model."""
    producer: ProducerIdentity
    committed: bool | None = None


@dataclass
class Partition:
    records: list[Written] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    """The log's latest epoch of each producer id."""

    def write(self, record: Written) -> bool:
        if record.producer.epoch < self.epochs.get(record.producer.producer_id, -1):
            return False
        self.epochs[record.producer.producer_id] = record.producer.epoch
        self.records.append(record)
        return True

    def mark(self, producer: ProducerIdentity, commit: bool) -> None:
        assert producer.epoch >= self.epochs.get(producer.producer_id, -1), "the log would refuse this marker"
        self.epochs[producer.producer_id] = producer.epoch
        for record in self.records:
            if record.producer.producer_id == producer.producer_id and record.committed is None:
                record.committed = commit


class Transactions(RuleBasedStateMachine):
    producers = Bundle("producers")

    def __init__(self) -> None:
        super().__init__()
        self.coordinator = Coordinator()
        self.partitions = {key: Partition() for key in PARTITIONS}
        self.latest: dict[str, ProducerIdentity] = {}
        """The last initialised producer by id. No other producer may change anything."""
        self.number = dict.fromkeys(NAMES, 0)
        self.promised: dict[tuple[str, int], bool] = {}
        """The result of EndTxn that each producer got."""
        self.told: set[ProducerIdentity] = set()
        self.shut_out: set[str] = set()
        """Ids whose transaction was aborted without a request of the producer: it must not continue."""

    # -- producers -------------------------------------------------------------------------------------------------

    @rule(target=producers, name=names, two_phase=st.booleans(), keep=st.booleans())
    def arrive(self, name: str, two_phase: bool, keep: bool):  # type: ignore[no-untyped-def]
        answer = self.coordinator.init(
            name, timeout_ms=NO_TIMEOUT if two_phase else TIMEOUT_MS, keep_prepared=two_phase and keep
        )
        if answer is None or answer.error != ErrorCode.NONE:
            return multiple()
        self.was_initialised_as(name, answer.identity)
        return (name, answer.identity)

    @rule(target=producers, producer=producers)
    def go_on_after_an_error(self, producer: tuple[str, ProducerIdentity]):  # type: ignore[no-untyped-def]
        name, identity = producer
        owner = self.latest.get(name)
        answer = self.coordinator.init(name, expected=identity)
        if answer is None or answer.error != ErrorCode.NONE:
            return multiple()
        assert owner is not None
        same = identity == owner or (identity.epoch + 1 == owner.epoch and identity.producer_id == owner.producer_id)
        assert same or (identity.epoch == LAST_PRODUCER_EPOCH and owner.epoch == 0), (
            f"{identity} came back past {owner}"
        )
        self.was_initialised_as(name, answer.identity, again=answer.identity == owner)
        return (name, answer.identity)

    def was_initialised_as(self, name: str, identity: ProducerIdentity, again: bool = False) -> None:
        if not again:
            assert identity not in self.told, f"{identity} was told twice"
        self.told.add(identity)
        self.latest[name] = identity
        self.shut_out.discard(name)

    @rule(producer=producers, index=st.sampled_from(PARTITIONS), version=versions)
    def write(self, producer: tuple[str, ProducerIdentity], index: TopicPartition, version: int) -> None:
        name, identity = producer
        before = self.found(name)
        answer = self.coordinator.add(identity, index, name=name, version=version)
        if answer == ErrorCode.NONE:
            self.check_owner(name, identity)
            assert before is not None
            if before.state is not TransactionState.ONGOING:
                self.number[name] += 1
        verified = self.coordinator.shard.verify(name, identity, [index])
        if verified == {index: ErrorCode.NONE}:
            self.check_owner(name, identity)
            self.partitions[index].write(Written(name, self.number[name], identity))

    @rule(name=names, index=st.sampled_from(PARTITIONS), version=versions)
    def the_owner_writes(self, name: str, index: TopicPartition, version: int) -> None:
        if name in self.latest:
            self.write((name, self.latest[name]), index, version)

    @rule(name=names, commit=st.booleans(), version=versions)
    def the_owner_ends(self, name: str, commit: bool, version: int) -> None:
        if name in self.latest:
            self.end_of((name, self.latest[name]), commit, version)

    @rule(target=producers, producer=consumes(producers), commit=st.booleans(), version=versions, heard=st.booleans())
    def end(self, producer: tuple[str, ProducerIdentity], commit: bool, version: int, heard: bool):  # type: ignore[no-untyped-def]
        told = self.end_of(producer, commit, version)
        return (producer[0], told) if told is not None and heard else producer

    def end_of(self, producer: tuple[str, ProducerIdentity], commit: bool, version: int) -> ProducerIdentity | None:
        name, identity = producer
        before, stored = self.found(name), len(self.coordinator.log)
        answer = self.coordinator.end(identity, commit, name=name, version=version)
        if answer is None or answer.error != ErrorCode.NONE:
            return None
        if len(self.coordinator.log) > stored:
            self.check_owner(name, identity)
            assert before is not None
            if before.state is TransactionState.ONGOING:
                assert self.promised.setdefault((name, self.number[name]), commit) is commit
            self.told.add(answer.identity)
            self.latest[name] = answer.identity
        elif before is not None:
            # No new decision: the answer repeats the earlier one.
            assert before.state is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
            if self.latest[name] == identity:
                self.latest[name] = answer.identity
                self.shut_out.discard(name)
            self.told.add(answer.identity)
        return answer.identity

    def check_owner(self, name: str, identity: ProducerIdentity) -> None:
        assert identity == self.latest[name], f"{identity} acted although {self.latest[name]} was initialised"
        assert name not in self.shut_out, f"{identity} acted although its transaction was aborted"

    def found(self, name: str) -> Transaction | None:
        return self.coordinator.shard.transactions.get(name)

    # -- environment -----------------------------------------------------------------------------------------------

    @rule(many=st.integers(0, 3))
    def some_markers_are_written(self, many: int) -> None:
        """Partition by partition. The coordinator gets the result when all partitions have their marker."""
        for markers in list(self.coordinator.effects):
            for index in sorted(markers.partitions)[:many]:
                self.mark(markers, index)

    @rule()
    def all_markers_are_written(self) -> None:
        effects, self.coordinator.effects = self.coordinator.effects, []
        for markers in effects:
            if not self.is_wanted(markers):
                continue
            for index in markers.partitions:
                self.mark(markers, index)
            self.coordinator.feed(MarkersWritten(markers))
            if self.coordinator.fails_to_store:
                self.coordinator.effects.append(markers)

    def mark(self, markers: WriteMarkers, index: TopicPartition) -> None:
        if self.is_wanted(markers):
            self.partitions[index].mark(markers.producer, markers.commit)

    def is_wanted(self, markers: WriteMarkers) -> bool:
        """The broker writes a marker once and asks the shard before it starts again."""
        found = self.found(markers.transactional_id)
        return found is not None and found.state.ending and found.producer_id == markers.producer.producer_id

    @rule(ms=st.sampled_from([1, 1_000, RULES.abort_check_ms, TIMEOUT_MS]))
    def time_passes(self, ms: int) -> None:
        self.coordinator.pass_time(ms)

    @rule()
    def the_coordinator_crashes(self) -> None:
        self.coordinator.fails_to_store = False
        self.coordinator.crash()

    @rule(fails=st.booleans())
    def the_disk_fills_or_is_freed(self, fails: bool) -> None:
        self.coordinator.fails_to_store = fails

    @rule(name=names)
    def an_id_is_near_its_last_epoch(self, name: str) -> None:
        found = self.found(name)
        if (
            found is not None
            and found.state is TransactionState.EMPTY
            and found.producer_epoch < LAST_PRODUCER_EPOCH - 3
        ):
            self.coordinator.put(replace(found, producer_epoch=LAST_PRODUCER_EPOCH - 2))
            self.latest[name] = self.coordinator.found(name).identity

    # -- invariants ------------------------------------------------------------------------------------------------

    @invariant()
    def an_unrequested_abort_fences_its_producer(self) -> None:
        for name in NAMES:
            found = self.found(name)
            aborted = found is not None and found.state is TransactionState.PREPARE_ABORT and found.partitions
            if aborted and (name, self.number[name]) not in self.promised:
                self.shut_out.add(name)

    @invariant()
    def the_log_has_the_current_state(self) -> None:
        assert self.coordinator.replayed().transactions == self.coordinator.shard.transactions

    @invariant()
    def no_transaction_is_half_visible(self) -> None:
        ends: dict[tuple[str, int], bool] = dict(self.promised)
        for partition in self.partitions.values():
            for record in partition.records:
                if record.committed is not None:
                    key = (record.name, record.number)
                    assert ends.setdefault(key, record.committed) is record.committed

    @invariant()
    def every_commit_was_requested(self) -> None:
        for partition in self.partitions.values():
            for record in partition.records:
                if record.committed:
                    assert self.promised.get((record.name, record.number)) is True

    def teardown(self) -> None:
        """From any state: when the disk works, time passes and a producer initialises, no transaction stays open."""
        self.coordinator.fails_to_store = False
        self.coordinator.sleep_through(TIMEOUT_MS + RULES.abort_check_ms)
        self.all_markers_are_written()
        for name in NAMES:
            if self.found(name) is not None:
                if self.coordinator.init(name).error == ErrorCode.CONCURRENT_TRANSACTIONS:
                    self.all_markers_are_written()
                    assert self.coordinator.init(name).error == ErrorCode.NONE
                assert self.coordinator.found(name).state is TransactionState.EMPTY
        self.no_transaction_is_half_visible()
        self.every_commit_was_requested()
        for partition in self.partitions.values():
            assert all(record.committed is not None for record in partition.records), "a reader would wait forever"


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(stateful_step_count=40)
