"""As even as possible, and as few partitions moved as possible: what both sticky assignors share. Pure functions.

Every partition goes to one member that subscribes to its topic. Where all members read the same topics, everybody gets
the same number, or one more. Else partitions are moved, one at a time, as long as that makes two members more equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from moldau.client.consumer.assignors.model import Assignment, Members, in_order
from moldau.client.model import TopicPartition

Owned = Mapping[str, tuple[int, Sequence[TopicPartition]]]
"""What each member says that it had, and in which generation it got that."""


def balanced(partitions: Mapping[str, int], members: Members, owned: Owned) -> Assignment:
    """Who gets what."""
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
        _fill_up(kept, free, readers)
        _move_while_it_helps(kept, readers)
    return kept


def _kept(partitions: Mapping[str, int], members: Members, order: Sequence[str], owned: Owned) -> Assignment:
    """What each had and may still read. Of two that claim the same the later generation is right; of equals none is."""
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
    total = len(free) + sum(map(len, kept.values()))
    share, extra = divmod(total, len(kept))
    # Those who have most keep the odd one, so that fewer partitions move.
    by_load = sorted(kept, key=lambda member: -len(kept[member]))
    quotas = {member: share + (place < extra) for place, member in enumerate(by_load)}
    for member, quota in quotas.items():
        free += kept[member][quota:]
        del kept[member][quota:]
    free.sort()
    # Dealt out one by one: partitions of one topic, and their load, are spread over those who get any.
    hungry = [member for member in kept if len(kept[member]) < quotas[member]]
    place = 0
    for one in free:
        member = hungry[place % len(hungry)]
        kept[member].append(one)
        if len(kept[member]) == quotas[member]:
            hungry.remove(member)
        else:
            place += 1
        if hungry:
            place %= len(hungry)


def _fill_up(kept: Assignment, free: Sequence[TopicPartition], readers: Mapping[str, Sequence[str]]) -> None:
    """Each free partition to the member that has least, those first that fewest can read."""
    for topic in sorted({one.topic for one in free}, key=lambda name: (len(readers[name]), name)):
        heap = [(len(kept[member]), place, member) for place, member in enumerate(readers[topic])]
        heapify(heap)
        for one in free:
            if one.topic == topic:
                load, place, member = heap[0]
                kept[member].append(one)
                heapreplace(heap, (load + 1, place, member))


def _move_while_it_helps(kept: Assignment, readers: Mapping[str, Sequence[str]]) -> None:
    """From those with more to those with less, as long as two differ by two or more.

    Every move makes the sum of the squares of all loads smaller, so this ends. A member that nothing could be taken
    from is looked at again only when somebody's load has sunk: then a partition of its own may have a better place.
    """
    places = {member: place for place, member in enumerate(kept)}
    topics = {member: sorted({one.topic for one in some}) for member, some in kept.items()}
    heap = [(-len(some), places[member], member) for member, some in kept.items()]
    heapify(heap)
    while heap:
        load, _, member = heappop(heap)
        if -load != len(kept[member]):
            continue  # has changed since; it stands further down, too
        found = _better_place(kept, member, topics[member], readers, places)
        if found is None:
            continue
        topic, receiver = found
        at = max(index for index, one in enumerate(kept[member]) if one.topic == topic)
        kept[receiver].append(kept[member].pop(at))
        for changed in (member, receiver):
            topics[changed] = sorted({one.topic for one in kept[changed]})
            heappush(heap, (-len(kept[changed]), places[changed], changed))
        # The giver's load has sunk: whoever shares a topic with it may have something for it now.
        for topic in readers:
            if member in readers[topic]:
                for other in readers[topic]:
                    if len(kept[other]) > len(kept[member]) + 1:
                        heappush(heap, (-len(kept[other]), places[other], other))


def _better_place(
    kept: Assignment,
    member: str,
    topics: Sequence[str],
    readers: Mapping[str, Sequence[str]],
    places: Mapping[str, int],
) -> tuple[str, str] | None:
    """A topic that the member has partitions of, and who should have one of them instead."""
    best: tuple[int, int, str, str] | None = None
    for topic in topics:
        receiver = min(readers[topic], key=lambda one: (len(kept[one]), places[one]))
        rank = len(kept[receiver]), places[receiver], topic, receiver
        if best is None or rank < best:
            best = rank
    if best is None or best[0] + 1 >= len(kept[member]):
        return None
    return best[2], best[3]
