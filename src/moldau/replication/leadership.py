"""Leadership of a partition: the state of its followers, the ISR, and the limit of the high watermark.

Pure: time is passed in, as seconds of any monotonic clock. One object serves one leader epoch. Four rules guarantee
that a record that was acknowledged with acks=all is on every replica that may become leader:

* The high watermark never passes the end offset of a member of the *maximal* ISR: the stored ISR and, while it is
  unknown whether a change was stored, also the proposed ISR.
* It does not move while fewer than `min.insync.replicas` are in sync, or while there are eligible leaders (KIP-966):
  replicas that left the ISR then have everything below it and may be elected.
* It does not go back within an epoch.
* A follower joins the ISR only after it has fetched, in this epoch, up to the high watermark and up to the start offset
  of the epoch. Before that it may lack records that were acknowledged by an earlier leader.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

from moldau.cluster.image import PartitionState
from moldau.cluster.isr import high_watermark_may_advance, in_order, is_under_min_isr
from moldau.wire.number_types import NO_BROKER_EPOCH, BrokerEpoch

UNKNOWN: Final = -1
NEVER: Final = float("-inf")
UNLIMITED: Final = (1 << 63) - 1

JOIN_HOLD_S: Final = 0.5
"""How long after its last fetch the high watermark waits for a follower that has caught up but is not in the ISR yet.
Without this wait, a follower would always be a little late under constant appends, and would never join."""


class Follower:
    """The state of one follower, from its fetches."""

    __slots__ = ("broker_epoch", "caught_up_at", "end_offset", "fetched_at", "leader_end_offset", "start_offset")

    def __init__(self, caught_up_at: float) -> None:
        self.end_offset = UNKNOWN
        self.start_offset = UNKNOWN
        self.broker_epoch = NO_BROKER_EPOCH
        self.caught_up_at = caught_up_at
        """When it last had all records of the leader."""
        self.fetched_at = NEVER
        self.leader_end_offset = UNKNOWN
        """The leader's log end offset at the follower's last fetch."""

    def fetched(
        self, offset: int, start_offset: int, broker_epoch: BrokerEpoch, leader_end_offset: int, now: float
    ) -> None:
        """The follower fetches from `offset`: it has all records below it.

        Kafka's rule for being caught up: it fetches from the log end offset, or from what was the log end offset at its
        previous fetch (then it had caught up at that time).
        """
        if offset >= leader_end_offset:
            self.caught_up_at = now
        elif 0 <= self.leader_end_offset <= offset and self.fetched_at > self.caught_up_at:
            self.caught_up_at = self.fetched_at
        self.end_offset = offset
        self.start_offset = start_offset
        self.broker_epoch = broker_epoch
        self.fetched_at = now
        self.leader_end_offset = leader_end_offset


class Reach(NamedTuple):
    """The limit of the high watermark that the followers impose."""

    offset: int
    held: bool
    """Whether only a follower that is about to join imposes the limit: check again after JOIN_HOLD_S."""


class Leadership:
    """A leader's view of one partition in one leader epoch."""

    __slots__ = ("_node_id", "followers", "proposal", "start_offset", "state")

    def __init__(self, node_id: int, state: PartitionState, end_offset: int, now: float) -> None:
        self._node_id = node_id
        self.state = state
        """The latest stored state that this broker knows."""
        self.start_offset = end_offset
        """The start offset of this epoch."""
        self.proposal: tuple[int, ...] | None = None
        """A change of the ISR that may or may not have been stored."""
        self.followers: dict[int, Follower] = {
            one: Follower(now if one in state.isr else NEVER) for one in state.replicas if one != node_id
        }

    @property
    def isr(self) -> tuple[int, ...]:
        """The stored ISR."""
        return self.state.isr

    # -- store results ---------------------------------------------------------------------------------------------

    def stored(self, state: PartitionState) -> bool:
        """Apply a stored state; False if a later one is already known."""
        known = self.state
        if state.leader_epoch != known.leader_epoch or state.partition_epoch < known.partition_epoch:
            return False
        if state.partition_epoch > known.partition_epoch:
            # The proposal against the former state either is this state, or was refused because of it.
            self.proposal = None
        self.state = state
        if state.replicas != known.replicas:
            followers = self.followers
            self.followers = {
                one: followers[one] if one in followers else Follower(NEVER)
                for one in state.replicas
                if one != self._node_id
            }
        return True

    def propose(self, isr: tuple[int, ...]) -> None:
        """Propose an ISR. From now on the members of both sets hold back the high watermark."""
        assert self.proposal is None, "only one proposal at a time: the next one builds on its result"
        self.proposal = isr

    def refused(self) -> None:
        """Drop the proposal, which was certainly not stored."""
        self.proposal = None

    # -- follower state --------------------------------------------------------------------------------------------

    def lost(self, replica: int) -> None:
        """A broker is dead: the high watermark does not wait for it to join. Its offset still counts while it is in the
        ISR."""
        follower = self.followers.get(replica)
        if follower is not None:
            follower.fetched_at = NEVER

    def counts(self, replica: int) -> bool:
        """Whether a replica is in the maximal ISR."""
        return replica in self.state.isr or (self.proposal is not None and replica in self.proposal)

    # -- decisions -------------------------------------------------------------------------------------------------

    def reach(self, high_watermark: int, min_insync: int, now: float, max_lag_s: float) -> Reach:
        """The limit of the high watermark, without the leader's own log."""
        if not high_watermark_may_advance(self.state, min_insync):
            return Reach(high_watermark, False)
        members = eager = UNLIMITED
        for replica, follower in self.followers.items():
            if self.counts(replica):
                members = min(members, follower.end_offset)
            elif now - follower.fetched_at <= JOIN_HOLD_S and now - follower.caught_up_at <= max_lag_s:
                eager = min(eager, follower.end_offset)
        if eager < members:
            return Reach(max(eager, high_watermark), True)
        return Reach(max(members, high_watermark), False)

    def may_join_isr(self, replica: int, high_watermark: int) -> bool:
        """Whether to propose a follower for the ISR."""
        follower = self.followers.get(replica)
        return (
            follower is not None
            and self.proposal is None
            and replica not in self.state.isr
            and follower.end_offset >= high_watermark
            and follower.end_offset >= self.start_offset
        )

    def with_member(self, replica: int) -> tuple[int, ...]:
        """The ISR with this replica added, in the order of the replicas."""
        return in_order(self.state, {replica, *self.state.isr})

    def holds_for_nothing(self, min_insync: int) -> bool:
        """Whether the ISR is large enough and only eligible leaders outside of it hold back the high watermark.

        That happens after `min.insync.replicas` was lowered. Proposing the same ISR again clears the ELR.
        """
        return bool(self.state.elr) and not is_under_min_isr(self.state, min_insync)

    def without_laggards(self, end_offset: int, now: float, max_lag_s: float) -> tuple[int, ...]:
        """The ISR without followers that have not caught up for `max_lag_s`."""
        return tuple(
            one
            for one in self.state.isr
            if one not in self.followers
            or self.followers[one].end_offset >= end_offset
            or now - self.followers[one].caught_up_at <= max_lag_s
        )

    def low_watermark(self, start_offset: int, live: Container[int]) -> int:
        """The smallest log start offset of all live replicas and the leader; -1 while that of a follower is unknown."""
        return min([start_offset, *(one.start_offset for replica, one in self.followers.items() if replica in live)])
