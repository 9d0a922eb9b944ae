"""Who leads a partition: when brokers die, come back, resign, or an operator asks. Pure decisions over one state.

A leader is taken from the live members of the ISR, in the replicas' order; where there is none, from the live eligible
leaders (ELR), who have every record that was acknowledged to acks=all as well; and only where unclean election is
allowed from the rest: first those who were the last to be eligible before they lost the end of their logs, then any
live replica. An unclean leader is the whole truth from then on, whatever it lacks.

Every change of leader, and every new life of the same one, is a new leader epoch; every change is a new partition
epoch. A decision that changes nothing gives back the very state that it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from enum import IntEnum

from moldau.cluster.image import NO_LEADER, ClusterImage, PartitionState
from moldau.cluster.isr import effective_min_isr, eligible, in_order
from moldau.cluster.refusal import Refusal
from moldau.wire.errors import ErrorCode


class ElectionKind(IntEnum):
    """As on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


def settled(state: PartitionState, alive: Container[int], min_isr: int, *, unclean: bool = False) -> PartitionState:
    """The state once it is known who is alive: the dead leave the ISR, and whoever can leads where nobody does."""
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
        return replace(state, isr=isr, elr=elr, partition_epoch=state.partition_epoch + 1)
    return _led(state, _choice(state, isr, elr, alive, unclean), isr, elr, min_isr)


def reborn(state: PartitionState, broker: int, others: Container[int], min_isr: int, *, lost: bool) -> PartitionState:
    """The state before a broker begins a new life: it leads nothing that another one can lead, and nothing in the epoch
    of a former life. If it may have lost the end of its log it leaves ISR and ELR, unless it is the only replica: then
    nobody has more than it. `others` are those who are alive beside it."""
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
        epoch = state.partition_epoch + 1
        return replace(state, isr=isr, elr=elr, last_known_elr=last_known, partition_epoch=epoch)
    leader = _choice(state, isr, elr, others, unclean=False)
    if leader == NO_LEADER and not lost:
        leader = broker
    stripped = replace(state, isr=isr, elr=elr, last_known_elr=last_known)
    return _led(stripped, leader, isr, elr, min_isr, new_life=True)


def resigned(
    state: PartitionState, broker: int, alive: Container[int], min_isr: int, *, leave_isr: bool = True
) -> PartitionState:
    """The state after a live broker hands over what it leads and, if it wants to, leaves the ISR. Where nobody could
    take its place it stays: a partition with a leader that is about to go is better than one without."""
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
    """The state with its first replica as leader, where that one is alive and in sync."""
    first = state.replicas[0]
    if state.leader == first or first not in state.isr or first not in alive:
        return state
    return _changed(state, first, state.isr, state.elr)


def asked_for(
    image: ClusterImage, topic: str, index: int, kind: ElectionKind, min_isr: Callable[[str], int]
) -> PartitionState | Refusal:
    """What an operator's election comes to."""
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
    """The state with the leader that was chosen, and the ISR that goes with it."""
    if leader != NO_LEADER and leader not in isr:
        clean = leader in elr
        # Those in the ISR are dead, or one of them would lead. They have what the new leader has.
        elr = tuple([replica for replica in state.replicas if replica in (*elr, *isr) and replica != leader])
        isr = (leader,)
        if not clean or len(isr) >= effective_min_isr(min_isr, state):
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
        leader_epoch=state.leader_epoch + (new_life or leader != state.leader),
        partition_epoch=state.partition_epoch + 1,
    )
