"""Balanced assignment for both sticky assignors: as even as possible, with as few moved partitions as possible.

Plain functions without I/O. Every partition is assigned to one member that subscribes to its topic. If all members
subscribe to the same topics, the numbers of partitions differ by at most one. Otherwise partitions are moved one at a
time, as long as a move makes two members more equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.assignment.balance import fill_up, move_while_it_helps, take_surplus
from moldau.client.consumer.assignors.assignor import Assignment, Members, in_order
from moldau.client.data_types import TopicPartition

Owned = Mapping[str, tuple[int, Sequence[TopicPartition]]]
"""For each member, the generation and partitions of its last assignment, as the member reports them."""


def balanced(partitions: Mapping[str, int], members: Members, owned: Owned) -> Assignment:
    """Return the partitions of each member."""
    order = in_order(members)
    readers: dict[str, list[str]] = {topic: [] for topic in sorted(partitions)}
    for member in order:
        for topic in dict.fromkeys(members[member].topics):
            if topic in readers:
                readers[topic].append(member)
    readers = {topic: found for topic, found in readers.items() if found}
    kept = _kept(partitions, members, order, owned)
    taken = {one for some in kept.values() for one in some}
    free = [
        one
        for topic in readers
        for index in range(partitions[topic])
        if (one := TopicPartition(topic, index)) not in taken
    ]
    if all(len(found) == len(members) for found in readers.values()):
        _share_evenly(kept, free)
    else:
        fill_up(kept, free, readers)
        move_while_it_helps(kept, readers)
    return kept


def _kept(partitions: Mapping[str, int], members: Members, order: Sequence[str], owned: Owned) -> Assignment:
    """Return the partitions that each member owned and may keep.

    If two members claim the same partition, the one with the later generation keeps it; with equal generations none.
    """
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in order:
        generation, had = owned.get(member, (0, ()))
        for one in had:
            if one.topic not in members[member].topics or one.partition >= partitions.get(one.topic, 0):
                continue
            rival = claims.get(one)
            if rival is None or generation > rival[0]:
                claims[one] = generation, member
            elif generation == rival[0] and rival[1] != member:
                claims[one] = generation, None
    kept: Assignment = {member: [] for member in order}
    for one, (_, owner) in claims.items():
        if owner is not None:
            kept[owner].append(one)
    for some in kept.values():
        some.sort()
    return kept


def _share_evenly(kept: Assignment, free: list[TopicPartition]) -> None:
    if not kept:
        return
    quotas = take_surplus(kept, free)
    # One by one in turn, which spreads the partitions of one topic, and their load, over the members.
    below_quota = [member for member in kept if len(kept[member]) < quotas[member]]
    place = 0
    for one in free:
        member = below_quota[place % len(below_quota)]
        kept[member].append(one)
        if len(kept[member]) == quotas[member]:
            below_quota.remove(member)
        else:
            place += 1
        if below_quota:
            place %= len(below_quota)
