"""Shard of the transaction coordinator: time-outs, expiry, restarts, listing."""

from __future__ import annotations

import re

import pytest

from moldau.transactions.shard import Query
from moldau.transactions.states import TransactionState
from moldau.transactions.transaction import encode_key
from moldau.wire.errors import ErrorCode
from moldau.wire.producer_identity import ProducerIdentity
from tests.unit.transactions.support import RULES, TIMEOUT_MS, Coordinator, in_state

S = TransactionState
E = ErrorCode


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    one = Coordinator()
    me = one.producer()
    one.add(me, ("a", 0))
    one.pass_time(TIMEOUT_MS - RULES.abort_check_ms)
    assert one.found().state is S.ONGOING
    one.pass_time(2 * RULES.abort_check_ms)
    assert [(m.commit, m.partitions) for m in one.effects[-1:]] == [(False, {("a", 0)})]
    assert one.add(me, ("a", 1)) == E.PRODUCER_FENCED
    one.write_markers()
    assert one.found().state is S.COMPLETE_ABORT
    assert one.commit(me).error == E.INVALID_TXN_STATE


def test_work_within_a_transaction_does_not_prolong_it() -> None:
    one = Coordinator()
    me = one.producer()
    for index in range(TIMEOUT_MS // 5_000 + 4):
        one.add(me, ("a", index))
        one.pass_time(5_000)
    assert one.found().state is S.PREPARE_ABORT


def test_an_idle_transactional_id_expires() -> None:
    one = Coordinator()
    one.producer()
    one.sleep_through(RULES.expiration_ms)
    assert one.shard.transactions == {}
    assert one.log[-1] == (encode_key("t"), None)


@pytest.mark.parametrize("state", [S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_a_transactional_id_with_an_open_transaction_does_not_expire(state: S) -> None:
    one = Coordinator()
    one.put(in_state(state))
    one.sleep_through(RULES.expiration_ms)
    assert one.found()


def test_many_transactional_ids_expire_in_bounded_batches() -> None:
    one = Coordinator()
    for number in range(2_500):
        one.put(in_state(S.EMPTY, name=f"t{number}"))
    one.sleep_through(RULES.expiration_ms)
    assert one.shard.transactions == {}


@pytest.mark.parametrize(("state", "commit"), [(S.PREPARE_COMMIT, True), (S.PREPARE_ABORT, False)])
def test_a_decision_made_before_a_crash_is_completed_after_it(state: S, commit: bool) -> None:
    one = Coordinator()
    one.put(in_state(state))
    one.crash()
    (markers,) = one.write_markers()
    assert (markers.commit, markers.producer) == (commit, ProducerIdentity(42, 5))
    assert one.found().state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


def test_lost_markers_are_requested_again() -> None:
    one = Coordinator()
    one.put(in_state(S.PREPARE_COMMIT))
    one.effects.clear()
    one.fire_timeouts()
    one.write_markers()
    assert one.found().state is S.COMPLETE_COMMIT


def test_a_transaction_that_timed_out_during_downtime_is_aborted_after_the_start() -> None:
    one = Coordinator()
    one.add(one.producer(), ("a", 0))
    one.now_ms += 10 * TIMEOUT_MS
    one.crash()
    one.pass_time(RULES.abort_check_ms)
    assert one.found().state is S.PREPARE_ABORT


def test_records_that_cannot_be_read_do_not_stop_a_start(caplog: pytest.LogCaptureFixture) -> None:
    one = Coordinator()
    one.producer()
    one.log += [(encode_key("broken"), b"\0\x09?"), (b"\0\x07later", b"?"), (b"", b"")]
    one.crash()
    assert list(one.shard.transactions) == ["t"]
    assert "cannot be read" in caplog.text


def test_listing_narrows_by_state_producer_duration_and_name() -> None:
    one = Coordinator()
    one.put(in_state(S.EMPTY, name="idle"))
    one.put(in_state(S.ONGOING, name="busy"))
    now = one.now_ms

    def names(query: Query) -> set[str]:
        return {found.transactional_id for found in one.shard.matching(query, now)}

    assert names(Query()) == {"idle", "busy"}
    assert names(Query(states=frozenset({S.ONGOING}))) == {"busy"}
    assert names(Query(producer_ids=frozenset({42}))) == {"idle", "busy"}
    assert names(Query(producer_ids=frozenset({43}))) == set()
    assert names(Query(longer_than_ms=99_999)) == {"busy"}
    assert names(Query(longer_than_ms=100_000)) == set()
    assert names(Query(id_matches=re.compile("i.*").fullmatch)) == {"idle"}
