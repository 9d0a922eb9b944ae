"""What the leader of a partition knows of its followers, and what follows from that: who is in sync, and how far the
high watermark may go. Pure: time comes in as seconds of any steady clock.

One object serves one leader epoch. Four rules carry the promise that what was acknowledged under acks=all is on every
replica that may become leader:

* The high watermark never passes what a member of the *maximal* in-sync set has: the stored one and, while a change of
  it is under way and nobody can tell whether it was stored, the proposed one too.
* It stands still while fewer than `min.insync.replicas` are in sync, or others are eligible (KIP-966): who left the set
  then has everything below it, and may be elected.
* Within an epoch it does not go back.
* A follower comes in when it has fetched, in this epoch, up to the high watermark and up to where the epoch began.
  Before that it might miss records that were acknowledged by an earlier leader.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

from moldau.cluster.image import PartitionState
from moldau.cluster.isr import effective_min_isr, high_watermark_may_advance, in_order

UNKNOWN: Final = -1
NEVER: Final = float("-inf")
UNLIMITED: Final = (1 << 63) - 1

JOIN_HOLD_S: Final = 0.5
"""For how long after its last fetch the high watermark waits for a follower that has caught up and is not in sync yet.
Under a stream of appends it would always come a little late otherwise, and never in."""


class Follower:
    """What its fetches have told of one follower."""

    __slots__ = ("broker_epoch", "caught_up_at", "end_offset", "fetched_at", "leader_end_offset", "start_offset")

    def __init__(self, caught_up_at: float) -> None:
        self.end_offset = UNKNOWN
        self.start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.caught_up_at = caught_up_at
        """When it last had all that the leader had."""
        self.fetched_at = NEVER
        self.leader_end_offset = UNKNOWN
        """Where the leader's log ended when it last fetched."""

    def fetched(self, offset: int, start_offset: int, broker_epoch: int, leader_end_offset: int, now: float) -> None:
        """It asks for what comes at `offset`: it has all below. Kafka's rule for having caught up: it asks for the end,
        or for what was the end when it asked last (then it was there at that time)."""
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
    """How far the high watermark may go for what others have."""

    offset: int
    held: bool
    """Only for the sake of a follower that is about to come in: look again when JOIN_HOLD_S have passed."""


class Leadership:
    """A leader's view of one partition in one leader epoch."""

    __slots__ = ("_node_id", "followers", "proposal", "start_offset", "state")

    def __init__(self, node_id: int, state: PartitionState, end_offset: int, now: float) -> None:
        self._node_id = node_id
        self.state = state
        """As it is stored, as far as this broker knows."""
        self.start_offset = end_offset
        """Where this epoch's records begin."""
        self.proposal: tuple[int, ...] | None = None
        """A change of the in-sync set that may or may not have been stored."""
        self.followers: dict[int, Follower] = {
            one: Follower(now if one in state.isr else NEVER) for one in state.replicas if one != node_id
        }

    @property
    def isr(self) -> tuple[int, ...]:
        """The stored in-sync set."""
        return self.state.isr

    # -- what the store says ---------------------------------------------------------------------------------------

    def stored(self, state: PartitionState) -> bool:
        """The state is stored; False where a later one is known already."""
        known = self.state
        if state.leader_epoch != known.leader_epoch or state.partition_epoch < known.partition_epoch:
            return False
        if state.partition_epoch > known.partition_epoch:
            # What was proposed against the former state is this one, or was refused for it.
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
        """From now on the members of both sets count."""
        assert self.proposal is None, "one proposal at a time: the next is made of what becomes of this one"
        self.proposal = isr

    def refused(self) -> None:
        """The proposal was certainly not stored."""
        self.proposal = None

    # -- what followers say ----------------------------------------------------------------------------------------

    def lost(self, replica: int) -> None:
        """The broker is gone: nobody waits for it to come in. What it had, as a member of the set, it still has."""
        follower = self.followers.get(replica)
        if follower is not None:
            follower.fetched_at = NEVER

    def counts(self, replica: int) -> bool:
        """Whether it is in the maximal in-sync set."""
        return replica in self.state.isr or (self.proposal is not None and replica in self.proposal)

    # -- decisions -------------------------------------------------------------------------------------------------

    def reach(self, high_watermark: int, min_insync: int, now: float, max_lag_s: float) -> Reach:
        """How far the high watermark may go, the leader's own log aside."""
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

    def may_come_in(self, replica: int, high_watermark: int) -> bool:
        """Whether to propose it for the in-sync set."""
        follower = self.followers.get(replica)
        return (
            follower is not None
            and self.proposal is None
            and replica not in self.state.isr
            and follower.end_offset >= high_watermark
            and follower.end_offset >= self.start_offset
        )

    def with_member(self, replica: int) -> tuple[int, ...]:
        """The in-sync set and this one, in the order of the replicas."""
        return in_order(self.state, {replica, *self.state.isr})

    def holds_for_nothing(self, min_insync: int) -> bool:
        """Whether the in-sync set is large enough, and only replicas that are still called eligible outside of it keep
        the high watermark where it is: `min.insync.replicas` was lowered. To propose the same set again ends that."""
        return bool(self.state.elr) and len(self.state.isr) >= effective_min_isr(min_insync, self.state)

    def without_laggards(self, end_offset: int, now: float, max_lag_s: float) -> tuple[int, ...]:
        """The in-sync set without those who have not been where the log ends for `max_lag_s`."""
        return tuple(
            one
            for one in self.state.isr
            if one not in self.followers
            or self.followers[one].end_offset >= end_offset
            or now - self.followers[one].caught_up_at <= max_lag_s
        )

    def low_watermark(self, start_offset: int, live: Container[int]) -> int:
        """The least start of all live replicas' logs, given the leader's own; -1 while one has not told."""
        return min([start_offset, *(one.start_offset for replica, one in self.followers.items() if replica in live)])
