"""Cooperative-sticky assignor: like sticky, but members revoke only the partitions that move.

Members continue to read the other partitions during a rebalance. A partition moves in two rebalances. In the first one
it is assigned to no member, so its owner revokes it and joins again. In the second one it is free, and is assigned to
the new owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from moldau.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    Assignor,
    Members,
    MemberSubscription,
    RebalanceProtocol,
)
from moldau.client.consumer.assignors.balance import balanced
from moldau.client.data_types import TopicPartition

_GENERATION = Struct(">i")


class CooperativeStickyAssignor(Assignor):
    """Uses the owned partitions in the subscriptions. The user data has the generation, for older clients."""

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
        return without_owned_by_others(balanced(partitions, members, owned), members)


def without_owned_by_others(wanted: Assignment, members: Members) -> Assignment:
    """Remove partitions that another member still owns, in any generation: that member must revoke them first."""
    claimants: dict[TopicPartition, list[str]] = {}
    for member, one in members.items():
        for partition in one.owned:
            claimants.setdefault(partition, []).append(member)
    return {
        member: [one for one in some if claimants.get(one, [member]) == [member]] for member, some in wanted.items()
    }


def _generation(member: MemberSubscription) -> int:
    """Return the generation in the subscription or, for an older client, in its user data."""
    data = member.user_data
    if member.generation != NO_GENERATION or data is None or len(data) < _GENERATION.size:
        return member.generation
    generation: int = _GENERATION.unpack_from(data)[0]
    return generation
