"""Stored transactions in Kafka's format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.transactions.states import BY_LABEL, TRANSITIONS, TransactionState
from moldau.transactions.transaction import Transaction, decode_key, decode_value, encode_key, encode_value
from moldau.wire.errors import WireError
from moldau.wire.stored.transaction_log import TransactionLogValue

ids = st.integers(-1, 2**63 - 1)
epochs = st.integers(-1, 2**15 - 1)
names = st.text(min_size=1, max_size=20)
times = st.integers(-1, 2**62)

transactions = st.builds(
    Transaction,
    names,
    ids,
    epochs,
    st.integers(0, 2**31 - 1),
    st.sampled_from(TransactionState),
    st.frozensets(st.tuples(names, st.integers(0, 2**31 - 1)), max_size=8),
    times,
    times,
    ids,
    ids,
    epochs,
    st.integers(0, 2),
)


@given(transactions)
def test_stored_transactions_are_read_back(transaction: Transaction) -> None:
    name = decode_key(encode_key(transaction.transactional_id))
    assert name == transaction.transactional_id
    assert decode_value(name, encode_value(transaction)) == transaction


def test_the_bytes_are_those_of_the_format() -> None:
    stored = Transaction("tx", 7, 3, 60_000, TransactionState.ONGOING, frozenset({("t", 2), ("t", 0)}), 10, 20)
    assert encode_key("tx") == b"\0\0\0\x02tx"
    value = encode_value(stored)
    assert value[:2] == b"\0\1"
    assert value[2:10] == (7).to_bytes(8, "big")
    assert value[-1:] == b"\0"  # no field of a plain transaction is tagged
    assert value[10:17] == (3).to_bytes(2, "big") + (60_000).to_bytes(4, "big") + b"\1"


def test_a_value_of_the_first_version_is_read() -> None:
    old = TransactionLogValue(producer_id=9, producer_epoch=1, transaction_status=4, transaction_partitions=None)
    found = decode_value("tx", b"\0\0" + old.encode(0))
    assert (found.producer_id, found.producer_epoch, found.state) == (9, 1, TransactionState.COMPLETE_COMMIT)
    assert found.next_producer_id == -1


def test_a_key_of_a_later_type_is_skipped() -> None:
    assert decode_key(b"\0\1\0\x02tx") is None


@pytest.mark.parametrize(
    "value", [b"", b"\0\2" + bytes(40), b"\0\1\0", encode_value(Transaction("x", 1, 1, 1, TransactionState.EMPTY))[:-3]]
)
def test_a_value_that_is_damaged_is_an_error(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_value("tx", value)


def test_an_unknown_state_is_an_error() -> None:
    strange = TransactionLogValue(producer_id=9, transaction_status=17, transaction_partitions=None)
    with pytest.raises(WireError, match="state 17"):
        decode_value("tx", b"\0\1" + strange.encode(1))


def test_states_have_the_names_that_tools_know() -> None:
    assert {state.label for state in TransactionState} == {
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    }  # fmt: skip
    assert all(BY_LABEL[state.label] is state for state in TransactionState)


def test_every_state_but_the_dead_one_leads_somewhere_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(TransactionState)
    reached = {target for targets in TRANSITIONS.values() for target in targets}
    assert reached == set(TransactionState)
    assert [state for state, targets in TRANSITIONS.items() if not targets] == [TransactionState.DEAD]


def test_a_transition_that_is_not_in_the_table_is_refused() -> None:
    committed = Transaction("tx", 1, 1, 1, TransactionState.PREPARE_COMMIT)
    with pytest.raises(AssertionError, match="PrepareCommit → CompleteAbort"):
        committed.to(TransactionState.COMPLETE_ABORT, 0)
