"""Placement: which brokers hold a new partition. Pure, and the same for the same arguments.

The brokers stand in a ring in which racks are spread evenly. Partitions take the ring's places in turn as preferred
leaders, so no two brokers lead more than one partition apart. The other replicas are found by walking on from the
leader, past racks that hold one already while other racks hold fewer. Each time round the ring the walk starts one
step further, so the followers of a broker's partitions are spread over all others, and so is its load when it fails.

Racks come before balance: a rack of one broker next to a rack of three holds half of all replicas of a factor of two.
It does not look at sizes, traffic or existing partitions; a cursor that moves on with each placement keeps many
small topics as even as one big one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.cluster.image import BrokerImage


def ring(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    """The brokers in the order in which they take turns: by id within a rack, racks mixed as evenly as can be."""
    racks: dict[str, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", []).append(broker)
    places = [
        ((2 * index + 1) / (2 * len(members)), rack, broker)
        for rack, members in racks.items()
        for index, broker in enumerate(members)
    ]
    places.sort(key=lambda place: place[:2])
    return [broker for _, _, broker in places]


def place(
    brokers: Sequence[BrokerImage], partitions: int, replication_factor: int, cursor: int
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, preferred leader first.

    `brokers` is a ring; `cursor` is the number of places taken before, and the next one is `cursor + partitions`.
    """
    count = len(brokers)
    if not 1 <= replication_factor <= count:
        raise ValueError(f"{replication_factor} replicas cannot be placed on {count} brokers")
    others = max(count - 1, 1)
    # The choice repeats after `count` leaders times `others` turns: the work is bounded by that, whatever is placed.
    known: dict[tuple[int, int], tuple[int, ...]] = {}
    placed: list[tuple[int, ...]] = []
    for slot in range(cursor, cursor + partitions):
        place = (slot % count, slot // count % others)
        replicas = known.get(place)
        if replicas is None:
            replicas = known[place] = _replicas(brokers, *place, replication_factor)
        placed.append(replicas)
    return placed


def _replicas(brokers: Sequence[BrokerImage], leader: int, turn: int, replication_factor: int) -> tuple[int, ...]:
    """The leader, then those met first on the walk; a rack again only when every rack with room had its turn."""
    count = len(brokers)
    chosen = [brokers[leader]]
    # Every other place of the ring, once, from this turn's first one on.
    waiting = [brokers[(leader + 1 + (turn + step) % (count - 1)) % count] for step in range(count - 1)]
    used = {chosen[0].rack}
    while len(chosen) < replication_factor:
        passed_by = []
        for broker in waiting:
            if len(chosen) == replication_factor or broker.rack in used:
                passed_by.append(broker)
            else:
                chosen.append(broker)
                used.add(broker.rack)
        waiting, used = passed_by, set()
    return tuple([broker.id for broker in chosen])


def continued(brokers: Sequence[BrokerImage], last_leader: int, cursor: int) -> int:
    """The cursor at which a topic goes on growing: after its last partition's place, so that its leaders stay even."""
    count = len(brokers)
    for index, broker in enumerate(brokers):
        if broker.id == last_leader:
            return cursor - cursor % count + (index + 1) % count
    return cursor
