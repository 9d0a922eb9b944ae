"""Balanced and sticky distribution of partitions: the steps that all sticky assignors share.

Partitions are pairs of a topic (its name or its id) and a number. `kept` has what each member keeps so far, and is
changed in place; its order, and that of `readers`, decides between members with the same load.

An assignor first decides what each member may keep: by generations on the consumer's side, where members may disagree,
and by the group's target on the coordinator's side, where they cannot. If all members read the same topics, it calls
`take_surplus` and distributes the free partitions up to the quotas. Otherwise it calls `fill_up` and
`move_while_it_helps`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, TypeVar

P = TypeVar("P", bound=tuple[Any, int])

Readers = Mapping[Any, Sequence[str]]
"""For each topic the members that subscribe to it."""


def take_surplus(kept: MutableMapping[str, list[P]], free: list[P]) -> dict[str, int]:
    """Move what members have above an equal share from `kept` to `free`; returns the quota of each member.

    Members with the highest load get the quotas with one more, so that fewer partitions move.
    """
    share, extra = divmod(len(free) + sum(map(len, kept.values())), len(kept))
    by_load = sorted(kept, key=lambda member: -len(kept[member]))
    quotas = {member: share + (place < extra) for place, member in enumerate(by_load)}
    for member, quota in quotas.items():
        free += kept[member][quota:]
        del kept[member][quota:]
    free.sort()
    return quotas


def fill_up(kept: Mapping[str, list[P]], free: Iterable[P], readers: Readers) -> None:
    """Give each free partition to its reader with the lowest load; topics with the fewest readers come first."""
    topics: dict[Any, list[P]] = {}
    for one in free:
        topics.setdefault(one[0], []).append(one)
    for topic in sorted(topics, key=lambda name: (len(readers[name]), name)):
        heap = [(len(kept[member]), place, member) for place, member in enumerate(readers[topic])]
        heapify(heap)
        for one in topics[topic]:
            load, place, member = heap[0]
            kept[member].append(one)
            heapreplace(heap, (load + 1, place, member))


def move_while_it_helps(kept: Mapping[str, list[P]], readers: Readers) -> None:
    """Move partitions from members with more to members with less, as long as two differ by two or more.

    Every move makes the sum of the squares of all loads smaller, so this ends. A member from which nothing could be
    taken is checked again only after the load of another one has decreased: only then a move may help.
    """
    places = {member: place for place, member in enumerate(kept)}
    topics = {member: sorted({one[0] for one in some}) for member, some in kept.items()}
    heap = [(-len(some), places[member], member) for member, some in kept.items()]
    heapify(heap)
    waiting = set(kept)  # members with an entry in the heap that has to be looked at
    sharing: dict[str, list[str]] = {}
    while heap:
        load, _, member = heappop(heap)
        if -load != len(kept[member]) or member not in waiting:
            continue  # its load has changed and it has another entry, or the same entry was there twice
        waiting.remove(member)
        found = _better_place(kept, member, topics[member], readers, places)
        if found is None:
            continue
        topic, receiver = found
        at = max(index for index, one in enumerate(kept[member]) if one[0] == topic)
        kept[receiver].append(kept[member].pop(at))
        for changed in (member, receiver):
            topics[changed] = sorted({one[0] for one in kept[changed]})
            heappush(heap, (-len(kept[changed]), places[changed], changed))
            waiting.add(changed)
        # Members that share a topic with the giver may now have a partition for it.
        if member not in sharing:
            sharing[member] = list(dict.fromkeys(one for some in readers.values() if member in some for one in some))
        for other in sharing[member]:
            if other not in waiting and len(kept[other]) > len(kept[member]) + 1:
                heappush(heap, (-len(kept[other]), places[other], other))
                waiting.add(other)


def _better_place(
    kept: Mapping[str, list[P]], member: str, topics: Sequence[Any], readers: Readers, places: Mapping[str, int]
) -> tuple[Any, str] | None:
    """A topic of which the member has partitions, and the member that should have one of them instead."""
    best: tuple[int, int, Any, str] | None = None
    for topic in topics:
        receiver = min(readers[topic], key=lambda one: (len(kept[one]), places[one]))
        rank = len(kept[receiver]), places[receiver], topic, receiver
        if best is None or rank < best:
            best = rank
    if best is None or best[0] + 1 >= len(kept[member]):
        return None
    return best[2], best[3]
