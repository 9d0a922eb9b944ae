"""Replica placement for new partitions. Pure and deterministic.

The brokers form a ring in which racks, and the hosts of a rack, are spread evenly. Partitions take the places of the
ring in turn as preferred leaders, so the numbers of led partitions differ by at most one. To find the other replicas, a
walk starts after the leader. It takes the first broker in a rack with the fewest replicas of the partition, and within
that rack on a host with the fewest. Each time round the ring the walk starts one step further. So the followers of a
broker's partitions are spread over all other brokers, and so is its load when it fails. Afterwards followers are
exchanged until no broker holds two replicas more than another, as far as racks and hosts allow it.

Racks and hosts allow it if all racks have the same size and all hosts have the same size. Complete turns of the ring
are even by construction: a turn looks the same from every place of the ring. The incomplete turns, at the first and at
the last partition, can be evened out:

- With F replicas per partition and N brokers, an even share is F/N of a replica on each broker. That is a flow from
  partitions through racks and hosts to brokers. Such a flow can be rounded so that each of its sums becomes one of the
  two nearest integers: a partition's replicas in a rack and on a host, and all replicas of a rack, a host and a broker.
- In the same way 1/F of each of these replicas becomes one leader of each partition, even over racks, hosts and
  brokers. The leaders that the ring gives are just as even, and differ only in names. So an even placement with these
  leaders exists, too.
- If a flow is not as even as possible, a chain of exchanges makes it more even, and all chains are tried.

Racks have priority over hosts, and both over balance: with a replication factor of two, a rack of one broker next to a
rack of three holds half of all replicas. If racks differ in size, large topics are less even than possible, because
only some of their followers are exchanged. Placement ignores sizes, traffic and existing partitions. A cursor that
advances with each partition also spreads many small topics, but not as evenly as one big topic.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

from moldau.cluster.image import BrokerImage

T = TypeVar("T")

EVENED_PARTITIONS: Final = 256
"""Followers of this many of the last partitions may be exchanged, or of one whole turn if that is more."""


def host(broker: BrokerImage) -> str:
    """The host name of a broker's first endpoint."""
    return broker.endpoints[0].host if broker.endpoints else ""


def ring(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    """The brokers in the order of their turns: by id, with racks and hosts interleaved as evenly as possible."""
    racks: dict[str, dict[str, list[BrokerImage]]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", {}).setdefault(host(broker), []).append(broker)
    return _mixed([_mixed(list(hosts.values())) for _, hosts in sorted(racks.items())])


def _mixed(groups: Sequence[Sequence[T]]) -> list[T]:
    """The members of all groups, with the members of each group as far apart as possible."""
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

    `brokers` is a ring. `cursor` is the number of places taken before; the next call continues at `cursor +
    partitions`.
    """
    count = len(brokers)
    if not 1 <= replication_factor <= count:
        raise ValueError(f"{replication_factor} replicas cannot be placed on {count} brokers")
    walks = _Walks(brokers, replication_factor)
    turns = max(count - 1, 1)
    # The choice repeats after `count` leaders times `turns`, so this bounds the work for any number of partitions.
    known: dict[tuple[int, int], tuple[int, ...]] = {}
    placed: list[tuple[int, ...]] = []
    for slot in range(cursor, cursor + partitions):
        start = (slot % count, slot // count % turns)
        replicas = known.get(start)
        if replicas is None:
            replicas = known[start] = walks.replicas(*start)
        placed.append(replicas)
    # The broker that wins ties advances with the cursor, and once more with each turn. So many small topics favour no
    # broker in the long run, even if their partition counts match the size of the ring.
    walks.even_out(placed, _evened(count, partitions, cursor), (cursor + cursor // count) % count)
    ids = [broker.id for broker in brokers]
    # Equal replica lists share one tuple, as in partition states.
    by_id = {replicas: tuple([ids[at] for at in replicas]) for replicas in dict.fromkeys(placed)}
    return [by_id[replicas] for replicas in placed]


def _evened(count: int, partitions: int, cursor: int) -> list[int]:
    """The partitions whose followers may be exchanged: those of the incomplete turns at both ends, and some more."""
    head = min(-cursor % count, partitions)
    tail = max(head, partitions - max(EVENED_PARTITIONS, count))
    return [*range(head), *range(tail, partitions)]


class _Walks:
    """Walks round the ring. Brokers are represented by their positions in it."""

    def __init__(self, brokers: Sequence[BrokerImage], replication_factor: int) -> None:
        self._count = len(brokers)
        self._factor = replication_factor
        self._racks = [broker.rack for broker in brokers]
        self._hosts = [(broker.rack, host(broker)) for broker in brokers]
        self._rack_count, self._host_count = len(set(self._racks)), len(set(self._hosts))

    def replicas(self, leader: int, turn: int) -> tuple[int, ...]:
        """The leader and the followers found on its walk."""
        # Every other position of the ring once, beginning with the first one of this turn.
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
                        break  # no broker can be better
            chosen.append(best)
            waiting.remove(best)
        return tuple(chosen)

    def even_out(self, placed: list[tuple[int, ...]], evened: Sequence[int], first: int) -> None:
        """Exchange followers of these partitions until no chain of exchanges makes the replicas more even. Ties are
        broken by ring order, beginning at `first`.

        Each chain takes a replica from one broker and gives one to another that holds at least two fewer. The brokers
        between them keep their numbers. So the sum of squares falls each time, and the loop ends.
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
                # These brokers cannot give a replica later either: chains among the rest cannot open a way out of this
                # set.
                free = [at for at in free if at not in stuck]

    def _chains(
        self, placed: Sequence[tuple[int, ...]], evened: Sequence[int], much: int, others: list[int]
    ) -> Iterator[tuple[int, dict[int, tuple[int, ...]]]]:
        """Yield each of `others` that a replica of `much` can move to, with the resulting partitions.

        Breadth first: brokers that can replace `much` directly, then brokers that can replace one of those, and so on.
        Empties `others`.
        """
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
        """Whether racks and hosts are spread as well after the exchange."""
        for names in (self._racks, self._hosts):
            if names[one] != names[other]:
                held = [names[at] for at in replicas]
                if held.count(names[other]) >= held.count(names[one]):
                    return False
        return True


def continued(brokers: Sequence[BrokerImage], last_leader: int, cursor: int) -> int:
    """The cursor for new partitions of a topic: after its last partition's place, so that its leaders stay even."""
    count = len(brokers)
    for index, broker in enumerate(brokers):
        if broker.id == last_leader:
            return cursor - cursor % count + (index + 1) % count
    return cursor
