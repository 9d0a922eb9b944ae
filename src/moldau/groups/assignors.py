"""Server-side assignors: pure functions from members, topics and the current target to a new target assignment.

Every partition of a topic is assigned to exactly one of the members that subscribe to it, if there are any. The result
does not depend on the order of members and topics in the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from moldau.assignment.balance import fill_up, move_while_it_helps, take_surplus
from moldau.groups.consumer_group import Assignment, assignment_of, partitions_of

Partition = tuple[bytes, int]


class Subscriber(NamedTuple):
    """A member, with the fields that an assignor needs."""

    topics: frozenset[bytes]
    has: Assignment
    """Its previous target; a sticky assignor keeps as much of it as balance allows."""
    instance_id: str | None = None


Subscribers = Mapping[str, Subscriber]
Topics = Mapping[bytes, int]
"""The number of partitions by topic id."""

Assignor = Callable[[Subscribers, Topics], dict[str, Assignment]]


def range_assignor(members: Subscribers, topics: Topics) -> dict[str, Assignment]:
    """Assign each topic in ranges of adjacent partitions, one range per member.

    Members with the same subscription get the same partitions of topics with equal numbers of partitions, so that they
    can join them.
    """
    assigned: dict[str, dict[bytes, frozenset[int]]] = {member: {} for member in members}
    # Static members come first, ordered by group.instance.id: a restart, with a new member id, moves no partition.
    order = sorted(
        members, key=lambda member: (members[member].instance_id is None, members[member].instance_id, member)
    )
    for topic, count in topics.items():
        readers = [member for member in order if topic in members[member].topics]
        if not readers:
            continue
        share, extra = divmod(count, len(readers))
        first = 0
        for place, member in enumerate(readers):
            last = first + share + (place < extra)
            if last > first:
                assigned[member][topic] = frozenset(range(first, last))
            first = last
    return dict(assigned)


def uniform_assignor(members: Subscribers, topics: Topics) -> dict[str, Assignment]:
    """Spread the partitions as evenly as possible, and move as few of them as possible."""
    if not members:
        return {}
    readers: dict[bytes, list[str]] = {}
    for topic in sorted(topics):
        found = sorted(member for member, one in members.items() if topic in one.topics)
        if found:
            readers[topic] = found
    kept, unassigned = _kept(members, topics, readers)
    if len({frozenset(one.topics & topics.keys()) for one in members.values()}) == 1:
        _even(kept, unassigned)
    else:
        fill_up(kept, unassigned, readers)
        move_while_it_helps(kept, readers)
    return {member: assignment_of(partitions) for member, partitions in kept.items()}


def _kept(
    members: Subscribers, topics: Topics, readers: Mapping[bytes, list[str]]
) -> tuple[dict[str, list[Partition]], list[Partition]]:
    """The partitions that each member keeps, and the unassigned ones. If two members have the same partition, the first
    one keeps it."""
    kept: dict[str, list[Partition]] = {}
    taken: set[Partition] = set()
    for member in sorted(members):
        keeps = [
            (topic, partition)
            for topic, partition in sorted(partitions_of(members[member].has))
            if topic in members[member].topics and partition < topics.get(topic, 0) and (topic, partition) not in taken
        ]
        taken.update(keeps)
        kept[member] = keeps
    unassigned = [
        (topic, partition) for topic in readers for partition in range(topics[topic]) if (topic, partition) not in taken
    ]
    return kept, unassigned


def _even(kept: dict[str, list[Partition]], unassigned: list[Partition]) -> None:
    """All members read the same topics: each gets the same number of partitions, or one more.

    As in Kafka's uniform assignor, a member gets neighbouring partitions; Kafka's sticky assignors of the consumer
    distribute them one by one.
    """
    quotas = take_surplus(kept, unassigned)
    for member, quota in quotas.items():
        missing = quota - len(kept[member])
        kept[member] += unassigned[:missing]
        del unassigned[:missing]
    assert not unassigned


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform_assignor, "range": range_assignor}
