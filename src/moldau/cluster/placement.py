"""Placement: which brokers hold a new partition. Pure, and the same for the same arguments.

The brokers stand in a ring in which racks, and the hosts of a rack, are spread evenly. Partitions take the ring's
places in turn as preferred leaders, so no two brokers lead more than one partition apart. The other replicas are found
by walking on from the leader: the first in a rack that holds fewest replicas of the partition, and there on a host that
holds fewest. Each time round the ring the walk starts one step further, so the followers of a broker's partitions are
spread over all others, and so is its load when it fails. Afterwards followers are exchanged until no broker holds two
replicas more than another, as far as racks and hosts allow it.

They do where racks are of one size, and hosts are. Whole turns are even as they are: a turn looks the same from every
place of the ring. The turns that are cut, at the first and at the last partition, can be evened out:

- With F replicas of a partition and N brokers, F/N of a replica on each of them would be even. That is a flow from
  partitions by way of their racks and hosts to brokers, and a flow can be made whole so that each of its sums becomes
  one of the two whole numbers next to it: a partition's replicas in a rack and on a host, and all replicas of a rack, a
  host and a broker.
- In the same way 1/F of each of these replicas becomes one leader of each partition, even over racks, hosts and
  brokers. So are the leaders that the ring gives, and only names tell the ones from the others: an even placement has
  them, too.
- Unless a flow is as even as can be, a chain of exchanges makes it more even, and all chains are tried.

Racks come before hosts, and both before balance: a rack of one broker next to a rack of three holds half of all
replicas of a factor of two. Where racks differ in size, large topics are less even than they could be, since only
some of their followers are exchanged. Placement does not look at sizes, traffic or existing partitions; a cursor that
moves on with each of them spreads many small topics as well, if not as evenly as one big one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

from moldau.cluster.image import BrokerImage

T = TypeVar("T")

EVENED_PARTITIONS: Final = 256
"""Of how many of the last partitions followers may be exchanged, or of a whole turn's if that is more."""


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
    # Who comes first among equals moves on with the cursor, and once more with each turn, so that in the long run many
    # small topics favour nobody, not even if they repeat in step with the ring.
    walks.even_out(placed, _evened(count, partitions, cursor), (cursor + cursor // count) % count)
    ids = [broker.id for broker in brokers]
    # Equal replicas are one object, here as in partition states.
    by_id = {replicas: tuple([ids[at] for at in replicas]) for replicas in dict.fromkeys(placed)}
    return [by_id[replicas] for replicas in placed]


def _evened(count: int, partitions: int, cursor: int) -> list[int]:
    """The partitions whose followers may be exchanged: those of the turns that are cut at either end, and some more."""
    head = min(-cursor % count, partitions)
    tail = max(head, partitions - max(EVENED_PARTITIONS, count))
    return [*range(head), *range(tail, partitions)]


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

    def even_out(self, placed: list[tuple[int, ...]], evened: Sequence[int], first: int) -> None:
        """Exchanges followers of these partitions until no chain of exchanges makes replicas more even. Of brokers that
        hold the same, the one at `first` comes first, and then those after it.

        Each chain takes a replica from one broker and gives one to another that holds at least two fewer, and
        leaves all between them as they were: the sum of squares falls, so there is an end.
        """
        held = Counter(chain.from_iterable(placed))
        free = [(first + step) % self._count for step in range(self._count)]
        while True:
            free.sort(key=held.__getitem__)
            much = free[-1]
            if held[much] - held[free[0]] < 2:
                return
            stuck = [much]
            for little, changed in self._chains(placed, evened, much, free[:-1]):
                if held[much] - held[little] > 1:
                    for index, replicas in changed.items():
                        placed[index] = replicas
                    held[much] -= 1
                    held[little] += 1
                    break
                stuck.append(little)
            else:
                # Nor can it give one later: chains among the rest open no way out from where it leads to now.
                free = [at for at in free if at not in stuck]

    def _chains(
        self, placed: Sequence[tuple[int, ...]], evened: Sequence[int], much: int, others: list[int]
    ) -> Iterator[tuple[int, dict[int, tuple[int, ...]]]]:
        """Each of the others that a replica of the first can get to, and the partitions as they are then: those that
        take its place themselves, then those that take the place of one of these, and so on. Empties `others`."""
        ends: deque[tuple[int, dict[int, tuple[int, ...]]]] = deque([(much, {})])
        while ends:
            end, changed = ends.popleft()
            for index in evened:
                replicas = changed.get(index, placed[index])
                if end not in replicas[1:]:
                    continue
                for other in others[:]:
                    if other not in replicas and self._may_replace(replicas, end, other):
                        longer = changed | {index: tuple([other if at == end else at for at in replicas])}
                        yield other, longer
                        others.remove(other)
                        ends.append((other, longer))

    def _may_replace(self, replicas: Sequence[int], one: int, other: int) -> bool:
        """Whether racks and hosts are as well spread with the other one."""
        for names in (self._racks, self._hosts):
            if names[one] != names[other]:
                held = [names[at] for at in replicas]
                if held.count(names[other]) >= held.count(names[one]):
                    return False
        return True


def continued(brokers: Sequence[BrokerImage], last_leader: int, cursor: int) -> int:
    """The cursor at which a topic goes on growing: after its last partition's place, so that its leaders stay even."""
    count = len(brokers)
    for index, broker in enumerate(brokers):
        if broker.id == last_leader:
            return cursor - cursor % count + (index + 1) % count
    return cursor
