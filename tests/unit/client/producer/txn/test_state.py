"""States of a producer's transactions: the order of calls, and when records may be sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from moldau.client.data_types import TopicPartition
from moldau.client.errors import IllegalStateError, MoldauError, ProducerFenced, RecordTooLarge, error_for
from moldau.client.producer.txn.prepared import PreparedTransaction
from moldau.client.producer.txn.state import ADVICE, SENDING, TRANSITIONS, ProducerTxnState, TransactionMachine
from moldau.wire.errors import ErrorCode
from moldau.wire.producer_identity import NO_IDENTITY, ProducerIdentity

S = ProducerTxnState
HERE = TopicPartition("orders", 0)
THERE = TopicPartition("orders", 1)
FIRST = ProducerIdentity(7, 0)


def machine_in(state: ProducerTxnState, version: int = 2) -> TransactionMachine:
    """A state machine that reached this state by the calls of a producer."""
    machine = TransactionMachine("id")
    ways: dict[ProducerTxnState, list[Callable[[], object]]] = {
        S.UNINITIALISED: [],
        S.INITIALISING: [machine.begin_init],
        S.READY: [machine.begin_init, lambda: machine.initialised(FIRST, version)],
    }
    ways[S.IN_TRANSACTION] = [*ways[S.READY], machine.begin]
    ways[S.PREPARING] = [*ways[S.IN_TRANSACTION], machine.begin_prepare]
    ways[S.PREPARED] = [*ways[S.PREPARING], machine.is_prepared]
    ways[S.COMMITTING] = [*ways[S.IN_TRANSACTION], machine.begin_commit]
    ways[S.ABORTING] = [*ways[S.IN_TRANSACTION], machine.begin_abort]
    ways[S.ABORTABLE_ERROR] = [*ways[S.IN_TRANSACTION], lambda: machine.abortable(too_large())]
    ways[S.FATAL_ERROR] = [*ways[S.IN_TRANSACTION], lambda: machine.fatal(fenced())]
    for step in ways[state]:
        step()
    assert machine.state is state
    return machine


def too_large() -> MoldauError:
    return error_for(ErrorCode.MESSAGE_TOO_LARGE, "sending a record")


def fenced() -> MoldauError:
    return error_for(ErrorCode.PRODUCER_FENCED, "committing")


CALLS: dict[str, tuple[Callable[[TransactionMachine], object], set[ProducerTxnState]]] = {
    # for each call: the states in which it is allowed
    "init_transactions": (TransactionMachine.begin_init, {S.UNINITIALISED, S.INITIALISING}),
    "begin_transaction": (TransactionMachine.begin, {S.READY}),
    "send": (TransactionMachine.check_send, {S.IN_TRANSACTION}),
    "prepare_transaction": (TransactionMachine.begin_prepare, {S.IN_TRANSACTION, S.PREPARING}),
    "commit_transaction": (TransactionMachine.begin_commit, {S.IN_TRANSACTION, S.PREPARED, S.COMMITTING}),
    "abort_transaction": (
        TransactionMachine.begin_abort,
        {S.IN_TRANSACTION, S.PREPARING, S.PREPARED, S.ABORTING, S.ABORTABLE_ERROR},
    ),
}


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("name", CALLS)
def test_each_call_is_allowed_in_its_states_and_refused_with_advice_in_all_others(
    name: str, state: ProducerTxnState
) -> None:
    call, allowed = CALLS[name]
    machine = machine_in(state)
    if state in allowed:
        call(machine)
        return
    with pytest.raises(MoldauError) as refusal:
        call(machine)
    assert machine.state is state
    if state is S.FATAL_ERROR:
        assert isinstance(refusal.value, ProducerFenced)
    elif state is S.ABORTABLE_ERROR and name == "commit_transaction":
        assert isinstance(refusal.value, RecordTooLarge)  # the error names the cause, not only the state
    else:
        assert isinstance(refusal.value, IllegalStateError)
        assert ADVICE[state] in str(refusal.value)


def test_the_table_has_every_state_and_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS) == set(ADVICE) == set(S)
    reached = {state for following in TRANSITIONS.values() for state in following} | {S.UNINITIALISED}
    assert reached == set(S)
    assert [state for state, following in TRANSITIONS.items() if not following] == [S.FATAL_ERROR]


def test_a_commit_that_may_have_happened_cannot_become_an_abort() -> None:
    machine = machine_in(S.COMMITTING)
    with pytest.raises(IllegalStateError, match="it may have happened already"):
        machine.begin_abort()
    machine.begin_commit()


@pytest.mark.parametrize("state", S)
def test_an_error_of_records_fails_the_transaction_that_they_are_in_and_no_other(state: ProducerTxnState) -> None:
    machine = machine_in(state)
    was_open = state in SENDING
    assert machine.abortable(too_large()) is was_open
    assert machine.state is (S.ABORTABLE_ERROR if was_open else state)


@pytest.mark.parametrize("state", S)
def test_a_fatal_error_ends_everything_once(state: ProducerTxnState) -> None:
    machine = machine_in(state)
    assert machine.fatal(fenced()) is (state is not S.FATAL_ERROR)
    assert machine.state is S.FATAL_ERROR


# Partitions -----------------------------------------------------------------------------------------------------------


def test_in_version_1_records_leave_after_the_coordinator_knows_their_partition() -> None:
    machine = machine_in(S.IN_TRANSACTION, version=1)
    assert machine.partition_seen(HERE)
    assert not machine.partition_seen(HERE)  # already requested
    assert not machine.may_drain(HERE)
    assert not machine.started
    assert machine.partitions_to_add() == [HERE]
    machine.partitions_added([HERE])
    assert machine.may_drain(HERE) and not machine.may_drain(THERE)
    assert machine.started
    assert machine.partitions_to_add() == []


def test_in_version_2_records_are_sent_at_once_and_start_the_transaction() -> None:
    machine = machine_in(S.IN_TRANSACTION, version=2)
    assert not machine.partition_seen(HERE)
    assert machine.may_drain(HERE)
    assert machine.started


def test_an_answer_after_the_abort_adds_no_partition() -> None:
    machine = machine_in(S.IN_TRANSACTION, version=1)
    machine.partition_seen(HERE)
    machine.begin_abort()
    machine.partitions_added([HERE])
    assert not machine.may_drain(HERE)


@pytest.mark.parametrize("state", [S.READY, S.PREPARED, S.ABORTABLE_ERROR, S.FATAL_ERROR])
def test_records_without_a_transaction_are_not_sent(state: ProducerTxnState) -> None:
    machine = machine_in(state)
    assert not machine.partition_seen(HERE)
    assert not machine.may_drain(HERE)


def test_records_that_lingered_leave_while_the_transaction_is_committed_until_it_is_sealed() -> None:
    machine = machine_in(S.COMMITTING)
    machine.partition_seen(HERE)
    assert machine.may_drain(HERE)
    machine.seal()
    machine.partition_seen(THERE)
    assert not machine.may_drain(HERE) and not machine.may_drain(THERE)


def test_the_next_transaction_starts_without_state_of_the_previous_one() -> None:
    machine = machine_in(S.IN_TRANSACTION)
    machine.partition_seen(HERE)
    machine.begin_commit()
    machine.seal()
    machine.ended(ProducerIdentity(7, 1))
    machine.begin()
    assert machine.identity == ProducerIdentity(7, 1)
    assert not machine.started and not machine.sealed and not machine.may_drain(HERE)


# Prepared transactions ------------------------------------------------------------------------------------------------


def test_a_prepared_transaction_has_a_name_for_other_processes() -> None:
    machine = machine_in(S.IN_TRANSACTION)
    machine.partition_seen(HERE)
    machine.begin_prepare()
    prepared = machine.is_prepared()
    assert prepared == PreparedTransaction("id", 7, 0)
    assert not prepared.empty
    assert PreparedTransaction.parse(str(prepared)) == prepared


def test_a_transaction_without_records_is_prepared_as_nothing() -> None:
    machine = machine_in(S.PREPARING)
    assert machine.is_prepared().empty


def test_a_kept_transaction_has_to_be_ended_first() -> None:
    machine = machine_in(S.INITIALISING)
    machine.initialised(ProducerIdentity(7, 4), 2, kept=ProducerIdentity(7, 3))
    assert machine.state is S.PREPARED
    assert machine.prepared == PreparedTransaction("id", 7, 3)
    assert machine.identity == ProducerIdentity(7, 4)
    with pytest.raises(IllegalStateError):
        machine.begin()
    machine.begin_commit()


@pytest.mark.parametrize("name", ["plain", "with:colons:7", "ümlaut", "-1:2"])
def test_a_prepared_transaction_is_read_back_from_its_text(name: str) -> None:
    prepared = PreparedTransaction(name, 2**40, 12)
    assert PreparedTransaction.parse(str(prepared)) == prepared


@pytest.mark.parametrize("text", ["", "7", "7:1", "7:1:", "x:1:id", "7:y:id", "07:1:id", " 7:1:id"])
def test_text_that_names_no_transaction_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PRODUCER_ID:EPOCH:TRANSACTIONAL_ID"):
        PreparedTransaction.parse(text)


# Any order ------------------------------------------------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """Any calls and events in any order, and the invariants."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = TransactionMachine("id")
        self.before = self.machine.state
        self.epoch = 0

    def attempt(self, call: Callable[[], object]) -> None:
        self.before = self.machine.state
        try:
            call()
        except MoldauError:
            assert self.machine.state is self.before, "a refused call has changed the state"

    @rule(name=st.sampled_from(sorted(CALLS)))
    def is_called(self, name: str) -> None:
        self.attempt(lambda: CALLS[name][0](self.machine))

    @precondition(lambda self: self.machine.state is S.INITIALISING)
    @rule(version=st.sampled_from([1, 2]), kept=st.booleans())
    def is_initialised(self, version: int, kept: bool) -> None:
        self.attempt(lambda: self.machine.initialised(FIRST, version, ProducerIdentity(7, 0) if kept else NO_IDENTITY))

    @precondition(lambda self: self.machine.state is S.PREPARING)
    @rule()
    def is_prepared(self) -> None:
        self.attempt(self.machine.is_prepared)

    @precondition(lambda self: self.machine.state in (S.COMMITTING, S.ABORTING))
    @rule()
    def is_ended(self) -> None:
        self.epoch += 1
        self.attempt(lambda: self.machine.ended(ProducerIdentity(7, self.epoch)))

    @rule(partition=st.sampled_from([HERE, THERE]))
    def records_come(self, partition: TopicPartition) -> None:
        self.attempt(lambda: self.machine.partition_seen(partition))

    @rule()
    def the_coordinator_answers(self) -> None:
        self.attempt(lambda: self.machine.partitions_added(self.machine.partitions_to_add()))

    @rule(fatal=st.booleans(), rarely=st.integers(0, 9))
    def something_fails(self, fatal: bool, rarely: int) -> None:
        if fatal and not rarely:
            self.attempt(lambda: self.machine.fatal(fenced()))
        elif not fatal:
            self.attempt(lambda: self.machine.abortable(too_large()))

    @invariant()
    def only_steps_of_the_table_are_taken(self) -> None:
        now = self.machine.state
        assert now is self.before or now in TRANSITIONS[self.before]

    @invariant()
    def records_leave_only_in_a_transaction_that_the_coordinator_may_know(self) -> None:
        for partition in (HERE, THERE):
            if self.machine.may_drain(partition):
                assert self.machine.started
                assert self.machine.state in SENDING | {S.ABORTING}

    @invariant()
    def a_failure_has_its_reason(self) -> None:
        failed = self.machine.state in (S.ABORTABLE_ERROR, S.FATAL_ERROR)
        assert not failed or self.machine.error is not None
        if self.machine.state is S.READY:
            assert self.machine.error is None and self.machine.prepared is None


TestAnyOrder = AnyOrder.TestCase
