"""Known bugs of replicated logs, planted into the code for the duration of a simulation.

They measure the simulation: if it does not find a planted bug, it would not find the same bug made by a developer.
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
from moldau.security.acl_authorizer import AclAuthorizer
from moldau.wire.errors import ErrorCode

Patch = tuple[Any, str, Any]
BUGS: dict[str, Callable[[], list[Patch]]] = {}


def bug(plant: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
    """Register a bug. Its name is the name of the function, with spaces."""
    BUGS[plant.__name__.replace("_", " ")] = plant
    return plant


def places() -> dict[tuple[Any, str], Any]:
    """All attributes that bugs replace, with their original values."""
    patches = [patch for plant in BUGS.values() for patch in plant()]
    return {(owner, attribute): owner.__dict__[attribute] for owner, attribute, _ in patches}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The code has this bug inside the block."""
    patches = BUGS[name]()
    for owner, attribute, value in patches:
        _must_fit(owner.__dict__[attribute], value)
    with replaced(patches):
        yield


@contextmanager
def replaced(patches: Sequence[Patch]) -> Iterator[None]:
    """The attributes have these values inside the block."""
    before = [owner.__dict__[attribute] for owner, attribute, _ in patches]
    for owner, attribute, value in patches:
        setattr(owner, attribute, value)
    try:
        yield
    finally:
        for (owner, attribute, _), value in zip(patches, before, strict=True):
            setattr(owner, attribute, value)


def _must_fit(original: Callable[..., Any], planted: Callable[..., Any]) -> None:
    """Raise TypeError if the planted function does not accept the arguments of the original one. After a change of the
    code, such a bug would fail for its signature and not for its effect."""
    given = signature(original).parameters.values()
    positional = [one for one in given if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    keywords = {one.name: one for one in given if one.kind is one.KEYWORD_ONLY}
    signature(planted).bind(*positional, **keywords)


# -- replication -------------------------------------------------------------------------------------------------------


@bug
def no_truncation_by_epoch() -> list[Patch]:
    """A follower does not send the epoch of its last records, so the leader cannot detect divergence."""
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
def isr_change_used_before_it_is_stored() -> list[Patch]:
    """The leader stops waiting for a slow follower while the stored ISR still contains it, so it can be elected."""

    def counts(self: Leadership, replica: int) -> bool:
        return replica in (self.state.isr if self.proposal is None else self.proposal)

    return [(Leadership, "counts", counts)]


@bug
def isr_not_fenced_by_broker_epoch() -> list[Patch]:
    """A fetch of an earlier incarnation of a follower counts for the ISR, although its records may be lost since."""
    fetched = Follower.fetched

    def of_any_incarnation(self: Follower, offset: int, *rest: Any) -> None:
        fetched(self, max(offset, self.end_offset), *rest)

    return [
        (Follower, "fetched", of_any_incarnation),
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
    """A follower takes all copied records for committed, and reports this high watermark when it becomes leader."""

    def follow_high_watermark(self: Partition, offset: int) -> None:
        if self.log.end_offset > self.high_watermark:
            self._show(self.log.end_offset)

    return [(Partition, "follow_high_watermark", follow_high_watermark)]


@bug
def consumers_read_above_the_high_watermark() -> list[Patch]:
    """A consumer gets records that a change of leaders may remove."""
    return [(fetch_handler.FetchOperation, "_end", lambda self, partition: partition.log.end_offset)]


@bug
def leader_serves_after_its_session_is_lost() -> list[Patch]:
    """A broker that lost its session is not told to stop leading, and continues to answer."""
    return [
        (ReplicaManager, "stop_leading", lambda self: None),
        (Partition, "is_safe", lambda self, next_offset: True),
    ]


@bug
def follower_joins_the_isr_before_it_has_caught_up() -> list[Patch]:
    """A follower is added to the ISR before it has caught up."""

    def may_join_isr(self: Leadership, replica: int, high_watermark: int) -> bool:
        return self.proposal is None and replica in self.followers and replica not in self.state.isr

    return [(Leadership, "may_join_isr", may_join_isr)]


# -- the cluster -------------------------------------------------------------------------------------------------------


@bug
def stale_controller_accepted() -> list[Patch]:
    """A controller is slow between decision and storage, and the store does not check whether the state has changed."""
    commit = Tree.commit

    async def late_and_unchecked(self: Tree, operations: Any, *, as_controller: bool = False) -> None:
        if as_controller:
            await asyncio.sleep(1.0)  # the planted delay, in virtual time
            loose = [one._replace(version=ANY_VERSION) if isinstance(one, Set) else one for one in operations]
            await self.store.commit(loose)
        else:
            await commit(self, operations)

    return [(Tree, "commit", late_and_unchecked)]


@bug
def lost_tail_stays_in_sync() -> list[Patch]:
    """A broker that lost its power stays in the ISR when it restarts."""
    register = Metadata.register

    async def nothing_lost(self: Metadata, broker: Any, lost: Any = ()) -> None:
        await register(self, broker, ())

    return [(Metadata, "register", nothing_lost)]


@bug
def leader_epoch_not_bumped_on_restart() -> list[Patch]:
    """A leader that restarts continues in its old leader epoch."""
    return [(membership, "restarted", lambda state, *_, **__: state)]


@bug
def unclean_election() -> list[Patch]:
    """Any live replica may be elected, in sync or not."""

    def anybody(state: Any, isr: Any, elr: Any, alive: Any, unclean: bool) -> int:
        return next((replica for replica in reversed(state.replicas) if replica in alive), -1)

    return [(elections, "_choice", anybody)]


@bug
def high_watermark_advances_below_min_insync_replicas() -> list[Patch]:
    """Records that only one replica has become visible, although replicas outside the ISR may still be elected."""
    return [(leadership, "high_watermark_may_advance", lambda *_: True)]


# -- access control ----------------------------------------------------------------------------------------------------


@bug
def decisions_cached_after_a_change_of_rules() -> list[Patch]:
    """An authorizer keeps its former decisions when the rules change."""
    follow = AclAuthorizer.follow

    def with_former_decisions(self: AclAuthorizer, acls: Any) -> None:
        former = dict(self._decisions)
        follow(self, acls)
        self._decisions.update(former)

    return [(AclAuthorizer, "follow", with_former_decisions)]


@bug
def removed_rules_stay_in_force() -> list[Patch]:
    """An authorizer learns of new rules, but not of removed ones."""
    follow = AclAuthorizer.follow

    def without_removals(self: AclAuthorizer, acls: Any) -> None:
        former = {pattern: rules.entries for pattern, rules in self._acls.items()}
        new = {pattern: tuple(dict.fromkeys((*former.get(pattern, ()), *some))) for pattern, some in acls.items()}
        follow(self, former | new)

    return [(AclAuthorizer, "follow", without_removals)]


# -- producers and transactions ----------------------------------------------------------------------------------------


@bug
def sequence_check_off() -> list[Patch]:
    """A batch that a producer retries is written again."""
    return [(ProducerStates, "admit", lambda *_, **__: None)]


@bug
def marker_lost() -> list[Patch]:
    """In every second partition, the marker that ends a transaction is reported as written but is not."""
    write = TxnMarkerWriter.write

    def some(self: Any, marker: Any, topic: str, index: int, settled: Any) -> None:
        if index == 1 and topic == "transacted":
            settled(ErrorCode.NONE)
        else:
            write(self, marker, topic, index, settled)

    return [(TxnMarkerWriter, "write", some)]
