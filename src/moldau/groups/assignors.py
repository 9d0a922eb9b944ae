"""Who should read what: pure functions from members, their topics and what they have, to what each should have.

Every partition of a topic goes to exactly one member that subscribes to it, if there is one. The order of members and
topics in the input does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from moldau.groups.consumer import Assignment, assignment_of, partitions_of

Partition = tuple[bytes, int]


class Subscriber(NamedTuple):
    """A member, as far as an assignor cares."""

    topics: frozenset[bytes]
    has: Assignment
    """What it should read so far; a sticky assignor leaves as much of it as balance allows."""
    instance_id: str | None = None


Subscribers = Mapping[str, Subscriber]
Topics = Mapping[bytes, int]
"""How many partitions each topic has."""

Assignor = Callable[[Subscribers, Topics], dict[str, Assignment]]


def range_assignor(members: Subscribers, topics: Topics) -> dict[str, Assignment]:
    """Each topic is cut into runs of neighbouring partitions, one a member: equal partitions of two topics meet."""
    given: dict[str, dict[bytes, frozenset[int]]] = {member: {} for member in members}
    # Static members come first and by their own name, so that a restart does not move anybody.
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
                given[member][topic] = frozenset(range(first, last))
            first = last
    return dict(given)


def uniform_assignor(members: Subscribers, topics: Topics) -> dict[str, Assignment]:
    """As many partitions for each member as possible, and as few as possible moved."""
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
        _uneven(kept, unassigned, readers)
    return {member: assignment_of(partitions) for member, partitions in kept.items()}


def _kept(
    members: Subscribers, topics: Topics, readers: Mapping[bytes, list[str]]
) -> tuple[dict[str, list[Partition]], list[Partition]]:
    """What each has and may keep, and what nobody has. Of two that have the same partition, the first keeps it."""
    kept: dict[str, list[Partition]] = {}
    taken: set[Partition] = set()
    for member in sorted(members):
        mine = [
            (topic, partition)
            for topic, partition in sorted(partitions_of(members[member].has))
            if topic in members[member].topics and partition < topics.get(topic, 0) and (topic, partition) not in taken
        ]
        taken.update(mine)
        kept[member] = mine
    unassigned = [
        (topic, partition) for topic in readers for partition in range(topics[topic]) if (topic, partition) not in taken
    ]
    return kept, unassigned


def _even(kept: dict[str, list[Partition]], unassigned: list[Partition]) -> None:
    """All read the same topics: everybody gets the same number, or one more."""
    total = len(unassigned) + sum(map(len, kept.values()))
    share, extra = divmod(total, len(kept))
    # Those who have most keep the odd one.
    for member in sorted(kept, key=lambda one: (-len(kept[one]), one)):
        quota = share + (extra > 0)
        if len(kept[member]) >= quota:
            unassigned += kept[member][quota:]
            del kept[member][quota:]
        if len(kept[member]) > share:
            extra -= 1
    unassigned.sort()
    for member in sorted(kept, key=lambda one: (-len(kept[one]), one)):
        missing = share - len(kept[member])
        if missing < 0:
            continue
        if missing >= 0 and extra > 0:
            missing, extra = missing + 1, extra - 1
        kept[member] += unassigned[:missing]
        del unassigned[:missing]
    assert not unassigned


def _uneven(kept: dict[str, list[Partition]], unassigned: list[Partition], readers: Mapping[bytes, list[str]]) -> None:
    """Members read different topics: fill up the least loaded, then move from those with more to those with less."""
    for partition in sorted(unassigned, key=lambda one: (len(readers[one[0]]), one)):
        least = min(readers[partition[0]], key=lambda member: (len(kept[member]), member))
        kept[least].append(partition)
    # Every move makes the sum of squares smaller, so this ends.
    moved = True
    while moved:
        moved = False
        for member in sorted(kept, key=lambda one: (-len(kept[one]), one)):
            for partition in sorted(kept[member]):
                least = min(readers[partition[0]], key=lambda one: (len(kept[one]), one))
                if len(kept[least]) + 1 < len(kept[member]):
                    kept[member].remove(partition)
                    kept[least].append(partition)
                    moved = True


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform_assignor, "range": range_assignor}
