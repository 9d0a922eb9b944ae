"""Known bugs, put into the code for the length of a simulation: each is one that replicated logs have really had.

They say how good the simulation is: a bug that is planted and not found would not be found if somebody made it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

from moldau.broker.handlers import fetch as fetch_handler
from moldau.broker.txn.txn_marker_writer import TxnMarkerWriter
from moldau.cluster import elections, isr, membership
from moldau.cluster.metadata import Metadata
from moldau.cluster.store import ANY_VERSION, Set
from moldau.cluster.tree import Tree
from moldau.log.producer_state import ProducerStates
from moldau.replication import leadership
from moldau.replication.follower_partition import FollowerPartition
from moldau.replication.leadership import UNLIMITED, Follower, Leadership, Reach
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.wire.errors import ErrorCode

Patch = tuple[Any, str, Any]
BUGS: dict[str, Callable[[], list[Patch]]] = {}


def bug(plant: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
    """Under the name of the function, in words."""
    BUGS[plant.__name__.replace("_", " ")] = plant
    return plant


def places() -> dict[tuple[Any, str], Any]:
    """All that bugs replace in the code, and what stands there."""
    patches = [patch for plant in BUGS.values() for patch in plant()]
    return {(owner, attribute): owner.__dict__[attribute] for owner, attribute, _ in patches}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Inside of the block the code has that bug."""
    patches = BUGS[name]()
    for owner, attribute, value in patches:
        _must_fit(owner.__dict__[attribute], value)
    with replaced(patches):
        yield


@contextmanager
def replaced(patches: Sequence[Patch]) -> Iterator[None]:
    """Inside of the block these attributes are others."""
    before = [owner.__dict__[attribute] for owner, attribute, _ in patches]
    for owner, attribute, value in patches:
        setattr(owner, attribute, value)
    try:
        yield
    finally:
        for (owner, attribute, _), value in zip(patches, before, strict=True):
            setattr(owner, attribute, value)


