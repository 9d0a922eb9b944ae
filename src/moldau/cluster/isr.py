"""The in-sync replicas of a partition: may they change so, and what is the partition's state then? Pure decisions.

The leader proposes who is in sync, and counts on it only once it is stored. Whoever leaves while fewer than
`min.insync.replicas` are left becomes an eligible leader (ELR): the high watermark stands still from then on, so it has
every record that was acknowledged to acks=all, and may lead again although it is not in sync.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, replace

from moldau.cluster.image import ClusterImage, PartitionState, TopicImage
from moldau.cluster.refusal import Refusal
from moldau.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """What a leader wants the ISR to be, and the epochs that it knows. `epochs` are the broker epochs of those that
    come in, as they fetched with them: a follower that has died since is not taken in."""

    topic: str
    topic_id: bytes
    index: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    epochs: Mapping[int, int]


def effective_min_isr(configured: int, state: PartitionState) -> int:
    """`min.insync.replicas` of a partition: never more than it has replicas, those that are only coming not counted."""
    return max(1, min(configured, len(state.replicas) - len(state.adding)))


def high_watermark_may_advance(state: PartitionState, configured_min_isr: int) -> bool:
    """Whether a leader may take in-sync replicas alone as proof that a record is safe.

    While there are eligible leaders outside of the ISR, one of them may be elected, so nothing that they lack may be
    acknowledged: also where `min.insync.replicas` was lowered meanwhile. A leader that has enough in-sync replicas by
    the new number proposes the same ISR again, which ends their eligibility, and then goes on.
    """
    return not state.elr and len(state.isr) >= effective_min_isr(configured_min_isr, state)


def in_order(state: PartitionState, ids: Container[int]) -> tuple[int, ...]:
    """These brokers, as far as they are replicas, in the replicas' order."""
    return tuple([replica for replica in state.replicas if replica in ids])


def eligible(state: PartitionState, isr: Collection[int], min_isr: int, also: Collection[int] = ()) -> tuple[int, ...]:
    """The ELR that goes with a new ISR: nobody where it is large enough, else those who were eligible or in sync until
    now. `also` leave neither with full right: they are not among them."""
    if len(isr) >= effective_min_isr(min_isr, state):
        return ()
    return tuple(
        [
            replica
            for replica in state.replicas
            if (replica in state.elr or replica in state.isr) and replica not in isr and replica not in also
        ]
    )


def proposed(image: ClusterImage, proposal: IsrProposal, *, proposer: int, min_isr: int) -> PartitionState | Refusal:
    """The partition's state as its leader proposes it; the state as it is where nothing would change."""
    topic = image.topics.get(proposal.topic)
    if topic is None or not 0 <= proposal.index < len(topic.partitions):
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, proposal, "does not exist")
    if topic.id != proposal.topic_id:
        return _refused(ErrorCode.UNKNOWN_TOPIC_ID, proposal, "is of another topic now")
    state = topic.partitions[proposal.index]
    refusal = _outdated(state, proposal, proposer) or _impossible(image, state, proposal)
    if refusal is not None:
        return refusal
    isr = in_order(state, proposal.isr)
    elr = eligible(state, isr, min_isr)
    if (isr, elr) == (state.isr, state.elr) and not state.last_known_elr:
        return state
    return replace(state, isr=isr, elr=elr, last_known_elr=(), partition_epoch=state.partition_epoch + 1)


def comers(topic: TopicImage, proposal: IsrProposal) -> list[int]:
    """Who would come into the ISR."""
    state = topic.partitions[proposal.index]
    return [replica for replica in proposal.isr if replica not in state.isr]


def _outdated(state: PartitionState, proposal: IsrProposal, proposer: int) -> Refusal | None:
    if state.leader_epoch != proposal.leader_epoch:
        return _refused(ErrorCode.FENCED_LEADER_EPOCH, proposal, f"has leader epoch {state.leader_epoch} now")
    if state.leader != proposer:
        return _refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, proposal, f"is led by broker {state.leader}")
    if state.partition_epoch != proposal.partition_epoch:
        return _refused(ErrorCode.INVALID_UPDATE_VERSION, proposal, f"has partition epoch {state.partition_epoch} now")
    return None


def _impossible(image: ClusterImage, state: PartitionState, proposal: IsrProposal) -> Refusal | None:
    if state.leader not in proposal.isr or len(set(proposal.isr)) != len(proposal.isr):
        return _refused(ErrorCode.INVALID_REQUEST, proposal, "needs its leader in the ISR, and everyone once")
    for replica in proposal.isr:
        if replica not in state.replicas:
            return _refused(ErrorCode.INVALID_REQUEST, proposal, f"has no replica on broker {replica}")
        if replica in state.isr:
            continue
        broker = image.brokers.get(replica)
        if broker is None or broker.epoch != proposal.epochs.get(replica):
            return _refused(ErrorCode.INELIGIBLE_REPLICA, proposal, f"cannot have broker {replica}: its life is over")
    return None


def _refused(code: ErrorCode, proposal: IsrProposal, why: str) -> Refusal:
    return Refusal(code, f"Partition {proposal.topic}-{proposal.index} {why}.")
