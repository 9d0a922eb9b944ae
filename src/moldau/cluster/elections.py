"""Leader election: when brokers die, return or resign, or when an operator requests it. Pure decisions.

A leader is chosen in this order, within each group in the order of the replicas:

1. a live member of the ISR;
2. a live eligible leader (ELR), which also has every record that was acknowledged to acks=all;
3. only if unclean election is allowed: the last known eligible leaders, which returned without the end of their logs,
   and then any live replica. The log of an unclean leader replaces all others, even if it lacks records.

Every change of leader increments the leader epoch, and so does every restart of the same leader. Every change of the
state increments the partition epoch. A decision that changes nothing returns the same state object.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from enum import IntEnum

from moldau.cluster.errors import Refusal
from moldau.cluster.image import NO_LEADER, ClusterImage, PartitionState
from moldau.cluster.isr import effective_min_isr, eligible, in_order
from moldau.wire.errors import ErrorCode
from moldau.wire.number_types import LeaderEpoch, PartitionEpoch


class ElectionKind(IntEnum):
    """The numbers of the wire protocol."""

    PREFERRED = 0
    UNCLEAN = 1


def settled(state: PartitionState, alive: Container[int], min_isr: int, *, unclean: bool = False) -> PartitionState:
    """The state for these live brokers: dead replicas leave the ISR, and a partition without a live leader gets one."""
    isr = state.isr
    for replica in isr:
        if replica not in alive:
            isr = tuple([member for member in isr if member in alive])
            break
    else:
        if state.leader in alive:
            return state  # nearly always
    elr = eligible(state, isr, min_isr)
    if isr and state.leader in isr:
        return replace(state, isr=isr, elr=elr, partition_epoch=PartitionEpoch(state.partition_epoch + 1))
    return _led(state, _choice(state, isr, elr, alive, unclean), isr, elr, min_isr)


def restarted(
    state: PartitionState, broker: int, others: Container[int], min_isr: int, *, lost: bool
) -> PartitionState:
    """The state before a broker registers again, as a new incarnation.

    The broker resigns wherever another broker can lead, and never leads in an epoch of its former incarnation. If it
    may have lost the end of its log, it leaves ISR and ELR, unless it is the only replica: then no broker has more
    records. `others` are the other live brokers.
    """
    lost = lost and len(state.replicas) > 1
    if not lost and state.leader != broker:
        return state
    isr, elr, last_known = state.isr, state.elr, state.last_known_elr
    if lost and (broker in isr or broker in elr):
        isr = tuple([member for member in isr if member != broker])
        elr = eligible(state, isr, min_isr, also=(broker,))
        if not isr and not elr:
            last_known = in_order(state, (*last_known, broker))
    if state.leader != broker:
        if (isr, elr, last_known) == (state.isr, state.elr, state.last_known_elr):
            return state
        epoch = PartitionEpoch(state.partition_epoch + 1)
        return replace(state, isr=isr, elr=elr, last_known_elr=last_known, partition_epoch=epoch)
    leader = _choice(state, isr, elr, others, unclean=False)
    if leader == NO_LEADER and not lost:
        leader = broker
    stripped = replace(state, isr=isr, elr=elr, last_known_elr=last_known)
    return _led(stripped, leader, isr, elr, min_isr, new_life=True)


def resigned(
    state: PartitionState, broker: int, alive: Container[int], min_isr: int, *, leave_isr: bool = True
) -> PartitionState:
    """The state after a live broker hands over its leadership and, with `leave_isr`, leaves the ISR.

    If no other broker could take over, nothing changes: a leader that is about to stop is better than no leader.
    """
    if broker not in state.isr:
        return state
    others = tuple([member for member in state.isr if member != broker and member in alive])
    if not others:
        return state
    leader = others[0] if state.leader == broker else state.leader
    isr, elr = state.isr, state.elr
    if leave_isr:
        isr = tuple([member for member in state.isr if member != broker])
        elr = eligible(state, isr, min_isr)
    elif leader == state.leader:
        return state
    return _changed(state, leader, isr, elr)


def preferred(state: PartitionState, alive: Container[int]) -> PartitionState:
    """The state with the first replica as leader, if that replica is alive and in sync."""
    first = state.replicas[0]
    if state.leader == first or first not in state.isr or first not in alive:
        return state
    return _changed(state, first, state.isr, state.elr)


def requested(
    image: ClusterImage, topic: str, index: int, kind: ElectionKind, min_isr: Callable[[str], int]
) -> PartitionState | Refusal:
    """The state after an election that an operator requested, or why it is refused."""
    state = image.partition(topic, index)
    if state is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Partition {topic}-{index} does not exist.")
    alive = image.brokers
    if kind == ElectionKind.PREFERRED:
        if state.leader == state.replicas[0]:
            return Refusal(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica leads already.")
        elected = preferred(state, alive)
        if elected is state:
            message = f"Broker {state.replicas[0]}, the preferred leader, is not in sync or not alive."
            return Refusal(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message)
        return elected
    if state.leader in alive:
        return Refusal(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {state.leader} leads, and is alive.")
    elected = settled(state, alive, min_isr(topic), unclean=True)
    if elected.leader == NO_LEADER:
        return Refusal(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "None of its replicas is alive.")
    return elected


def _choice(
    state: PartitionState, isr: Container[int], elr: Container[int], alive: Container[int], unclean: bool
) -> int:
    for replicas in (isr, elr):
        for replica in state.replicas:
            if replica in replicas and replica in alive:
                return replica
    if unclean:
        for replicas in (state.last_known_elr, state.replicas):
            for replica in replicas:
                if replica in alive:
                    return replica
    return NO_LEADER


def _led(
    state: PartitionState,
    leader: int,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    min_isr: int,
    *,
    new_life: bool = False,
) -> PartitionState:
    """The state with the chosen leader and the matching ISR and ELR."""
    if leader != NO_LEADER and leader not in isr:
        clean = leader in elr
        # The members of the ISR are dead, otherwise one of them would lead. They have all records of the new leader.
        elr = tuple([replica for replica in state.replicas if replica in (*elr, *isr) and replica != leader])
        isr = (leader,)
        if not clean or len(isr) >= effective_min_isr(min_isr, state.replicas, state.adding):
            elr = ()
    return _changed(state, leader, isr, elr, new_life=new_life)


def _changed(
    state: PartitionState, leader: int, isr: tuple[int, ...], elr: tuple[int, ...], *, new_life: bool = False
) -> PartitionState:
    if not new_life and (leader, isr, elr) == (state.leader, state.isr, state.elr):
        return state
    return replace(
        state,
        leader=leader,
        isr=isr,
        elr=elr,
        last_known_elr=() if leader != NO_LEADER else state.last_known_elr,
        leader_epoch=LeaderEpoch(state.leader_epoch + (new_life or leader != state.leader)),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
    )
