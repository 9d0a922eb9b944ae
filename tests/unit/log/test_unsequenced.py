"""Batches that a coordinator writes for a producer: no sequence numbers, but checked producer epochs."""

from __future__ import annotations

import pytest

from moldau.log.errors import LogError, RejectedBatch
from moldau.log.producer_state import ProducerStates, last_sequence_of
from moldau.records import NO_SEQUENCE, ControlType, Marker
from moldau.wire.errors import ErrorCode


def applied(states: ProducerStates, epoch: int, first_offset: int, sequence: int = NO_SEQUENCE) -> None:
    states.applied(7, epoch, sequence, last_sequence_of(sequence, 2), first_offset, first_offset + 2, 1, True)


def test_only_a_coordinator_writes_without_a_sequence() -> None:
    states = ProducerStates()
    states.admit_unsequenced(7, NO_SEQUENCE, coordinator=True)
    with pytest.raises(RejectedBatch):
        states.admit_unsequenced(7, NO_SEQUENCE, coordinator=False)
    with pytest.raises(RejectedBatch):
        states.admit_unsequenced(7, -2, coordinator=True)


def test_batches_without_a_sequence_are_never_taken_for_a_retry() -> None:
    states = ProducerStates()
    for first_offset in (0, 3, 6):
        assert states.admit(7, 0, NO_SEQUENCE, NO_SEQUENCE, True) is None
        applied(states, 0, first_offset)
    assert states.producers[7].batches == []
    assert states.producers[7].next_sequence == 0


def test_batches_without_a_sequence_open_a_transaction_that_a_marker_ends() -> None:
    states = ProducerStates()
    applied(states, 0, 5)
    assert states.open_transactions() == [(7, 5)]
    states.applied_marker(7, 1, Marker(8, 1, ControlType.COMMIT, 0))
    assert states.open_transactions() == []


def test_an_older_epoch_is_refused_and_a_later_one_is_not() -> None:
    states = ProducerStates()
    applied(states, 3, 0)
    with pytest.raises(LogError) as refused:
        states.admit(7, 2, NO_SEQUENCE, NO_SEQUENCE, True)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert states.admit(7, 4, NO_SEQUENCE, NO_SEQUENCE, True) is None


def test_batches_without_a_sequence_survive_a_snapshot() -> None:
    states = ProducerStates(8)
    applied(states, 3, 5)
    again = ProducerStates.decode(states.encode(), 8)
    assert again.open_transactions() == [(7, 5)]
    assert again.producers[7].epoch == 3
    assert again.admit(7, 3, NO_SEQUENCE, NO_SEQUENCE, True) is None
