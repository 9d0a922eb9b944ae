"""Partition states for tests: a short notation, random states, and their invariants."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st

from moldau.cluster.image import NO_LEADER, PartitionState

BROKERS = tuple(range(1, 7))


def state(
    replicas: tuple[int, ...],
    isr: tuple[int, ...] | None = None,
    leader: int | None = None,
    *,
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> PartitionState:
    """A state with leader epoch 5 and partition epoch 9. By default all replicas are in sync and the first one
    leads."""
    isr = replicas if isr is None else isr
    leader = (isr[0] if isr else NO_LEADER) if leader is None else leader
    return PartitionState(replicas, isr, leader, 5, 9, elr, last_known, adding, removing)


def sound(one: PartitionState) -> None:
    """The invariants of every state."""
    assert one.replicas
    assert len(set(one.replicas)) == len(one.replicas)
    order = {replica: place for place, replica in enumerate(one.replicas)}
    for some in (one.isr, one.elr, one.last_known_elr):
        assert set(some) <= set(one.replicas), "not a replica"
        assert sorted(some, key=order.__getitem__) == list(some), "not in the order of the replicas"
    assert not set(one.isr) & set(one.elr), (
        "a replica is both in the ISR and in the list of eligible leaders outside of it"
    )
    assert one.leader == NO_LEADER or one.leader in one.isr, "the leader is not in sync"
    assert set(one.adding) | set(one.removing) <= set(one.replicas)
    assert not set(one.adding) & set(one.removing)


def a_step(before: PartitionState, after: PartitionState) -> None:
    """The invariants between a state and the next one."""
    sound(after)
    if after is before:
        return
    assert after != before
    assert after.partition_epoch == before.partition_epoch + 1
    if after.leader != before.leader:
        assert after.leader_epoch == before.leader_epoch + 1
    else:
        assert after.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)


@st.composite
def states(draw: st.DrawFn) -> PartitionState:
    """Any valid state."""
    replicas = tuple(draw(st.permutations(BROKERS))[: draw(st.integers(1, 5))])
    roles = [draw(st.sampled_from(["isr", "isr", "elr", "last", "out"])) for _ in replicas]

    def those(role: str) -> tuple[int, ...]:
        return tuple([replica for replica, its in zip(replicas, roles, strict=True) if its == role])

    isr = those("isr")
    leader = draw(st.sampled_from([*isr, NO_LEADER]))
    cut = draw(st.integers(0, 2))
    adding = tuple(replica for replica in replicas[:-1][:cut] if draw(st.booleans()))
    removing = tuple([replica for replica in replicas[len(replicas) // 2 + 1 :] if replica not in adding])
    if not draw(st.booleans()):
        adding = removing = ()
    drawn = state(replicas, isr, leader, elr=those("elr"), last_known=those("last"), adding=adding, removing=removing)
    # The target replicas come first, those that will be removed after them.
    ordered = (*[one for one in replicas if one not in removing], *removing)
    place = {replica: at for at, replica in enumerate(ordered)}

    def sort(some: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(some, key=place.__getitem__))

    drawn = replace(
        drawn,
        replicas=ordered,
        isr=sort(drawn.isr),
        elr=sort(drawn.elr),
        last_known_elr=sort(drawn.last_known_elr),
    )
    sound(drawn)
    return drawn


def alive_sets() -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.sampled_from(BROKERS))
