"""Every request in every transaction state: the answer and the next state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.transactions.states import AT_REST, TransactionState
from moldau.transactions.transaction import NEVER, NO_TIMEOUT
from moldau.wire.errors import ErrorCode
from moldau.wire.producer_identity import LAST_PRODUCER_EPOCH, MAX_PRODUCER_EPOCH, NO_IDENTITY, ProducerIdentity
from tests.unit.transactions.support import RULES, TIMEOUT_MS, Coordinator, in_state

S = TransactionState
E = ErrorCode
STORED = [state for state in S if state not in (S.DEAD, S.PREPARE_EPOCH_FENCE)]
ME = ProducerIdentity(42, 5)
BEFORE_ME = ProducerIdentity(42, 4)
STRANGER = ProducerIdentity(7, 5)


def coordinator(state: S, **options: int) -> Coordinator:
    one = Coordinator()
    one.put(in_state(state, **options))
    return one


# -- InitProducerId ----------------------------------------------------------------------------------------------------


def test_the_first_producer_of_an_id_has_epoch_0() -> None:
    one = Coordinator()
    assert one.init().identity == ProducerIdentity(1000, 0)
    assert one.found().state is S.EMPTY
    assert one.found().timeout_ms == TIMEOUT_MS


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_a_new_producer_gets_the_next_epoch_and_fences_the_old_one(state: S) -> None:
    one = coordinator(state)
    assert one.init().identity == ProducerIdentity(42, 6)
    assert one.add(ME, ("a", 0)) == E.PRODUCER_FENCED
    assert one.commit(ME).error == E.PRODUCER_FENCED
    assert one.abort(ME).error == E.PRODUCER_FENCED


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_a_new_producer_waits_while_a_transaction_ends(state: S) -> None:
    one = coordinator(state)
    assert one.init().error == E.CONCURRENT_TRANSACTIONS
    assert one.found().state is state


def test_a_new_producer_aborts_the_open_transaction_first() -> None:
    one = coordinator(S.ONGOING)
    assert one.init().error == E.CONCURRENT_TRANSACTIONS
    (markers,) = one.effects
    assert (markers.producer, markers.commit) == (ProducerIdentity(42, 6), False)
    assert markers.partitions == {("a", 0), ("b", 1)}
    assert one.init().error == E.CONCURRENT_TRANSACTIONS
    one.write_markers()
    assert one.found().state is S.COMPLETE_ABORT
    assert one.init().identity == ProducerIdentity(42, 7)


def test_epochs_that_run_out_give_a_new_producer_id() -> None:
    one = coordinator(S.COMPLETE_COMMIT, epoch=LAST_PRODUCER_EPOCH)
    assert one.init().identity == ProducerIdentity(1000, 0)
    assert one.found().previous_producer_id == 42


def test_fencing_the_last_epoch_gives_a_new_producer_id() -> None:
    one = coordinator(S.ONGOING, epoch=LAST_PRODUCER_EPOCH)
    assert one.init().error == E.CONCURRENT_TRANSACTIONS
    assert [markers.producer for markers in one.write_markers()] == [ProducerIdentity(42, MAX_PRODUCER_EPOCH)]
    assert one.init().identity == ProducerIdentity(1000, 0)


def test_a_producer_that_continues_after_an_error_gets_the_next_epoch() -> None:
    one = coordinator(S.COMPLETE_ABORT)
    assert one.init(expected=ME).identity == ProducerIdentity(42, 6)


def test_a_repeated_init_producer_id_gets_the_same_answer() -> None:
    one = coordinator(S.COMPLETE_ABORT)
    first = one.init(expected=ME)
    assert one.init(expected=ME) == first
    assert one.init(expected=ME) == first


def test_a_repeated_init_producer_id_gets_the_same_new_producer_id() -> None:
    one = coordinator(S.COMPLETE_ABORT, epoch=LAST_PRODUCER_EPOCH)
    expected = ProducerIdentity(42, LAST_PRODUCER_EPOCH)
    first = one.init(expected=expected)
    assert first.identity == ProducerIdentity(1000, 0)
    assert one.init(expected=expected) == first


def test_a_producer_that_aborted_its_own_transaction_by_a_second_init_is_initialised() -> None:
    one = coordinator(S.ONGOING)
    assert one.init(expected=ME).error == E.CONCURRENT_TRANSACTIONS
    one.write_markers()
    answer = one.init(expected=ME)
    assert answer.error == E.NONE
    assert answer.identity.epoch > ME.epoch
    assert one.init(expected=BEFORE_ME).error == E.PRODUCER_FENCED


def test_a_repeated_init_producer_id_is_fenced_after_another_producer() -> None:
    one = coordinator(S.COMPLETE_ABORT)
    one.init(expected=ME)
    one.init()
    assert one.init(expected=ME).error == E.PRODUCER_FENCED
    assert one.init(expected=ProducerIdentity(42, 6)).error == E.PRODUCER_FENCED


@pytest.mark.parametrize("state", [*sorted(AT_REST), S.ONGOING])
@pytest.mark.parametrize("who", [BEFORE_ME, STRANGER, ProducerIdentity(42, 9)])
def test_a_fenced_producer_cannot_initialise_again(state: S, who: ProducerIdentity) -> None:
    one = coordinator(state)
    assert one.init(expected=who).error == E.PRODUCER_FENCED
    assert one.found() == in_state(state)


def test_without_free_producer_ids_the_client_gets_a_retriable_error() -> None:
    one = Coordinator()
    one.out_of_ids = True
    assert one.init().error == E.COORDINATOR_LOAD_IN_PROGRESS
    assert not one.log


# -- AddPartitionsToTxn ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_the_first_partition_begins_a_transaction(state: S) -> None:
    one = coordinator(state)
    assert one.add(ME, ("a", 0)) == E.NONE
    assert (one.found().state, one.found().start_ms) == (S.ONGOING, one.now_ms)
    assert one.add(ME, ("a", 1)) == E.NONE
    assert one.found().partitions == {("a", 0), ("a", 1)}


def test_adding_a_known_partition_stores_nothing() -> None:
    one = coordinator(S.ONGOING)
    stored = len(one.log)
    assert one.add(ME, ("a", 0)) == E.NONE
    assert len(one.log) == stored


def test_adding_partitions_does_not_restart_the_timeout() -> None:
    one = coordinator(S.ONGOING)
    one.add(ME, ("c", 0))
    assert one.found().start_ms == 900_000


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_nothing_is_added_while_a_transaction_ends(state: S) -> None:
    assert coordinator(state).add(ME, ("a", 0)) == E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("state", STORED)
@pytest.mark.parametrize(("who", "error"), [(BEFORE_ME, E.PRODUCER_FENCED), (STRANGER, E.INVALID_PRODUCER_ID_MAPPING)])
def test_only_the_current_producer_adds(state: S, who: ProducerIdentity, error: E) -> None:
    one = coordinator(state)
    assert one.add(who, ("z", 9)) == error
    assert one.found() == in_state(state)


def test_an_unused_transactional_id_has_no_transaction() -> None:
    one = Coordinator()
    assert one.add(ME, ("a", 0)) == E.INVALID_PRODUCER_ID_MAPPING
    assert one.commit(ME).error == E.INVALID_PRODUCER_ID_MAPPING
    assert one.shard.verify("t", ME, [("a", 0)]) == E.INVALID_PRODUCER_ID_MAPPING


# -- verification ------------------------------------------------------------------------------------------------------


def test_only_partitions_of_the_open_transaction_verify() -> None:
    one = coordinator(S.ONGOING)
    assert one.shard.verify("t", ME, [("a", 0), ("a", 1)]) == {("a", 0): E.NONE, ("a", 1): E.TRANSACTION_ABORTABLE}
    assert one.shard.verify("t", BEFORE_ME, [("a", 0)]) == E.PRODUCER_FENCED
    assert one.shard.verify("t", STRANGER, [("a", 0)]) == E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_nothing_verifies_without_a_transaction(state: S) -> None:
    assert coordinator(state).shard.verify("t", ME, [("a", 0)]) == {("a", 0): E.TRANSACTION_ABORTABLE}


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_nothing_verifies_while_a_transaction_ends(state: S) -> None:
    assert coordinator(state).shard.verify("t", ME, [("a", 0)]) == E.CONCURRENT_TRANSACTIONS


# -- EndTxn ------------------------------------------------------------------------------------------------------------

# By state and decision: the answer to the current producer, for a client that keeps its epoch (version 1) and for one
# that gets a new epoch with each transaction (version 2).
ENDS = [
    (S.EMPTY, True, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    (S.EMPTY, False, E.INVALID_TXN_STATE, E.NONE),
    (S.ONGOING, True, E.NONE, E.NONE),
    (S.ONGOING, False, E.NONE, E.NONE),
    (S.PREPARE_COMMIT, True, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    (S.PREPARE_COMMIT, False, E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
    (S.PREPARE_ABORT, True, E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
    (S.PREPARE_ABORT, False, E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    (S.COMPLETE_COMMIT, True, E.NONE, E.INVALID_TXN_STATE),
    (S.COMPLETE_COMMIT, False, E.INVALID_TXN_STATE, E.NONE),
    (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    (S.COMPLETE_ABORT, False, E.NONE, E.NONE),
]


@pytest.mark.parametrize(("state", "commit", "version_1", "version_2"), ENDS)
def test_the_answer_to_an_end(state: S, commit: bool, version_1: E, version_2: E) -> None:
    assert coordinator(state, version=1).end(ME, commit, version=1).error == version_1
    assert coordinator(state).end(ME, commit).error == version_2


# The same for a producer of version 2 that got no answer to its first request and still has the previous epoch.
REPEATED_ENDS = [
    (S.EMPTY, True, E.PRODUCER_FENCED),
    (S.EMPTY, False, E.PRODUCER_FENCED),
    (S.ONGOING, True, E.PRODUCER_FENCED),
    (S.ONGOING, False, E.PRODUCER_FENCED),
    (S.PREPARE_COMMIT, True, E.CONCURRENT_TRANSACTIONS),
    (S.PREPARE_COMMIT, False, E.INVALID_TXN_STATE),
    (S.PREPARE_ABORT, True, E.INVALID_TXN_STATE),
    (S.PREPARE_ABORT, False, E.CONCURRENT_TRANSACTIONS),
    (S.COMPLETE_COMMIT, True, E.NONE),
    (S.COMPLETE_COMMIT, False, E.INVALID_TXN_STATE),
    (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE),
    (S.COMPLETE_ABORT, False, E.NONE),
]


@pytest.mark.parametrize(("state", "commit", "error"), REPEATED_ENDS)
def test_the_answer_to_a_repeated_end(state: S, commit: bool, error: E) -> None:
    one = coordinator(state)
    answer = one.end(BEFORE_ME, commit)
    assert answer.error == error
    assert answer.identity == (ME if error == E.NONE else NO_IDENTITY)
    assert one.found() == in_state(state)
    fenced = coordinator(state, version=1).end(BEFORE_ME, commit, version=1).error
    assert fenced == E.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_a_version_1_producer_keeps_its_epoch(commit: bool) -> None:
    one = coordinator(S.ONGOING, version=1)
    assert one.end(ME, commit, version=1).identity == ME
    assert [(m.producer, m.commit) for m in one.write_markers()] == [(ME, commit)]
    assert one.found().state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert one.add(ME, ("a", 0)) == E.NONE


@pytest.mark.parametrize("commit", [True, False])
def test_a_version_2_producer_gets_a_new_epoch_with_each_transaction(commit: bool) -> None:
    one = coordinator(S.ONGOING)
    after = one.end(ME, commit).identity
    assert after == ProducerIdentity(42, 6)
    assert one.add(after, ("a", 0)) == E.CONCURRENT_TRANSACTIONS
    assert [(m.producer, m.commit) for m in one.write_markers()] == [(after, commit)]
    assert one.add(ME, ("a", 0)) == E.PRODUCER_FENCED
    assert one.add(after, ("a", 0)) == E.NONE


def test_the_last_epoch_ends_with_a_new_producer_id() -> None:
    last = ProducerIdentity(42, LAST_PRODUCER_EPOCH)
    one = coordinator(S.ONGOING, epoch=LAST_PRODUCER_EPOCH)
    after = one.commit(last).identity
    assert after == ProducerIdentity(1000, 0)
    assert one.commit(last).error == E.CONCURRENT_TRANSACTIONS
    assert one.add(after, ("a", 0)) == E.CONCURRENT_TRANSACTIONS
    assert [m.producer for m in one.write_markers()] == [ProducerIdentity(42, MAX_PRODUCER_EPOCH)]
    assert one.commit(last).identity == after
    assert one.add(after, ("a", 0)) == E.NONE
    assert one.found().previous_producer_id == 42


def test_a_producer_without_an_answer_to_end_txn_may_start_the_next_transaction() -> None:
    one = coordinator(S.ONGOING)
    after = one.commit(ME).identity
    one.write_markers()
    assert one.init(expected=ME).identity == after


def test_an_abort_without_a_transaction_has_no_markers_to_wait_for() -> None:
    one = coordinator(S.EMPTY)
    after = one.abort(ME).identity
    (markers,) = one.write_markers()
    assert not markers.partitions
    assert one.found().state is S.COMPLETE_ABORT
    assert one.add(after, ("a", 0)) == E.NONE


def test_a_decision_that_cannot_be_stored_has_no_effect() -> None:
    one = coordinator(S.ONGOING)
    one.fails_to_store = True
    assert one.commit(ME) is None
    one.fails_to_store = False
    assert not one.effects
    assert one.abort(ME).error == E.NONE


def test_markers_of_another_epoch_complete_nothing() -> None:
    one = coordinator(S.ONGOING)
    after = one.commit(ME).identity
    (late,) = one.write_markers()
    one.add(after, ("a", 0))
    one.abort(after)
    one.effects = [late]
    one.write_markers()
    assert one.found().state is S.PREPARE_ABORT


# -- two-phase commit --------------------------------------------------------------------------------------------------


def prepared(epoch: int = 5) -> Coordinator:
    one = Coordinator()
    one.put(replace(in_state(S.ONGOING, epoch=epoch), timeout_ms=NO_TIMEOUT))
    return one


def test_a_two_phase_transaction_has_no_time_out_of_its_producers() -> None:
    one = prepared()
    one.sleep_through(RULES.two_phase_max_age_ms // 2)
    assert one.found().state is S.ONGOING


def test_an_abandoned_two_phase_transaction_is_aborted_in_the_end() -> None:
    one = prepared()
    one.sleep_through(RULES.two_phase_max_age_ms)
    one.pass_time(RULES.abort_check_ms)
    assert one.found().state is S.PREPARE_ABORT


def test_a_two_phase_transaction_waits_for_ever_where_the_broker_lets_it() -> None:
    one = Coordinator(rules=RULES._replace(two_phase_max_age_ms=NEVER))
    one.put(replace(in_state(S.ONGOING), timeout_ms=NO_TIMEOUT))
    one.sleep_through(10 * 365 * 86_400_000)
    assert one.found().state is S.ONGOING


@pytest.mark.parametrize("commit", [True, False])
def test_a_prepared_transaction_is_kept_for_the_next_producer(commit: bool) -> None:
    one = prepared()
    answer = one.init(timeout_ms=NO_TIMEOUT, keep_prepared=True)
    assert (answer.error, answer.ongoing) == (E.NONE, ME)
    assert answer.identity == ProducerIdentity(42, 6)
    assert one.end(ME, commit).error == E.PRODUCER_FENCED
    assert one.add(answer.identity, ("c", 0)) == E.INVALID_TXN_STATE
    assert one.shard.verify("t", answer.identity, [("a", 0)]) == E.INVALID_TXN_STATE
    after = one.end(answer.identity, commit).identity
    assert after == ProducerIdentity(42, 7)
    (markers,) = one.write_markers()
    assert (markers.commit, markers.producer) == (commit, after)
    assert markers.partitions == {("a", 0), ("b", 1)}
    assert one.add(after, ("c", 0)) == E.NONE


def test_a_prepared_transaction_is_kept_across_restarts_and_further_producers() -> None:
    one = prepared()
    for epoch in (6, 7, 8):
        answer = one.init(timeout_ms=NO_TIMEOUT, keep_prepared=True)
        assert (answer.identity, answer.ongoing) == (ProducerIdentity(42, epoch), ME)
        one.crash()
    assert one.commit(ProducerIdentity(42, 7)).error == E.PRODUCER_FENCED
    assert one.commit(ProducerIdentity(42, 8)).identity == ProducerIdentity(42, 9)


def test_a_prepared_transaction_is_kept_when_epochs_run_out() -> None:
    one = prepared(epoch=LAST_PRODUCER_EPOCH)
    answer = one.init(timeout_ms=NO_TIMEOUT, keep_prepared=True)
    assert (answer.identity, answer.ongoing) == (ProducerIdentity(1000, 0), ProducerIdentity(42, LAST_PRODUCER_EPOCH))
    after = one.commit(answer.identity).identity
    assert after == ProducerIdentity(1000, 1)
    one.crash()
    assert [(m.producer, m.commit) for m in one.write_markers()] == [(ProducerIdentity(42, MAX_PRODUCER_EPOCH), True)]
    assert one.found().identity == after
    assert one.commit(answer.identity).identity == after


def test_a_producer_that_does_not_keep_a_prepared_transaction_aborts_it() -> None:
    one = prepared()
    one.init(timeout_ms=NO_TIMEOUT, keep_prepared=True)
    assert one.init().error == E.CONCURRENT_TRANSACTIONS
    assert [(m.producer, m.commit) for m in one.write_markers()] == [(ProducerIdentity(42, 7), False)]
    assert one.init().identity == ProducerIdentity(42, 8)


def test_keep_prepared_without_a_transaction_has_no_effect() -> None:
    one = coordinator(S.COMPLETE_COMMIT)
    answer = one.init(timeout_ms=NO_TIMEOUT, keep_prepared=True)
    assert (answer.identity, answer.ongoing) == (ProducerIdentity(42, 6), NO_IDENTITY)
