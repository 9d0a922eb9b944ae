"""Cooperative-sticky: as sticky, but members read on during a rebalance and give up only what others are to have.

A partition that moves takes two rebalances: in the first nobody but its present reader may have it, and that one is
told to give it up; having done so it joins again, and in the second rebalance the partition is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from moldau.client.consumer.assignors.balance import balanced
from moldau.client.consumer.assignors.model import (
    NO_GENERATION,
    Assignment,
    Assignor,
    Members,
    MemberSubscription,
    RebalanceProtocol,
)
from moldau.client.model import TopicPartition

_GENERATION = Struct(">i")


class CooperativeStickyAssignor(Assignor):
    """What members read stands in their subscriptions; the user data has the generation, for older clients."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = NO_GENERATION

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        return _GENERATION.pack(self._generation)

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:
        self._generation = generation

    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        owned = {member: (_generation(one), one.owned) for member, one in members.items()}
        return without_what_others_read(balanced(partitions, members, owned), members)


def without_what_others_read(wanted: Assignment, members: Members) -> Assignment:
    """Leaves out what another member still reads, whatever generation it believes to be in: it has to stop first."""
    claimants: dict[TopicPartition, list[str]] = {}
    for member, one in members.items():
        for partition in one.owned:
            claimants.setdefault(partition, []).append(member)
    return {
        member: [one for one in some if claimants.get(one, [member]) == [member]] for member, some in wanted.items()
    }


def _generation(member: MemberSubscription) -> int:
    """From the subscription, or from the user data of a client whose subscriptions do not have it yet."""
    data = member.user_data
    if member.generation != NO_GENERATION or data is None or len(data) < _GENERATION.size:
        return member.generation
    generation: int = _GENERATION.unpack_from(data)[0]
    return generation
