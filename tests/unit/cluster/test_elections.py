"""Elections: the leader after brokers die, return or resign, and requested elections."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from moldau.cluster.elections import ElectionKind, preferred, requested, resigned, restarted, settled
from moldau.cluster.errors import Refusal
from moldau.cluster.image import NO_LEADER, PartitionState, TopicImage
from moldau.wire.errors import ErrorCode
from tests.unit.cluster.partitions import BROKERS, a_step, alive_sets, state, states
from tests.unit.cluster.support import cluster

ALL = frozenset(BROKERS)


def after(before: PartitionState, result: PartitionState) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    a_step(before, result)
    return result.leader, result.isr, result.elr


# ----------------------------------------------------------------------------------------------- failures and restarts


@pytest.mark.parametrize(
    ("before", "alive", "min_isr", "expected"),
    [
        pytest.param(state((1, 2, 3)), {2, 3}, 2, (2, (2, 3), ()), id="the leader dies: the next in sync leads"),
        pytest.param(state((1, 2, 3)), {1, 3}, 2, (1, (1, 3), ()), id="a follower dies: it leaves the ISR at once"),
        pytest.param(state((1, 2, 3)), {1}, 2, (1, (1,), (2, 3)), id="below the minimum, the dead stay eligible"),
        pytest.param(state((1, 2, 3)), {3}, 1, (3, (3,), ()), id="a minimum of one leaves nobody eligible"),
        pytest.param(state((1, 2, 3), (1, 2)), {3}, 2, (NO_LEADER, (), (1, 2)), id="one that is behind never leads"),
        pytest.param(state((1, 2, 3), (3,)), {1, 2}, 1, (NO_LEADER, (), (3,)), id="the last one dies: nobody leads"),
        pytest.param(state((1,)), set(), 1, (NO_LEADER, (), (1,)), id="the only replica dies"),
        pytest.param(state((1, 2), (), elr=(1,)), {1}, 1, (1, (1,), ()), id="the only eligible one returns and leads"),
        pytest.param(
            state((1, 2, 3), (), elr=(1, 2)), {2}, 2, (2, (2,), (1,)), id="one of two eligible returns and leads"
        ),
        pytest.param(
            state((1, 2, 3), (), elr=(2,)), {1, 3}, 2, (NO_LEADER, (), (2,)), id="others than the eligible must wait"
        ),
        pytest.param(
            state((3, 1, 2), (3, 1, 2)), {1, 2}, 2, (1, (1, 2), ()), id="the replicas' order decides, not the numbers"
        ),
    ],
)
def test_the_leader_after_brokers_die_and_return(
    before: PartitionState, alive: set[int], min_isr: int, expected: tuple[int, tuple[int, ...], tuple[int, ...]]
) -> None:
    assert after(before, settled(before, alive, min_isr)) == expected


@pytest.mark.parametrize(
    ("before", "alive", "leader"),
    [
        pytest.param(state((1, 2, 3), (1,)), {2, 3}, 2, id="any live replica, in the replicas' order"),
        pytest.param(state((1, 2, 3), (), last_known=(3,)), {1, 2, 3}, 3, id="the last eligible one comes first"),
        pytest.param(state((1, 2, 3), (), elr=(2,)), {1, 2, 3}, 2, id="a clean choice comes before any unclean one"),
        pytest.param(state((1, 2, 3), (), last_known=(3,)), {2}, 2, id="the last eligible one is dead"),
    ],
)
def test_after_an_unclean_election_only_the_leader_is_in_sync_and_eligible(
    before: PartitionState, alive: set[int], leader: int
) -> None:
    result = settled(before, alive, 1, unclean=True)
    assert after(before, result) == (leader, (leader,), ())
    assert result.last_known_elr == ()


@given(states(), alive_sets(), st.integers(1, 4), st.booleans())
def test_after_any_deaths_only_the_living_lead_and_are_in_sync(
    before: PartitionState, alive: frozenset[int], min_isr: int, unclean: bool
) -> None:
    result = settled(before, alive, min_isr, unclean=unclean)
    a_step(before, result)
    assert set(result.isr) <= alive
    assert result.leader == NO_LEADER or result.leader in alive
    if result.leader not in (NO_LEADER, *before.isr, *before.elr):
        assert unclean
        assert not alive & {*before.isr, *before.elr}, "an unclean leader although an in-sync replica is alive"
    if result.leader == NO_LEADER:
        assert not alive & {*before.isr, *before.elr}
        assert not (unclean and alive & set(before.replicas))
    if not unclean:
        assert set(before.isr) | set(before.elr) <= {*result.isr, *result.elr} or len(result.isr) >= 1
    assert settled(result, alive, min_isr, unclean=unclean) is result, "a second decision has changed the result"


# ------------------------------------------------------------------------------------------------------- registration


@pytest.mark.parametrize(
    ("before", "others", "lost", "expected"),
    [
        pytest.param(state((1, 2, 3)), {2, 3}, False, (2, (1, 2, 3), ()), id="it resigns, and stays in sync"),
        pytest.param(state((1, 2, 3)), {2, 3}, True, (2, (2, 3), ()), id="it lost its tail: it leaves the ISR, too"),
        pytest.param(state((1, 2), (1,)), {2}, False, (1, (1,), ()), id="nobody else may: it leads, in a new epoch"),
        pytest.param(state((1, 2), (1,)), {2}, True, (NO_LEADER, (), ()), id="the last one lost its tail: none leads"),
        pytest.param(state((1,)), set(), True, (1, (1,), ()), id="the only replica: nobody has more than it"),
        pytest.param(state((1, 2, 3)), set(), False, (1, (1, 2, 3), ()), id="all others are dead"),
    ],
)
def test_leaderships_of_a_broker_that_registers_again(
    before: PartitionState, others: set[int], lost: bool, expected: tuple[int, tuple[int, ...], tuple[int, ...]]
) -> None:
    result = restarted(before, 1, others, 1, lost=lost)
    assert after(before, result) == expected
    assert result.leader_epoch == before.leader_epoch + 1


def test_the_last_eligible_one_that_lost_its_tail_is_remembered_for_an_unclean_election() -> None:
    before = state((1, 2, 3), (), elr=(1,))
    result = restarted(before, 1, {2, 3}, 2, lost=True)
    assert (result.isr, result.elr, result.last_known_elr) == ((), (), (1,))
    assert settled(result, {1, 2, 3}, 2) is result, "a leader was elected without an operator"
    assert settled(result, {1, 2, 3}, 2, unclean=True).leader == 1


def test_all_replicas_lose_power_and_come_back_one_by_one() -> None:
    one = state((1, 2, 3))
    for broker in (1, 2, 3):
        one = restarted(one, broker, {1, 2, 3} - {broker}, 2, lost=True)
    assert (one.leader, one.isr, one.elr, one.last_known_elr) == (NO_LEADER, (), (), (3,))


@given(states(), st.sampled_from(BROKERS), alive_sets(), st.integers(1, 4), st.booleans())
def test_a_restarted_broker_never_serves_an_old_leader_epoch_and_a_lost_tail_never_leads_or_counts(
    before: PartitionState, broker: int, others: frozenset[int], min_isr: int, lost: bool
) -> None:
    others -= {broker}
    result = restarted(before, broker, others, min_isr, lost=lost)
    a_step(before, result)
    if before.leader == broker:
        assert result.leader_epoch > before.leader_epoch
    else:
        assert (result.leader, result.leader_epoch) == (before.leader, before.leader_epoch)
    if lost and len(before.replicas) > 1:
        assert broker not in (*result.isr, *result.elr, result.leader)
        assert settled(result, {broker}, min_isr).leader != broker
    elif broker in before.isr:
        assert broker in (*result.isr, *result.elr) or result.leader in before.elr


# ------------------------------------------------------------------------------ resignation and requested elections


@pytest.mark.parametrize(
    ("before", "alive", "leave_isr", "expected"),
    [
        pytest.param(state((1, 2, 3)), {1, 2, 3}, True, (2, (2, 3), ()), id="another leads, it leaves the ISR"),
        pytest.param(state((1, 2, 3)), {1, 2, 3}, False, (2, (1, 2, 3), ()), id="another leads, it stays in sync"),
        pytest.param(state((2, 1)), {1, 2}, True, (2, (2,), (1,)), id="a follower that leaves may stay eligible"),
        pytest.param(state((1, 2), (1,)), {1, 2}, True, (1, (1,), ()), id="nobody can take its place: it stays"),
        pytest.param(state((1, 2, 3)), {1, 3}, True, (3, (2, 3), ()), id="only a live one takes its place"),
        pytest.param(state((2, 3, 1), (2, 3)), {1, 2, 3}, True, (2, (2, 3), ()), id="it was not in sync anyway"),
    ],
)
def test_resigning(
    before: PartitionState,
    alive: set[int],
    leave_isr: bool,
    expected: tuple[int, tuple[int, ...], tuple[int, ...]],
) -> None:
    assert after(before, resigned(before, 1, alive, 2, leave_isr=leave_isr)) == expected


@given(states(), st.sampled_from(BROKERS), alive_sets(), st.integers(1, 4), st.booleans())
def test_a_resigning_broker_never_leaves_a_partition_without_its_leader(
    before: PartitionState, broker: int, alive: frozenset[int], min_isr: int, leave_isr: bool
) -> None:
    result = resigned(before, broker, alive, min_isr, leave_isr=leave_isr)
    a_step(before, result)
    assert (result.leader == NO_LEADER) == (before.leader == NO_LEADER)
    if any(member in alive for member in before.isr if member != broker):
        assert result.leader != broker
        assert not leave_isr or broker not in result.isr


@given(states(), alive_sets())
def test_the_preferred_leader_leads_if_it_can(before: PartitionState, alive: frozenset[int]) -> None:
    result = preferred(before, alive)
    a_step(before, result)
    first = before.replicas[0]
    if first in alive and first in before.isr:
        assert result.leader == first
        assert result.isr == before.isr
    else:
        assert result is before


@pytest.mark.parametrize(
    ("before", "kind", "code"),
    [
        (state((1, 2)), ElectionKind.PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        (state((4, 1), (1,)), ElectionKind.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (state((1, 2), (2,)), ElectionKind.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (state((1, 2), (2, 1)[:1], 2), ElectionKind.UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        (state((4, 5), (), elr=(4,)), ElectionKind.UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    ],
)
def test_an_election_that_is_not_possible_is_refused(
    before: PartitionState, kind: ElectionKind, code: ErrorCode
) -> None:
    image = cluster(4).with_topics([TopicImage("t", b"t" * 16, (before,))])
    answer = requested(image, "t", 0, kind, lambda _topic: 1)
    assert isinstance(answer, Refusal)
    assert answer.code == code


def test_a_requested_election() -> None:
    image = cluster(4).with_topics(
        [TopicImage("t", b"t" * 16, (state((1, 2), leader=2), state((9, 2), (9,)), state((9, 2), (9,))))]
    )
    first = requested(image, "t", 0, ElectionKind.PREFERRED, lambda _topic: 1)
    unclean = requested(image, "t", 1, ElectionKind.UNCLEAN, lambda _topic: 1)
    missing = requested(image, "t", 3, ElectionKind.UNCLEAN, lambda _topic: 1)
    assert isinstance(first, PartitionState)
    assert isinstance(unclean, PartitionState)
    assert isinstance(missing, Refusal)
    assert (first.leader, unclean.leader, missing.code) == (1, 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
