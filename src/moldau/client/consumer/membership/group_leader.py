"""Leader of a classic group: runs the assignor for all members, checks its result, and watches the topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client.consumer.assignors import Assignor, MemberSubscription
from moldau.client.consumer.assignors.assignor import Assignment
from moldau.client.consumer.assignors.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from moldau.client.consumer.assignors.cooperative import without_owned_by_others
from moldau.client.consumer.membership.events import TopicInfo
from moldau.client.data_types import TopicPartition
from moldau.client.errors import IllegalStateError
from moldau.wire.errors import WireError
from moldau.wire.messages.describe_groups import DescribeGroupsResponse
from moldau.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

STABLE: Final = "Stable"
"""Kafka's name of the state of a group whose members have their assignments."""


def subscriptions_of(members: Sequence[JoinGroupResponseMember]) -> dict[str, MemberSubscription]:
    """Decode the subscriptions. A member whose subscription cannot be read stays in the group without partitions."""
    found = {}
    for one in members:
        try:
            found[one.member_id] = decode_subscription(bytes(one.metadata), one.group_instance_id)
        except WireError:
            found[one.member_id] = MemberSubscription(())
    return found


def assign_all(
    assignor: Assignor,
    partitions: Mapping[str, int],
    members: Sequence[JoinGroupResponseMember],
    *,
    cooperative: bool,
) -> dict[str, bytes]:
    """Return the encoded assignment of every member. Raises IllegalStateError if the assignor fails."""
    subscriptions = subscriptions_of(members)
    try:
        given = assignor.assign(partitions, subscriptions)
    except Exception as error:  # raised by an assignor of the application
        raise IllegalStateError(
            f"assignor {assignor.name!r} failed with {error!r}; correct it, or use another one in "
            "partition.assignment.strategy"
        ) from error
    _check(assignor.name, given, subscriptions)
    if cooperative:
        # Kafka's assignors do this themselves. An assignor of the application may not.
        given = without_owned_by_others(given, subscriptions)
    return {member: encode_assignment(given.get(member, ())) for member in subscriptions}


def _check(name: str, given: Assignment, members: Mapping[str, MemberSubscription]) -> None:
    """Check that each partition is assigned once; otherwise two members would read it, without any error."""
    owner: dict[object, str] = {}
    for member, partitions in given.items():
        if member not in members:
            raise IllegalStateError(f"assignor {name!r} assigned partitions to {member!r}, which is not a member")
        for one in partitions:
            if owner.setdefault(one, member) != member:
                raise IllegalStateError(f"assignor {name!r} assigned {one} both to {owner[one]!r} and to {member!r}")


class GroupLeader:
    """State of a member that leads its group. No I/O."""

    def __init__(self, response: JoinGroupResponse) -> None:
        self._members = response.members
        self.topics = frozenset(topic for one in subscriptions_of(response.members).values() for topic in one.topics)
        """All topics that members of the group subscribe to."""
        self.inherited: bool = response.skip_assignment
        """Whether the group keeps its assignment: this leader is a static member that was restarted."""
        self.unaudited = self.inherited
        self._partitions: dict[str, int] = {}

    def note(self, known: Mapping[str, TopicInfo]) -> None:
        """Store the numbers of partitions that the assignment is made for."""
        self._partitions = self._counted(known)

    def is_outdated(self, known: Mapping[str, TopicInfo]) -> bool:
        """Return whether topics or partitions were added or deleted since the assignment."""
        return self._counted(known) != self._partitions

    def _counted(self, known: Mapping[str, TopicInfo]) -> dict[str, int]:
        return {topic: known[topic].partitions for topic in sorted(self.topics) if topic in known}

    def assign(self, assignor: Assignor, *, cooperative: bool) -> dict[str, bytes]:
        """Return the encoded assignment of each member; empty if the group keeps its assignment."""
        if self.inherited:
            return {}
        return assign_all(assignor, self._partitions, self._members, cooperative=cooperative)

    def audit(self, response: DescribeGroupsResponse) -> bool | None:
        """Return whether all partitions are assigned, or None if the response cannot tell.

        If partitions were added while the leader was restarted, no member has noticed it, and the new leader would take
        them as assigned. So it checks once.
        """
        group = response.groups[0] if response.groups else None
        if group is None or group.error_code or group.group_state != STABLE:
            return None
        wanted = {TopicPartition(topic, index) for topic, count in self._partitions.items() for index in range(count)}
        for member in group.members:
            try:
                wanted.difference_update(decode_assignment(bytes(member.member_assignment)))
            except WireError:
                return None
        self.unaudited = False
        return not wanted
