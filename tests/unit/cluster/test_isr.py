"""ISR changes: proposals of a leader, their result, and eligible leader replicas."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from moldau.cluster.errors import Refusal
from moldau.cluster.image import NO_LEADER, ClusterImage, PartitionState, TopicImage
from moldau.cluster.isr import IsrProposal, effective_min_isr, high_watermark_may_advance, proposed
from moldau.wire.errors import ErrorCode
from tests.unit.cluster.partitions import BROKERS, a_step, state, states
from tests.unit.cluster.support import broker

TOPIC_ID = b"t" * 16
EPOCHS = {number: 100 + number for number in BROKERS}


def image_of(one: PartitionState) -> ClusterImage:
    brokers = [replace(broker(number), epoch=EPOCHS[number]) for number in BROKERS]
    return ClusterImage("c").with_brokers(brokers).with_topics([TopicImage("t", TOPIC_ID, (one,))])


def proposal(isr: tuple[int, ...], /, **changes: object) -> IsrProposal:
    plain = IsrProposal("t", TOPIC_ID, 0, leader_epoch=5, partition_epoch=9, isr=isr, epochs=EPOCHS)
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "isr", "min_isr", "expected"),
    [
        pytest.param(state((1, 2, 3)), (1, 2), 2, ((1, 2), ()), id="one falls behind"),
        pytest.param(state((1, 2, 3), (1, 2)), (1,), 2, ((1,), (2,)), id="below the minimum it stays eligible"),
        pytest.param(state((1, 2, 3)), (1,), 2, ((1,), (2, 3)), id="two at once stay eligible"),
        pytest.param(state((1, 2, 3), (1,), elr=(2,)), (1, 3), 2, ((1, 3), ()), id="enough again: nobody is eligible"),
        pytest.param(state((1, 2, 3), (1,), elr=(2, 3)), (1, 2), 3, ((1, 2), (3,)), id="one returns, not enough yet"),
        pytest.param(state((1, 2, 3), (1,), elr=(2,)), (1,), 1, ((1,), ()), id="a lower minimum ends eligibility"),
        pytest.param(state((3, 1, 2), (3,)), (2, 1, 3), 1, ((3, 1, 2), ()), id="in the replicas' order"),
    ],
)
def test_a_proposal_that_is_accepted(
    before: PartitionState, isr: tuple[int, ...], min_isr: int, expected: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    result = proposed(image_of(before), proposal(isr), proposer=before.leader, min_isr=min_isr)
    assert isinstance(result, PartitionState)
    a_step(before, result)
    assert (result.isr, result.elr) == expected
    assert result.leader_epoch == before.leader_epoch


@pytest.mark.parametrize(
    ("changes", "proposer", "code"),
    [
        ({"topic": "other"}, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 1}, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic_id": b"u" * 16}, 1, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"leader_epoch": 4}, 1, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 6}, 1, ErrorCode.FENCED_LEADER_EPOCH),
        ({}, 2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"partition_epoch": 8}, 1, ErrorCode.INVALID_UPDATE_VERSION),
        ({"isr": (2,)}, 1, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 2, 2)}, 1, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 4)}, 1, ErrorCode.INVALID_REQUEST),
        ({"epochs": {3: 102}}, 1, ErrorCode.INELIGIBLE_REPLICA),
        ({"epochs": {}}, 1, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_proposal_that_is_refused(changes: dict[str, object], proposer: int, code: ErrorCode) -> None:
    before = state((1, 2, 3), (1, 2))
    result = proposed(image_of(before), proposal((1, 2, 3), **changes), proposer=proposer, min_isr=1)
    assert isinstance(result, Refusal)
    assert result.code == code


def test_a_dead_broker_is_not_added_to_the_isr() -> None:
    image = image_of(state((1, 2, 3), (1, 2)))
    image = image.with_brokers(one for one in image.brokers.values() if one.id != 3)
    result = proposed(image, proposal((1, 2, 3)), proposer=1, min_isr=1)
    assert isinstance(result, Refusal)
    assert result.code == ErrorCode.INELIGIBLE_REPLICA


@given(states(), st.frozensets(st.sampled_from(BROKERS)), st.integers(1, 4))
def test_any_accepted_proposal_gives_a_valid_state_and_keeps_all_eligible_leaders(
    before: PartitionState, wanted: frozenset[int], min_isr: int
) -> None:
    isr = tuple(sorted(wanted))
    result = proposed(image_of(before), proposal(isr), proposer=before.leader, min_isr=min_isr)
    if isinstance(result, Refusal):
        assert before.leader == NO_LEADER or before.leader not in wanted or not wanted <= set(before.replicas)
        return
    a_step(before, result)
    assert set(result.isr) == wanted
    enough = len(result.isr) >= effective_min_isr(min_isr, before.replicas, before.adding)
    needed = ({*before.isr, *before.elr} - wanted) if not enough else set()
    assert set(result.elr) == needed
    again = proposed(
        image_of(result), proposal(isr, partition_epoch=result.partition_epoch), proposer=before.leader, min_isr=min_isr
    )
    assert again is result


def test_a_leader_acknowledges_nothing_that_an_eligible_leader_may_lack() -> None:
    assert high_watermark_may_advance(state((1, 2, 3), (1, 2)), 2)
    assert not high_watermark_may_advance(state((1, 2, 3), (1,)), 2)
    lowered = state((1, 2, 3), (1,), elr=(2,))
    assert not high_watermark_may_advance(lowered, 1), "broker 2 may be elected without the next records"
    result = proposed(image_of(lowered), proposal((1,)), proposer=1, min_isr=1)
    assert isinstance(result, PartitionState)
    assert high_watermark_may_advance(result, 1)


def test_no_more_in_sync_replicas_are_required_than_there_are_replicas() -> None:
    assert effective_min_isr(3, (1,), ()) == 1
    assert effective_min_isr(2, (1, 2, 3), ()) == 2
    assert effective_min_isr(3, (4, 5, 1, 2), (4, 5)) == 2
