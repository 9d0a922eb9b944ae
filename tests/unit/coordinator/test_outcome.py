"""Combining the outcomes of several rules into one."""

from __future__ import annotations

import pytest

from moldau.coordinator.outcome import CoordinatorOutcome, TxnProducer

PRODUCER = TxnProducer(7, 0)


def test_a_combined_outcome_has_the_parts_of_both_in_their_order() -> None:
    outcome = CoordinatorOutcome(records=[(b"1", None)], replies=[("a", 1)], timers=[("t", 5)])
    outcome += CoordinatorOutcome(records=[(b"2", b"x")], replies=[("b", 2)], timers=[("t", None)])
    assert outcome.records == [(b"1", None), (b"2", b"x")]
    assert outcome.replies == [("a", 1), ("b", 2)]
    assert outcome.timers == [("t", 5), ("t", None)]


def test_a_combined_outcome_belongs_to_the_transaction_of_its_records() -> None:
    outcome = CoordinatorOutcome(replies=[("a", 1)])
    outcome += CoordinatorOutcome(PRODUCER, records=[(b"1", b"x")])
    assert outcome.producer == PRODUCER


def test_records_of_a_transaction_cannot_be_combined_with_other_records() -> None:
    outcome = CoordinatorOutcome(records=[(b"1", b"x")])
    with pytest.raises(AssertionError, match="one batch"):
        outcome += CoordinatorOutcome(PRODUCER, records=[(b"2", b"x")])
