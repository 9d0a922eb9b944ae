"""In-sync replicas of a partition: whether a proposed change is valid, and the resulting state. Pure decisions.

The leader proposes the ISR, and relies on it only after it is stored. A replica that leaves while fewer than
`min.insync.replicas` remain becomes an eligible leader (ELR). The high watermark does not move from then on, so the
replica has every record that was acknowledged to acks=all and may lead again although it is not in sync.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, replace

from moldau.cluster.errors import Refusal
from moldau.cluster.image import ClusterImage, PartitionState, TopicImage
from moldau.wire.errors import ErrorCode
from moldau.wire.number_types import BrokerEpoch, LeaderEpoch, PartitionEpoch


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """The ISR that a leader proposes, and the epochs that it knows.

    `epochs` has the broker epochs with which the new members fetched: a follower that has died since then is not added.
    """

    topic: str
    topic_id: bytes
    index: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[int, ...]
    epochs: Mapping[int, BrokerEpoch]


def effective_min_isr(configured: int, replicas: Collection[int], adding: Collection[int]) -> int:
    """`min.insync.replicas` as it holds for a partition: never more than it has replicas, as in Kafka.

    Replicas that a reassignment is only adding do not count. Every comparison of an ISR with the setting (acks=all, the
    high watermark, elections, metrics, `topics describe`) uses this number.
    """
    return max(1, min(configured, len(replicas) - len(adding)))


def is_under_min_isr(state: PartitionState, configured: int) -> bool:
    """Whether acks=all must be refused with NOT_ENOUGH_REPLICAS."""
    return len(state.isr) < effective_min_isr(configured, state.replicas, state.adding)


def high_watermark_may_advance(state: PartitionState, configured_min_isr: int) -> bool:
    """Whether the in-sync replicas alone prove that a record is safe, so that the leader may advance the high
    watermark.

    While there are eligible leaders outside the ISR, one of them may be elected. Records that they lack must not be
    acknowledged, even if `min.insync.replicas` was lowered in the meantime. A leader that has enough in-sync replicas
    by the new value proposes the same ISR again. This clears the ELR, and then the high watermark advances.
    """
    return not state.elr and not is_under_min_isr(state, configured_min_isr)


def in_order(state: PartitionState, ids: Container[int]) -> tuple[int, ...]:
    """Those of the brokers that are replicas, in the order of the replicas."""
    return tuple([replica for replica in state.replicas if replica in ids])


def eligible(state: PartitionState, isr: Collection[int], min_isr: int, also: Collection[int] = ()) -> tuple[int, ...]:
    """The ELR for a new ISR: empty if the ISR is large enough, otherwise the replicas that were eligible or in sync
    before.

    Replicas in `also` are excluded: they may have lost records or are no longer replicas.
    """
    if len(isr) >= effective_min_isr(min_isr, state.replicas, state.adding):
        return ()
    return tuple(
        [
            replica
            for replica in state.replicas
            if (replica in state.elr or replica in state.isr) and replica not in isr and replica not in also
        ]
    )


def proposed(image: ClusterImage, proposal: IsrProposal, *, proposer: int, min_isr: int) -> PartitionState | Refusal:
    """The partition's state after the leader's proposal; the same state object if nothing changes."""
    topic = image.topics.get(proposal.topic)
    if topic is None or not 0 <= proposal.index < len(topic.partitions):
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, proposal, "does not exist")
    if topic.id != proposal.topic_id:
        return _refused(ErrorCode.UNKNOWN_TOPIC_ID, proposal, "belongs to another topic now")
    state = topic.partitions[proposal.index]
    refusal = _outdated(state, proposal, proposer) or _impossible(image, state, proposal)
    if refusal is not None:
        return refusal
    isr = in_order(state, proposal.isr)
    elr = eligible(state, isr, min_isr)
    if (isr, elr) == (state.isr, state.elr) and not state.last_known_elr:
        return state
    return replace(
        state, isr=isr, elr=elr, last_known_elr=(), partition_epoch=PartitionEpoch(state.partition_epoch + 1)
    )


def added_replicas(topic: TopicImage, proposal: IsrProposal) -> list[int]:
    """The replicas that the proposal adds to the ISR."""
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
        return _refused(ErrorCode.INVALID_REQUEST, proposal, "needs its leader in the ISR, and no replica twice")
    for replica in proposal.isr:
        if replica not in state.replicas:
            return _refused(ErrorCode.INVALID_REQUEST, proposal, f"has no replica on broker {replica}")
        if replica in state.isr:
            continue
        broker = image.brokers.get(replica)
        if broker is None or broker.epoch != proposal.epochs.get(replica):
            return _refused(ErrorCode.INELIGIBLE_REPLICA, proposal, f"cannot add broker {replica}: outdated epoch")
    return None


def _refused(code: ErrorCode, proposal: IsrProposal, why: str) -> Refusal:
    return Refusal(code, f"Partition {proposal.topic}-{proposal.index} {why}.")
