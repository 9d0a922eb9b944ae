"""Placement: which brokers hold a new partition. Pure, and the same for the same arguments.

The brokers stand in a ring in which racks, and the hosts of a rack, are spread evenly. Partitions take the ring's
places in turn as preferred leaders, so no two brokers lead more than one partition apart. The other replicas are found
by walking on from the leader: the first in a rack that holds fewest replicas of the partition, and there on a host that
holds fewest. Each time round the ring the walk starts one step further, so the followers of a broker's partitions are
spread over all others, and so is its load when it fails. Where racks are of one size, whole turns are even; after one
that is left halfway, followers of the last partitions are exchanged until no broker has much more than another.

Racks come before hosts, and both before balance: a rack of one broker next to a rack of three holds half of all
replicas of a factor of two. It does not look at sizes, traffic or existing partitions; a cursor that moves on with each
placement keeps many small topics as even as one big one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from moldau.cluster.image import BrokerImage

T = TypeVar("T")

EVENED_TURNS: Final = 2
"""In how many of the last turns round the ring followers may be exchanged: the one left halfway, and the one before."""
EXTREMES: Final = 8
"""How many of the brokers with most and with fewest replicas are looked at for an exchange."""


def host(broker: BrokerImage) -> str:
    """The machine that a broker is on, as its first address names it."""
    return broker.endpoints[0].host if broker.endpoints else ""


def ring(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    """The brokers in the order in which they take turns: by id, racks and hosts mixed as evenly as can be."""
    racks: dict[str, dict[str, list[BrokerImage]]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", {}).setdefault(host(broker), []).append(broker)
    return _mixed([_mixed(list(hosts.values())) for _, hosts in sorted(racks.items())])


def _mixed(groups: Sequence[Sequence[T]]) -> list[T]:
    """The members of all groups, those of each as far apart as can be."""
    places = [
        ((2 * index + 1) / (2 * len(members)), group, member)
        for group, members in enumerate(groups)
        for index, member in enumerate(members)
    ]
    places.sort(key=lambda place: place[:2])
    return [member for _, _, member in places]


def place(
    brokers: Sequence[BrokerImage], partitions: int, replication_factor: int, cursor: int
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, preferred leader first.

    `brokers` is a ring; `cursor` is the number of places taken before, and the next one is `cursor + partitions`.
    """
    count = len(brokers)
    if not 1 <= replication_factor <= count:
        raise ValueError(f"{replication_factor} replicas cannot be placed on {count} brokers")
    walks = _Walks(brokers, replication_factor)
    turns = max(count - 1, 1)
    # The choice repeats after `count` leaders times `turns`: the work is bounded by that, whatever is placed.
    known: dict[tuple[int, int], tuple[int, ...]] = {}
    placed: list[tuple[int, ...]] = []
    for slot in range(cursor, cursor + partitions):
        start = (slot % count, slot // count % turns)
        replicas = known.get(start)
        if replicas is None:
            replicas = known[start] = walks.replicas(*start)
        placed.append(replicas)
    walks.even_out(placed)
    ids = [broker.id for broker in brokers]
    # Equal replicas are one object, here as in partition states.
    by_id = {replicas: tuple([ids[at] for at in replicas]) for replicas in dict.fromkeys(placed)}
    return [by_id[replicas] for replicas in placed]


class _Walks:
    """Walks round the ring. Brokers are their places in it."""

    def __init__(self, brokers: Sequence[BrokerImage], replication_factor: int) -> None:
        self._count = len(brokers)
        self._factor = replication_factor
        self._racks = [broker.rack for broker in brokers]
        self._hosts = [(broker.rack, host(broker)) for broker in brokers]
        self._rack_count, self._host_count = len(set(self._racks)), len(set(self._hosts))

    def replicas(self, leader: int, turn: int) -> tuple[int, ...]:
        """The leader, and those met on its walk."""
        # Every other place of the ring, once, from this turn's first one on.
        others = self._count - 1
        waiting = [(leader + 1 + (turn + step) % others) % self._count for step in range(others)]
        chosen = [leader]
        while len(chosen) < self._factor:
            in_rack = Counter(self._racks[at] for at in chosen)
            on_host = Counter(self._hosts[at] for at in chosen)
            least = (
                0 if len(in_rack) < self._rack_count else min(in_rack.values()),
                0 if len(on_host) < self._host_count else min(on_host.values()),
            )
            best, best_cost = waiting[0], (self._count, self._count)
            for at in waiting:
                cost = (in_rack[self._racks[at]], on_host[self._hosts[at]])
                if cost < best_cost:
                    best, best_cost = at, cost
                    if cost == least:
                        break  # nobody can be better
            chosen.append(best)
            waiting.remove(best)
        return tuple(chosen)

    def even_out(self, placed: list[tuple[int, ...]]) -> None:
        """Exchanges followers of the last partitions where one broker has two replicas more than another."""
        held = [0] * self._count
        for replicas in placed:
            for at in replicas:
                held[at] += 1
        first = max(0, len(placed) - EVENED_TURNS * self._count)
        for _ in range(self._count):
            if not self._exchange_one(placed, first, held):
                return

    def _exchange_one(self, placed: list[tuple[int, ...]], first: int, held: list[int]) -> bool:
        by_load = sorted(range(self._count), key=held.__getitem__)
        for much in by_load[: -EXTREMES - 1 : -1]:
            for little in by_load[:EXTREMES]:
                if held[much] - held[little] < 2:
                    break
                for index in range(len(placed) - 1, first - 1, -1):
                    replicas = placed[index]
                    if much in replicas[1:] and little not in replicas and self._may_replace(replicas, much, little):
                        placed[index] = tuple([little if at == much else at for at in replicas])
                        held[much] -= 1
                        held[little] += 1
                        return True
        return False

    def _may_replace(self, replicas: Sequence[int], one: int, other: int) -> bool:
        """Whether racks and hosts are as well spread with the other one."""
        rest = [at for at in replicas if at != one]
        for place in (self._racks, self._hosts):
            if sum(place[at] == place[other] for at in rest) > sum(place[at] == place[one] for at in rest):
                return False
        return True


def continued(brokers: Sequence[BrokerImage], last_leader: int, cursor: int) -> int:
    """The cursor at which a topic goes on growing: after its last partition's place, so that its leaders stay even."""
    count = len(brokers)
    for index, broker in enumerate(brokers):
        if broker.id == last_leader:
            return cursor - cursor % count + (index + 1) % count
    return cursor
