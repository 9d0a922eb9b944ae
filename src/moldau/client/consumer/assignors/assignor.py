"""Base class of assignors, and the subscriptions of members that an assignor gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import ClassVar, Final, NamedTuple

from moldau.client.data_types import TopicPartition

NO_GENERATION: Final = -1


class RebalanceProtocol(Enum):
    """What members do with their partitions when a rebalance starts."""

    EAGER = "eager"
    """Members revoke all their partitions before they join."""
    COOPERATIVE = "cooperative"
    """Members keep their partitions. They revoke those that move, and a second rebalance assigns these."""


class MemberSubscription(NamedTuple):
    """The subscription that a member sends in JoinGroup."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that the member owns; empty for an eager member, which has revoked them."""
    generation: int = NO_GENERATION
    """The generation in which it got these partitions."""
    user_data: bytes | None = None
    instance_id: str | None = None
    """Set for a static member."""
    rack: str | None = None


Members = Mapping[str, MemberSubscription]
"""Subscriptions by member id."""

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id."""


class Assignor(ABC):
    """Base class of assignors. Members agree on a `name` that all of them support, so all need the same class."""

    name: ClassVar[str]
    protocols: ClassVar[Collection[RebalanceProtocol]] = (RebalanceProtocol.EAGER,)

    @abstractmethod
    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        """Assign every partition to one member that subscribes to its topic.

        `partitions` has the number of partitions per topic, without topics that do not exist. The leader of the group
        calls this on its event loop. It must not block, because no heartbeats are sent meanwhile.
        """

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """Return bytes for the leader, which gets them in `MemberSubscription.user_data`."""
        return None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:  # noqa: B027
        """Called when this member has got its assignment. Most assignors ignore it."""


def in_order(members: Members) -> list[str]:
    """Sort member ids: static members first, by instance id. So a restart, which changes the id, moves no partition."""
    return sorted(members, key=lambda one: (members[one].instance_id is None, members[one].instance_id or "", one))
