"""A consumer group of the new protocol: members, what each should read, and what each reads now.

All of it is stored; values are immutable and are replaced, so a decision can be tried on a copy. The group's epoch
grows with every change of who reads what; the target assignment belongs to an epoch; each member moves to it at its own
pace, and never reads a partition that another has not given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by the topic's id. Topics without partitions are left out, so that equal assignments are equal."""

NOTHING: Final[Assignment] = {}

LEFT_EPOCH: Final = -1
LEFT_FOR_A_WHILE_EPOCH: Final = -2
"""A static member that left and will come back keeps its partitions until its session ends."""


class MemberState(IntEnum):
    """How far a member has come on its way to the target, with the codes that are stored."""

    STABLE = 1
    UNREVOKED_PARTITIONS = 2
    """It has to give up partitions first."""
    UNRELEASED_PARTITIONS = 3
    """It waits for partitions that others have to give up."""


class GroupState(IntEnum):
    """What a group is told to be in."""

    EMPTY = 0
    ASSIGNING = 1
    RECONCILING = 2
    STABLE = 3

    @property
    def title(self) -> str:
        return self.name.capitalize()


class ClassicMetadata(NamedTuple):
    """What a member that still speaks the classic protocol said of itself."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """A member as it described itself."""

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None


class Current(NamedTuple):
    """What a member reads now."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    revoking: Assignment = NOTHING
    """Still its own until it says that it has given them up."""


NEW_MEMBER: Final = Current()


class TopicMetadata(NamedTuple):
    """A subscribed topic, as far as assignments depend on it."""

    id: bytes
    partitions: int


class ConsumerGroup:
    """The group; changed by the setters below, which are called when records are replayed."""

    __slots__ = ("currents", "epoch", "id", "members", "owners", "static", "target_epoch", "targets", "topics")

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}
        self.target_epoch = 0
        self.targets: dict[str, Assignment] = {}
        self.currents: dict[str, Current] = {}
        self.topics: dict[str, TopicMetadata] = {}
        """What the subscribed topics looked like when the target was computed."""
        self.owners: dict[tuple[bytes, int], str] = {}
        """Who holds a partition, whether it keeps it or is giving it up. At most one member can."""

    def copy(self) -> ConsumerGroup:
        other = ConsumerGroup(self.id)
        other.epoch, other.target_epoch = self.epoch, self.target_epoch
        for name in ("members", "static", "targets", "currents", "topics", "owners"):
            setattr(other, name, dict(getattr(self, name)))
        return other

    # -- setters ---------------------------------------------------------------------------------------------------

    def set_member(self, member: ConsumerMember) -> None:
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]

    def set_target(self, member_id: str, target: Assignment | None) -> None:
        if target is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = target

    def set_current(self, member_id: str, current: Current | None) -> None:
        before = self.currents.pop(member_id, NEW_MEMBER)
        for one in (*partitions_of(before.assigned), *partitions_of(before.revoking)):
            if self.owners.get(one) == member_id:
                del self.owners[one]
        if current is not None:
            self.currents[member_id] = current
            for one in (*partitions_of(current.assigned), *partitions_of(current.revoking)):
                self.owners[one] = member_id

    # -- questions -------------------------------------------------------------------------------------------------

    def current(self, member_id: str) -> Current:
        return self.currents.get(member_id, NEW_MEMBER)

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        for member_id in self.members:
            current = self.current(member_id)
            if current.state is not MemberState.STABLE or current.epoch != self.target_epoch:
                return GroupState.RECONCILING
        return GroupState.STABLE

    def subscribed_topics(self) -> frozenset[str]:
        """The topics that members read, those that they name by a pattern included."""
        named = {topic for member in self.members.values() for topic in member.topics}
        return frozenset(named | set(self.topics))

    def assignor(self, default: str) -> str:
        """The one that most members ask for; whoever asks for none takes any."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return votes.most_common(1)[0][0] if votes else default

    @property
    def all_classic(self) -> bool:
        """Whether every member speaks the classic protocol."""
        return all(member.classic is not None for member in self.members.values())

    def common_protocols(self) -> set[str] | None:
        """The classic protocols that all classic members have; None where there is no such member."""
        offered = [
            {name for name, _ in member.classic.protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        return set.intersection(*offered) if offered else None


def partitions_of(assignment: Assignment) -> Iterator[tuple[bytes, int]]:
    return ((topic, partition) for topic, partitions in assignment.items() for partition in partitions)


def assignment_of(partitions: Iterable[tuple[bytes, int]]) -> Assignment:
    grouped: dict[bytes, set[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, set()).add(partition)
    return {topic: frozenset(indexes) for topic, indexes in grouped.items()}
