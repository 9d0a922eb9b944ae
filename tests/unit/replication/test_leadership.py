"""Leadership: high watermark and ISR proposals, from the fetches of followers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.cluster.image import PartitionState
from moldau.replication.leadership import JOIN_HOLD_S, NEVER, UNLIMITED, Leadership

LEADER, SECOND, THIRD = 1, 2, 3
MAX_LAG_S = 10.0
STATE = PartitionState((LEADER, SECOND, THIRD), (LEADER, SECOND, THIRD), LEADER, 5, 7)


def leads(state: PartitionState = STATE, end: int = 100, now: float = 0.0) -> Leadership:
    return Leadership(LEADER, state, end, now)


def fetch(leadership: Leadership, replica: int, offset: int, *, end: int = 100, now: float = 1.0) -> None:
    leadership.followers[replica].fetched(offset, 0, 1, end, now)


def reach(leadership: Leadership, high_watermark: int = 0, min_insync: int = 1, now: float = 1.0) -> int:
    return leadership.reach(high_watermark, min_insync, now, MAX_LAG_S).offset


# The high watermark ---------------------------------------------------------------------------------------------------


def test_a_new_leader_does_not_advance_the_high_watermark_before_followers_fetch() -> None:
    assert reach(leads(), high_watermark=40) == 40


def test_the_high_watermark_advances_to_what_every_isr_member_has_fetched() -> None:
    leadership = leads()
    fetch(leadership, SECOND, 90)
    assert reach(leadership) == 0
    fetch(leadership, THIRD, 70)
    assert reach(leadership) == 70


def test_a_follower_outside_the_isr_does_not_hold_back_the_high_watermark() -> None:
    leadership = leads(replace(STATE, isr=(LEADER, SECOND)))
    fetch(leadership, SECOND, 90)
    assert reach(leadership) == 90


def test_a_leader_alone_in_the_isr_does_not_wait() -> None:
    assert reach(leads(replace(STATE, isr=(LEADER,)))) == UNLIMITED


def test_the_high_watermark_does_not_advance_with_too_few_in_sync_replicas() -> None:
    leadership = leads(replace(STATE, isr=(LEADER,)))
    assert reach(leadership, high_watermark=40, min_insync=2) == 40


def test_the_high_watermark_does_not_advance_while_a_replica_outside_the_isr_may_be_elected() -> None:
    leadership = leads(replace(STATE, isr=(LEADER,), elr=(SECOND,)))
    assert reach(leadership, high_watermark=40) == 40
    assert leadership.holds_for_nothing(1)
    assert not leadership.holds_for_nothing(2)


def test_the_high_watermark_does_not_go_back_when_a_member_has_lost_records() -> None:
    leadership = leads()
    for replica in (SECOND, THIRD):
        fetch(leadership, replica, 90)
    fetch(leadership, THIRD, 10)
    assert reach(leadership, high_watermark=90) == 90


def test_during_a_proposal_to_shrink_the_isr_the_removed_replicas_still_count() -> None:
    leadership = leads()
    fetch(leadership, SECOND, 90)
    fetch(leadership, THIRD, 50)
    leadership.propose((LEADER, SECOND))
    assert reach(leadership) == 50
    leadership.stored(replace(STATE, isr=(LEADER, SECOND), partition_epoch=8))
    assert reach(leadership, now=20.0) == 90


def test_during_a_proposal_to_expand_the_isr_the_added_replicas_already_count() -> None:
    leadership = leads(replace(STATE, isr=(LEADER, SECOND)))
    fetch(leadership, SECOND, 100)
    fetch(leadership, THIRD, 60, end=100)
    assert reach(leadership) == 100
    leadership.propose(STATE.isr)
    assert reach(leadership, high_watermark=60) == 60
    leadership.refused()
    assert reach(leadership, high_watermark=60) == 100


def test_the_high_watermark_waits_for_a_follower_that_is_about_to_join_the_isr() -> None:
    leadership = leads(replace(STATE, isr=(LEADER, SECOND)))
    fetch(leadership, SECOND, 120, end=120)
    fetch(leadership, THIRD, 100, end=100, now=1.0)
    assert leadership.reach(100, 1, 1.0, MAX_LAG_S) == (100, True)
    assert leadership.reach(100, 1, 1.1 + JOIN_HOLD_S, MAX_LAG_S) == (120, False)


def test_the_high_watermark_does_not_wait_for_a_dead_broker() -> None:
    leadership = leads(replace(STATE, isr=(LEADER, SECOND)))
    fetch(leadership, SECOND, 120, end=120)
    fetch(leadership, THIRD, 100, end=100)
    leadership.lost(THIRD)
    assert reach(leadership, high_watermark=100) == 120


# ISR changes ----------------------------------------------------------------------------------------------------------


def test_a_follower_joins_the_isr_at_the_high_watermark_and_the_start_of_the_epoch() -> None:
    leadership = leads(replace(STATE, isr=(LEADER,)), end=100)
    assert not leadership.may_join_isr(SECOND, 80), "the follower has not fetched"
    fetch(leadership, SECOND, 79)
    assert not leadership.may_join_isr(SECOND, 80), "committed records are missing"
    fetch(leadership, SECOND, 90)
    assert not leadership.may_join_isr(SECOND, 80), "records before this epoch are missing, which may be committed"
    fetch(leadership, SECOND, 100)
    assert leadership.may_join_isr(SECOND, 80)
    assert leadership.with_member(SECOND) == (LEADER, SECOND)


def test_no_other_follower_joins_the_isr_during_a_proposal() -> None:
    leadership = leads(replace(STATE, isr=(LEADER,)))
    for replica in (SECOND, THIRD):
        fetch(leadership, replica, 100)
    leadership.propose(leadership.with_member(SECOND))
    assert not leadership.may_join_isr(THIRD, 100)


def test_a_broker_without_a_replica_never_joins_the_isr() -> None:
    assert not leads().may_join_isr(9, 0)


def test_a_follower_lags_when_it_has_not_been_at_the_end_for_too_long() -> None:
    leadership = leads(end=0)
    fetch(leadership, SECOND, 100, end=100, now=1.0)
    fetch(leadership, THIRD, 50, end=100, now=1.0)
    assert leadership.without_laggards(100, 9.0, MAX_LAG_S) == STATE.isr
    assert leadership.without_laggards(100, 10.5, MAX_LAG_S) == (LEADER, SECOND)


def test_a_follower_that_fetches_the_previous_log_end_had_caught_up_at_the_previous_fetch() -> None:
    leadership = leads(end=0)
    fetch(leadership, SECOND, 50, end=100, now=1.0)
    fetch(leadership, SECOND, 100, end=200, now=8.0)
    assert leadership.followers[SECOND].caught_up_at == 1.0
    fetch(leadership, SECOND, 150, end=300, now=9.0)
    assert leadership.followers[SECOND].caught_up_at == 1.0, "the follower is slower than the producers"


def test_a_follower_at_the_log_end_does_not_lag_without_new_records() -> None:
    leadership = leads()
    fetch(leadership, SECOND, 100, now=1.0)
    fetch(leadership, THIRD, 100, now=1.0)
    assert leadership.without_laggards(100, 1e6, MAX_LAG_S) == STATE.isr


def test_a_new_epoch_gives_isr_members_time_to_fetch() -> None:
    leadership = leads(replace(STATE, isr=(LEADER, SECOND)), now=50.0)
    assert leadership.followers[SECOND].caught_up_at == 50.0
    assert leadership.followers[THIRD].caught_up_at == NEVER


# Stored states --------------------------------------------------------------------------------------------------------


def test_an_older_partition_state_changes_nothing() -> None:
    leadership = leads()
    assert not leadership.stored(replace(STATE, isr=(LEADER,), partition_epoch=6))
    assert not leadership.stored(replace(STATE, isr=(LEADER,), leader_epoch=6, partition_epoch=9))
    assert leadership.isr == STATE.isr


def test_a_newer_partition_state_ends_the_proposal() -> None:
    leadership = leads()
    leadership.propose((LEADER, SECOND))
    assert leadership.stored(replace(STATE, isr=(LEADER, THIRD), partition_epoch=8))
    assert leadership.proposal is None
    assert leadership.isr == (LEADER, THIRD)


def test_an_unchanged_partition_state_leaves_the_proposal_open() -> None:
    leadership = leads()
    leadership.propose((LEADER, SECOND))
    assert leadership.stored(STATE)
    assert leadership.proposal == (LEADER, SECOND)


def test_added_replicas_are_tracked_and_removed_ones_forgotten() -> None:
    leadership = leads()
    fetch(leadership, SECOND, 90)
    leadership.stored(replace(STATE, replicas=(LEADER, SECOND, 4), isr=(LEADER, SECOND), partition_epoch=8))
    assert list(leadership.followers) == [SECOND, 4]
    assert leadership.followers[SECOND].end_offset == 90
    assert reach(leadership) == 90


def test_the_low_watermark_is_the_least_start_of_all() -> None:
    leadership = leads()
    assert leadership.low_watermark(30, {LEADER, SECOND, THIRD}) == -1
    assert leadership.low_watermark(30, {LEADER}) == 30
    leadership.followers[SECOND].fetched(90, 20, 1, 100, 1.0)
    leadership.followers[THIRD].fetched(90, 25, 1, 100, 1.0)
    assert leadership.low_watermark(30, {LEADER, SECOND, THIRD}) == 20
    assert leadership.low_watermark(30, {LEADER, THIRD}) == 25


# Any history ----------------------------------------------------------------------------------------------------------


class AnyHistory(RuleBasedStateMachine):
    """Followers fetch, lag and lose records; the store accepts proposals, refuses them, or does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.end = 10
        self.min_insync = 2
        self.leadership = leads(end=10)
        self.high_watermark = 4
        self.has = {SECOND: 4, THIRD: 4}
        """Followers may have records that an earlier leader has committed, which this leader does not know yet."""
        self.stored = STATE

    @initialize(isr=st.sampled_from(((LEADER, SECOND, THIRD), (LEADER, SECOND), (LEADER, THIRD))))
    def begin(self, isr: tuple[int, ...]) -> None:
        self.stored = replace(STATE, isr=isr)
        self.leadership = leads(self.stored, end=10)

    def look(self) -> None:
        reached = self.leadership.reach(self.high_watermark, self.min_insync, self.now, MAX_LAG_S)
        moved = max(self.high_watermark, min(self.end, reached.offset))
        assert moved >= self.high_watermark
        if moved > self.high_watermark:
            members = {*self.stored.isr, *self.leadership.isr, *(self.leadership.proposal or ())} - {LEADER}
            assert all(self.has[one] >= moved for one in members), (
                "the high watermark is above the log end of an in-sync replica"
            )
            assert len(self.leadership.isr) >= self.min_insync
        self.high_watermark = moved

    @rule(count=st.integers(1, 20))
    def append(self, count: int) -> None:
        self.end += count
        self.look()

    @rule(replica=st.sampled_from((SECOND, THIRD)), behind=st.integers(0, 15), pause=st.floats(0, 6))
    def fetched(self, replica: int, behind: int, pause: float) -> None:
        self.now += pause
        offset = self.has[replica] = max(self.has[replica], self.end - behind)
        fetch(self.leadership, replica, offset, end=self.end, now=self.now)
        self.look()

    @precondition(lambda self: self.leadership.proposal is None)
    @rule(replica=st.sampled_from((SECOND, THIRD)))
    def come_in(self, replica: int) -> None:
        if self.leadership.may_join_isr(replica, self.high_watermark):
            assert self.has[replica] >= max(self.high_watermark, self.leadership.start_offset)
            self.leadership.propose(self.leadership.with_member(replica))
            self.look()

    @precondition(lambda self: self.leadership.proposal is None)
    @rule()
    def drop_laggards(self) -> None:
        left = self.leadership.without_laggards(self.end, self.now, MAX_LAG_S)
        assert LEADER in left
        if left != self.leadership.isr:
            self.leadership.propose(left)
            self.look()

    @precondition(lambda self: self.leadership.proposal is not None)
    @rule(told=st.booleans(), taken=st.booleans())
    def decided(self, told: bool, taken: bool) -> None:
        proposal = self.leadership.proposal
        assert proposal is not None
        if self.stored.partition_epoch == self.leadership.state.partition_epoch and taken:
            elr = (
                ()
                if len(proposal) >= self.min_insync
                else tuple(
                    one for one in STATE.replicas if one in (*self.stored.isr, *self.stored.elr) and one not in proposal
                )
            )
            self.stored = replace(self.stored, isr=proposal, elr=elr, partition_epoch=self.stored.partition_epoch + 1)
        elif told and self.stored.partition_epoch == self.leadership.state.partition_epoch:
            self.leadership.refused()
        if told:
            self.leadership.stored(self.stored)
        self.look()

    @rule()
    def learns_the_stored_state(self) -> None:
        self.leadership.stored(self.stored)
        self.look()

    @invariant()
    def every_electable_replica_has_all_committed_records(self) -> None:
        for one in {*self.stored.isr, *self.stored.elr} - {LEADER}:
            assert self.has[one] >= self.high_watermark, one


AnyHistory.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyHistory = pytest.mark.timeout(120)(AnyHistory.TestCase)
