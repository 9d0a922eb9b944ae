"""Partition reassignment: begin, cancel and complete. Pure decisions.

While a reassignment is in progress, `replicas` has the target replicas, followed by those that will be removed. Added
replicas (`adding`) catch up like any follower. When all of them are in sync, the replicas in `removing` leave together.
So the partition never has fewer in-sync replicas than it will have afterwards.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from moldau.cluster.errors import Refusal
from moldau.cluster.image import NO_LEADER, ClusterImage, PartitionState
from moldau.cluster.isr import eligible, in_order
from moldau.wire.errors import ErrorCode
from moldau.wire.number_types import LeaderEpoch, PartitionEpoch


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The target replicas of a partition, preferred leader first; None cancels the reassignment in progress."""

    topic: str
    index: int
    replicas: tuple[int, ...] | None


def is_under_way(state: PartitionState) -> bool:
    return bool(state.adding or state.removing)


def target(state: PartitionState) -> tuple[int, ...]:
    """The replicas after the reassignment."""
    return tuple([replica for replica in state.replicas if replica not in state.removing])


def origin(state: PartitionState) -> tuple[int, ...]:
    """The replicas before the reassignment."""
    return tuple([replica for replica in state.replicas if replica not in state.adding])


def reassigned(image: ClusterImage, wanted: Reassignment, min_isr: int) -> PartitionState | Refusal:
    """The state with the reassignment in progress, or complete if nothing has to be copied."""
    state = image.partition(wanted.topic, wanted.index)
    if state is None:
        message = f"Partition {wanted.topic}-{wanted.index} does not exist."
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    if wanted.replicas is None:
        if not is_under_way(state):
            message = f"No reassignment of partition {wanted.topic}-{wanted.index} is under way."
            return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, message)
        return _towards(state, origin(state), image.brokers, min_isr)
    refusal = _refused(image, state, wanted.replicas)
    if refusal is not None:
        return refusal
    return _towards(state, wanted.replicas, image.brokers, min_isr)


def completed(state: PartitionState, alive: Container[int], min_isr: int) -> PartitionState:
    """The state without the removed replicas, if all added replicas are in sync; otherwise the state unchanged."""
    if not is_under_way(state):
        return state
    goal = target(state)
    isr = tuple([member for member in state.isr if member in goal])
    enough = min(min_isr, len(goal))
    if len(isr) < enough or any(replica not in isr for replica in state.adding):
        return state
    leader = state.leader
    if leader not in isr:
        leader = next((member for member in isr if member in alive), NO_LEADER)
        if leader == NO_LEADER:
            return state  # the remaining replicas are dead: those in `removing` are still needed
    done = replace(state, replicas=goal, adding=(), removing=())
    return replace(
        done,
        isr=in_order(done, isr),
        elr=eligible(done, isr, min_isr, also=state.removing),
        last_known_elr=(),
        leader=leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + (leader != state.leader)),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
    )


def _towards(state: PartitionState, goal: tuple[int, ...], alive: Container[int], min_isr: int) -> PartitionState:
    """Begin a reassignment from the replicas that existed before any reassignment.

    Replicas that an earlier reassignment was adding and that this one does not want are dropped at once. Those that
    have already caught up are an exception: the high watermark may depend on them. They are removed when this one is
    complete.
    """
    counted = (state.leader, *state.isr, *state.elr, *state.last_known_elr)
    before = tuple([one for one in state.replicas if one not in state.adding or one in counted])
    adding = tuple([replica for replica in goal if replica not in before])
    removing = tuple([replica for replica in before if replica not in goal])
    replicas = (*goal, *removing)
    if (replicas, adding, removing) == (state.replicas, state.adding, state.removing):
        return state
    begun = replace(state, replicas=replicas, adding=adding, removing=removing)
    begun = replace(
        begun,
        isr=in_order(begun, state.isr),
        elr=in_order(begun, state.elr),
        last_known_elr=in_order(begun, state.last_known_elr),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
    )
    done = completed(begun, alive, min_isr)
    return done if done is begun else replace(done, partition_epoch=begun.partition_epoch)


def _refused(image: ClusterImage, state: PartitionState, replicas: tuple[int, ...]) -> Refusal | None:
    if not replicas:
        return _bad("The list of replicas is empty.")
    if len(set(replicas)) != len(replicas):
        return _bad(f"The list of replicas names a broker more than once: {list(replicas)}.")
    for replica in replicas:
        if replica < 0:
            return _bad(f"{replica} is not the id of a broker.")
        # An existing replica may be dead: it is kept, and nothing has to be copied to it.
        if replica not in image.brokers and replica not in state.replicas:
            return _bad(f"Broker {replica} is not registered.")
    return None


def _bad(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
