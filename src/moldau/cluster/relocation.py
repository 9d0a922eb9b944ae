"""Relocation: where replicas go when a broker is to be emptied, or topics are to be spread over other brokers. Pure.

`emptied` moves as little as can be: of each partition the one replica that the broker holds. `resized` adds replicas or
lets them go, and moves none. `spread` places whole topics anew, as if they were being created. None of them looks at
sizes or traffic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from moldau.cluster.image import BrokerImage
from moldau.cluster.placement import place, ring

Partition = tuple[str, int]
P = TypeVar("P", bound=Partition)


class NoRoomError(ValueError):
    """A partition has as many replicas as there are brokers left, or more."""


def emptied(
    assignment: Mapping[P, tuple[int, ...]], broker: int, brokers: Iterable[BrokerImage]
) -> dict[P, tuple[int, ...]]:
    """New replicas of every partition that `broker` holds, on those of `brokers` that are left without it; preferred
    leaders first, here as in `assignment`.

    Each replica goes to a rack that has fewest of its partition's others, and there to the broker that has fewest
    replicas. The place of a preferred leader goes to whoever, of the new replicas, has it least often.
    """
    left = [one for one in ring(brokers) if one.id != broker]
    alive = {one.id for one in left}
    held = Counter(node for replicas in assignment.values() for node in replicas)
    led = Counter(replicas[0] for replicas in assignment.values() if replicas)
    moved: dict[P, tuple[int, ...]] = {}
    for partition, replicas in sorted(assignment.items()):
        if broker not in replicas:
            continue
        new = _roomiest(left, [node for node in replicas if node != broker], held)
        if new is None:
            raise NoRoomError(
                f"{partition[0]}-{partition[1]} has {len(replicas)} replicas, and without broker {broker} there are "
                f"{len(left)} brokers to hold them"
            )
        target = [new if node == broker else node for node in replicas]
        if replicas[0] == broker:
            first = min((node for node in target if node in alive), key=lambda node: led[node])
            led[first] += 1
            target.remove(first)
            target.insert(0, first)
        moved[partition] = tuple(target)
    return moved


def resized(
    assignment: Mapping[P, tuple[int, ...]], factor: int, brokers: Iterable[BrokerImage]
) -> dict[P, tuple[int, ...]]:
    """The same partitions with so many replicas each: the last of them go, or others come where there is most room."""
    on = ring(brokers)
    if not 1 <= factor <= len(on):
        raise NoRoomError(f"{factor} replicas are asked for, and there are {len(on)} brokers to hold them")
    held = Counter(node for replicas in assignment.values() for node in replicas)
    placed: dict[P, tuple[int, ...]] = {}
    for partition, replicas in sorted(assignment.items()):
        target = list(replicas[:factor])
        while len(target) < factor:
            new = _roomiest(on, target, held)
            assert new is not None, "there are at least as many brokers as replicas"
            target.append(new)
        placed[partition] = tuple(target)
    return placed


def _roomiest(brokers: Sequence[BrokerImage], taken: Collection[int], held: Counter[int]) -> int | None:
    """Who takes one more replica, and counts it: the rack that has fewest, and there the broker that has fewest."""
    free = [one for one in brokers if one.id not in taken]
    if not free:
        return None
    used = Counter(one.rack for one in brokers if one.id in taken)
    new = min(free, key=lambda one: (used[one.rack], held[one.id])).id
    held[new] += 1
    return new


def spread(factors: Mapping[str, tuple[int, int]], brokers: Iterable[BrokerImage]) -> dict[Partition, tuple[int, ...]]:
    """All partitions of these topics (how many, with how many replicas) placed anew on these brokers."""
    on = ring(brokers)
    placed: dict[Partition, tuple[int, ...]] = {}
    cursor = 0
    for topic, (partitions, factor) in sorted(factors.items()):
        if factor > len(on):
            raise NoRoomError(f"{topic} has {factor} replicas of each partition, and there are {len(on)} brokers")
        placed.update({(topic, index): one for index, one in enumerate(place(on, partitions, factor, cursor))})
        cursor += partitions
    return placed
