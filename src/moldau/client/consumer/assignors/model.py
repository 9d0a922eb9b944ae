"""What an assignor is, and what it is told about the members that it assigns partitions to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import ClassVar, Final, NamedTuple

from moldau.client.model import TopicPartition

NO_GENERATION: Final = -1


class RebalanceProtocol(Enum):
    """What members do with their partitions when a rebalance begins."""

    EAGER = "eager"
    """They give up all, and get what is assigned."""
    COOPERATIVE = "cooperative"
    """They keep all, and give up afterwards what is no longer theirs; a second rebalance hands that out."""


class MemberSubscription(NamedTuple):
    """What a member said when it joined."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    """What it reads at the moment; an eager member has given up everything and says nothing."""
    generation: int = NO_GENERATION
    """The generation in which it got that."""
    user_data: bytes | None = None
    instance_id: str | None = None
    """Set for a static member."""
    rack: str | None = None


Members = Mapping[str, MemberSubscription]
"""By member id."""

Assignment = dict[str, list[TopicPartition]]
"""For each member id, its partitions."""


class Assignor(ABC):
    """Derive your own from this; `name` is what the members of a group agree on, so all of them need the same class."""

    name: ClassVar[str]
    protocols: ClassVar[Collection[RebalanceProtocol]] = (RebalanceProtocol.EAGER,)

    @abstractmethod
    def assign(self, partitions: Mapping[str, int], members: Members) -> Assignment:
        """Assigns every partition to one member that subscribes to its topic.

        `partitions` has the number of partitions of each topic that exists; a topic that is missing has none. Runs in
        the member that leads the group, and must not block: while it runs, heartbeats stand still.
        """

    def user_data(self, topics: Sequence[str]) -> bytes | None:
        """What this member wants to tell the leader about itself; comes back in `MemberSubscription.user_data`."""
        return None

    def on_assignment(self, partitions: Sequence[TopicPartition], generation: int) -> None:  # noqa: B027
        """This member was assigned these. Most assignors do not care."""


def in_order(members: Members) -> list[str]:
    """Member ids, static members first and by their instance id: a restart, which changes ids, moves nobody."""
    return sorted(members, key=lambda one: (members[one].instance_id is None, members[one].instance_id or "", one))
