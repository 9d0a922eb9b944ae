"""What the leader of a classic group does: hear all members, let the assignor decide, check it, watch topics. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client.consumer.assignors import Assignor, MemberSubscription
from moldau.client.consumer.assignors.cooperative import without_what_others_read
from moldau.client.consumer.assignors.model import Assignment
from moldau.client.consumer.assignors.wire import decode_assignment, decode_subscription, encode_assignment
from moldau.client.consumer.membership.model import TopicInfo
from moldau.client.errors import IllegalStateError
from moldau.client.model import TopicPartition
from moldau.wire.errors import WireError
from moldau.wire.messages.describe_groups import DescribeGroupsResponse
from moldau.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

STABLE: Final = "Stable"
"""The state of a group whose members have what they were assigned, as brokers name it."""


def subscriptions_of(members: Sequence[JoinGroupResponseMember]) -> dict[str, MemberSubscription]:
    """What each member said. One whose words cannot be read is in the group, but gets nothing."""
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
    """The assignment of every member, as it is sent."""
    subscriptions = subscriptions_of(members)
    try:
        given = assignor.assign(partitions, subscriptions)
    except Exception as error:  # an application's code
        raise IllegalStateError(
            f"assignor {assignor.name!r} failed with {error!r}; correct it, or take another in "
            "partition.assignment.strategy"
        ) from error
    _check(assignor.name, given, subscriptions)
    if cooperative:
        # Our own assignors do so by themselves. One of the application's may not know that it has to.
        given = without_what_others_read(given, subscriptions)
    return {member: encode_assignment(given.get(member, ())) for member in subscriptions}


def _check(name: str, given: Assignment, members: Mapping[str, MemberSubscription]) -> None:
    """No partition twice: two members would read it at once, and nobody would know why."""
    owner: dict[object, str] = {}
    for member, partitions in given.items():
        if member not in members:
            raise IllegalStateError(f"assignor {name!r} assigned partitions to {member!r}, which is no member")
        for one in partitions:
            if owner.setdefault(one, member) != member:
                raise IllegalStateError(f"assignor {name!r} assigned {one} both to {owner[one]!r} and to {member!r}")


class Leadership:
    """What a member that leads a group has to know and to watch."""

    def __init__(self, response: JoinGroupResponse) -> None:
        self._members = response.members
        self.topics = frozenset(topic for one in subscriptions_of(response.members).values() for topic in one.topics)
        """Every topic that somebody in the group subscribes to."""
        self.inherited: bool = response.skip_assignment
        """Whether the group goes on with what the leader before assigned: this one is static, and was restarted."""
        self.unaudited = self.inherited
        self._partitions: dict[str, int] = {}

    def note(self, known: Mapping[str, TopicInfo]) -> None:
        """Topics look like this at the moment of assigning."""
        self._partitions = self._counted(known)

    def is_outdated(self, known: Mapping[str, TopicInfo]) -> bool:
        """Whether topics have come, gone or grown since."""
        return self._counted(known) != self._partitions

    def _counted(self, known: Mapping[str, TopicInfo]) -> dict[str, int]:
        return {topic: known[topic].partitions for topic in sorted(self.topics) if topic in known}

    def assign(self, assignor: Assignor, *, cooperative: bool) -> dict[str, bytes]:
        """What each member gets, as it is sent; nothing where that is decided already."""
        if self.inherited:
            return {}
        return assign_all(assignor, self._partitions, self._members, cooperative=cooperative)

    def audit(self, response: DescribeGroupsResponse) -> bool | None:
        """Whether the members have all partitions among them; None where that cannot be said now.

        If partitions were added while the leader was away, nobody has noticed, and its successor would go on as if
        they had always been there. So it looks once.
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
