"""Consumer group (KIP-848): its members, the target assignment, and the current assignment of each member.

All of it is stored. Values are immutable and are replaced, so that a decision can be made on a copy. The group epoch is
bumped when the target assignment must be computed again; the target belongs to an epoch. Each member moves to the
target at its own pace. No member gets a partition before its previous owner has given it up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id. Topics without partitions are left out, so that equal assignments compare equal."""

NOTHING: Final[Assignment] = {}

LEFT_EPOCH: Final = -1
LEFT_FOR_A_WHILE_EPOCH: Final = -2
"""The epoch of a static member that left to restart. It keeps its partitions until its session ends."""


class MemberState(IntEnum):
    """The progress of a member towards its target, with the codes that are stored."""

    STABLE = 1
    UNREVOKED_PARTITIONS = 2
    """The member has to give up partitions first."""
    UNRELEASED_PARTITIONS = 3
    """The member waits for partitions that other members have to give up."""


class GroupState(IntEnum):
    """The state that is reported for a group."""

    EMPTY = 0
    ASSIGNING = 1
    RECONCILING = 2
    STABLE = 3

    @property
    def title(self) -> str:
        return self.name.capitalize()


class ClassicMetadata(NamedTuple):
    """The JoinGroup fields of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class ConsumerMember(NamedTuple):
    """A member, as described by its heartbeats or its JoinGroup."""

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
    """The current assignment of a member."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = NOTHING
    revoking: Assignment = NOTHING
    """Partitions that the member owns until it confirms that it has given them up."""


NEW_MEMBER: Final = Current()


class SubscribedTopic(NamedTuple):
    """The fields of a subscribed topic that assignments depend on."""

    id: bytes
    partitions: int


class ConsumerGroup:
    """The group. Only its setters change it, when records are replayed."""

    __slots__ = ("currents", "epoch", "id", "members", "owners", "static", "target_epoch", "targets", "topics")

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static: dict[str, str] = {}
        self.target_epoch = 0
        self.targets: dict[str, Assignment] = {}
        self.currents: dict[str, Current] = {}
        self.topics: dict[str, SubscribedTopic] = {}
        """The subscribed topics by name, as they were when the target was computed."""
        self.owners: dict[tuple[bytes, int], str] = {}
        """The member that owns each partition, including one that still has to give it up. There is at most one."""

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

    # -- queries ---------------------------------------------------------------------------------------------------

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
        """The topics that the members subscribe to, by name or by pattern."""
        named = {topic for member in self.members.values() for topic in member.topics}
        return frozenset(named | set(self.topics))

    def assignor(self, default: str) -> str:
        """The assignor that most members request; the default if none requests one."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return votes.most_common(1)[0][0] if votes else default

    @property
    def all_classic(self) -> bool:
        """Whether every member uses the classic protocol."""
        return all(member.classic is not None for member in self.members.values())

    def common_protocols(self) -> set[str] | None:
        """The classic protocols that all classic members support; None if there is no such member."""
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