def _must_fit(original: Callable[..., Any], planted: Callable[..., Any]) -> None:
    """TypeError where the code has changed and would call what is planted with arguments that it does not take: it
    would fail for that, and not for what is wrong with it."""
    given = signature(original).parameters.values()
    positional = [one for one in given if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    keywords = {one.name: one for one in given if one.kind is one.KEYWORD_ONLY}
    signature(planted).bind(*positional, **keywords)


# -- replication -------------------------------------------------------------------------------------------------------


@bug
def no_truncation_by_epoch() -> list[Patch]:
    """A follower does not say of which epoch its last records are, so that the leader cannot see that they differ."""
    target = FollowerPartition.target

    def without_epoch(self: FollowerPartition, max_bytes: int) -> Any:
        asked = target(self, max_bytes)
        asked.last_fetched_epoch = -1
        return asked

    return [(FollowerPartition, "target", without_epoch)]


@bug
def high_watermark_from_the_leaders_end() -> list[Patch]:
    """The leader does not wait for its followers."""
    return [(Leadership, "reach", lambda self, *_: Reach(UNLIMITED, False))]


@bug
def in_sync_change_counted_before_it_is_stored() -> list[Patch]:
    """The leader goes on without a laggard while the store still calls that one eligible."""

    def counts(self: Leadership, replica: int) -> bool:
        return replica in (self.state.isr if self.proposal is None else self.proposal)

    return [(Leadership, "counts", counts)]


@bug
def in_sync_set_not_fenced_by_broker_epoch() -> list[Patch]:
    """A follower counts, and comes in, by what an earlier life of it has fetched and may have lost since."""
    fetched = Follower.fetched

    def of_any_life(self: Follower, offset: int, *rest: Any) -> None:
        fetched(self, max(offset, self.end_offset), *rest)

    return [
        (Follower, "fetched", of_any_life),
        (isr, "_impossible", lambda *_: None),
        (isr, "added_replicas", lambda *_: []),
        (ReplicaManager, "_is_alive", lambda *_: True),
    ]


@bug
def acknowledged_before_the_high_watermark() -> list[Patch]:
    """acks=all is answered as soon as the leader has the record."""
    return [(Partition, "is_safe", lambda self, next_offset: True)]


@bug
def high_watermark_ahead_on_a_follower() -> list[Patch]:
    """A follower takes all that it has copied for committed, and says so when it becomes leader."""

    def follow_high_watermark(self: Partition, offset: int) -> None:
        if self.log.end_offset > self.high_watermark:
            self._show(self.log.end_offset)

    return [(Partition, "follow_high_watermark", follow_high_watermark)]


@bug
def consumers_read_above_the_high_watermark() -> list[Patch]:
    """A consumer is given what a change of leaders may take back."""
    return [(fetch_handler.FetchOperation, "_end", lambda self, partition: partition.log.end_offset)]


@bug
def old_leader_serves_on_after_its_session_is_lost() -> list[Patch]:
    """Nobody tells a broker that lost its session to stop leading, and it answers at once."""
    return [
        (ReplicaManager, "stop_leading", lambda self: None),
        (Partition, "is_safe", lambda self, next_offset: True),
    ]


@bug
def follower_comes_in_before_it_has_all() -> list[Patch]:
    """A follower counts as in sync wherever it is."""

    def may_join_isr(self: Leadership, replica: int, high_watermark: int) -> bool:
        return self.proposal is None and replica in self.followers and replica not in self.state.isr

    return [(Leadership, "may_join_isr", may_join_isr)]


# -- the cluster -------------------------------------------------------------------------------------------------------


@bug
def stale_controller_obeyed() -> list[Patch]:
    """A controller is slow between deciding and storing, and nobody looks whether what it decided about has changed."""
    commit = Tree.commit

    async def late_and_unchecked(self: Tree, operations: Any, *, as_controller: bool = False) -> None:
        if as_controller:
            await asyncio.sleep(1.0)
            loose = [one._replace(version=ANY_VERSION) if isinstance(one, Set) else one for one in operations]
            await self.store.commit(loose)
        else:
            await commit(self, operations)

    return [(Tree, "commit", late_and_unchecked)]


@bug
def lost_tail_stays_in_sync() -> list[Patch]:
    """A broker that lost its power comes back as if nothing had happened."""
    register = Metadata.register

    async def nothing_lost(self: Metadata, broker: Any, lost: Any = ()) -> None:
        await register(self, broker, ())

    return [(Metadata, "register", nothing_lost)]


@bug
def leader_epoch_not_bumped_on_restart() -> list[Patch]:
    """A leader that comes back leads on in the epoch of its former life."""
    return [(membership, "restarted", lambda state, *_, **__: state)]


@bug
def unclean_election() -> list[Patch]:
    """Whoever lives may lead, in sync or not."""

    def anybody(state: Any, isr: Any, elr: Any, alive: Any, unclean: bool) -> int:
        return next((replica for replica in reversed(state.replicas) if replica in alive), -1)

    return [(elections, "_choice", anybody)]


@bug
def high_watermark_goes_on_below_min_insync_replicas() -> list[Patch]:
    """What one replica alone has is shown to consumers, and those outside of the set may still be elected."""
    return [(leadership, "high_watermark_may_advance", lambda *_: True)]


# -- producers and transactions ----------------------------------------------------------------------------------------


@bug
def sequence_check_off() -> list[Patch]:
    """What a producer sends again is written again."""
    return [(ProducerStates, "admit", lambda *_, **__: None)]


@bug
def marker_lost() -> list[Patch]:
    """The marker that ends a transaction is taken for written and is not, in every second partition."""
    write = TxnMarkerWriter.write

    def some(self: Any, marker: Any, topic: str, index: int, settled: Any) -> None:
        if index == 1 and topic == "transacted":
            settled(ErrorCode.NONE)
        else:
            write(self, marker, topic, index, settled)

    return [(TxnMarkerWriter, "write", some)]
