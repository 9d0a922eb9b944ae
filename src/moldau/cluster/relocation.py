"""Relocation of replicas: to empty a broker, to change a replication factor, or to spread topics. Pure.

`emptied` moves as little as possible: for each partition only the replica on that broker. `resized` adds or removes
replicas and moves none. `spread` places whole topics again, as if they were created now. None of them considers sizes
or traffic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from moldau.cluster.image import BrokerImage
from moldau.cluster.placement import place, ring
from moldau.wire.topic_partition import TopicPartition

P = TypeVar("P", bound=TopicPartition)


class NoRoomError(ValueError):
    """Too few brokers are left for the replicas of a partition."""


def emptied(
    assignment: Mapping[P, tuple[int, ...]], broker: int, brokers: Iterable[BrokerImage]
) -> dict[P, tuple[int, ...]]:
    """New replicas for every partition that `broker` holds, on the other `brokers`. Preferred leaders come first, as in
    `assignment`.

    Each replica moves to a rack with the fewest replicas of the partition, and within it to the broker with the fewest
    replicas. If `broker` was the preferred leader, the replica that is preferred leader least often takes its place.
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
                f"{partition[0]}-{partition[1]} has {len(replicas)} replicas, but without broker {broker} there are "
                f"{len(left)} brokers"
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
    """The same partitions with `factor` replicas each: the last replicas are removed, or new ones go to the brokers
    with the fewest replicas."""
    on = ring(brokers)
    if not 1 <= factor <= len(on):
        raise NoRoomError(f"{factor} replicas were requested, but there are {len(on)} brokers")
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
    """The broker for one more replica, which is counted in `held`: in the rack with the fewest replicas, the broker
    with the fewest replicas. None if all brokers are taken."""
    free = [one for one in brokers if one.id not in taken]
    if not free:
        return None
    used = Counter(one.rack for one in brokers if one.id in taken)
    new = min(free, key=lambda one: (used[one.rack], held[one.id])).id
    held[new] += 1
    return new


def spread(
    factors: Mapping[str, tuple[int, int]], brokers: Iterable[BrokerImage]
) -> dict[TopicPartition, tuple[int, ...]]:
    """New placement for all partitions of these topics (topic: number of partitions, replication factor)."""
    on = ring(brokers)
    placed: dict[TopicPartition, tuple[int, ...]] = {}
    cursor = 0
    for topic, (partitions, factor) in sorted(factors.items()):
        if factor > len(on):
            raise NoRoomError(f"{topic} has {factor} replicas per partition, but there are {len(on)} brokers")
        placed.update(
            {TopicPartition(topic, index): one for index, one in enumerate(place(on, partitions, factor, cursor))}
        )
        cursor += partitions
    return placed
