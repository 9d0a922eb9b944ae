"""Command `moldau cluster drain`: moves all replicas of one broker to other brokers, a few at a time.

The only state is the state of the cluster. Reassignments that are in progress when the command is interrupted continue,
and the next run finds them. So a drain can be interrupted and started again any number of times, with another throttle
or none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moldau.cli.reassignment_plans import (
    BROKER_RATES,
    FOLLOWERS_SLOWED,
    LEADERS_SLOWED,
    Plan,
    as_brokers,
    clear_throttle,
    current,
    set_throttle,
    still_there,
)
from moldau.client.admin import ConfigResource, ConfigSource, OngoingReassignment, SomeFailed
from moldau.client.data_types import TopicPartition
from moldau.client.errors import BrokerError, InvalidReplicaAssignment, MoldauError, UnknownTopicOrPartition
from moldau.cluster.relocation import emptied

if TYPE_CHECKING:
    from moldau.client.admin import TopicDescription
    from moldau.client.blocking.admin import Admin

LOOK_S: Final = 0.5
"""The interval between two progress checks."""

STUCK_S: Final = 30.0
"""The time without progress after which the user gets a message."""


_OUTDATED: Final = (InvalidReplicaAssignment, UnknownTopicOrPartition)


class NotDrainedError(MoldauError):
    """The drain made no progress for the given timeout."""


@dataclass
class DrainProgress:
    """The progress of a drain."""

    partitions: int = 0
    """All partitions to move, including those that are done."""
    partitions_done: int = 0
    bytes: int = 0
    bytes_done: int = 0
    moving: Mapping[TopicPartition, OngoingReassignment] = field(default_factory=dict)
    """The reassignments in progress."""
    still_for_s: float = 0.0
    """The time since the last progress."""
    away: frozenset[int] = frozenset()
    """Destination brokers that are not registered. Determined only when nothing moves."""


class Drain:
    """One run. `wait` sleeps for the given seconds and returns True to stop; `tell` gets the tally after every
    check."""

    def __init__(
        self,
        admin: Admin,
        broker: int,
        *,
        at_once: int,
        throttle: int | None,
        timeout_s: float | None,
        wait: Callable[[float], bool],
        tell: Callable[[DrainProgress], None],
    ) -> None:
        self._admin = admin
        self._broker = broker
        self._at_once = at_once
        self._throttle = throttle
        self._timeout_s = timeout_s
        self._wait = wait
        self._tell = tell
        self.tally = DrainProgress()
        self.registered: list[int] = []
        """The ids of the live brokers."""
        self._sizes: dict[TopicPartition, int] = {}
        """The size in bytes of each partition to move, on its leader."""
        self._done: dict[TopicPartition, None] = {}
        self._topics: dict[str, None] = {}
        self._refused: Plan | None = None
        self._last_news = (-1, -1)
        self._news_at = time.monotonic()

    def run(self) -> bool:
        """Run until the broker has no replica left. Return False if it was stopped before that."""
        while True:
            plan, moving = self._look_around()
            if not plan and not moving:
                self._finish()
                return True
            if not self._move(plan, moving):
                return False

    # -- planning ---------------------------------------------------------------------------------------------------

    def _look_around(self) -> tuple[Plan, dict[TopicPartition, OngoingReassignment]]:
        """Return the plan for partitions that do not move yet, and the reassignments that already remove the broker."""
        topics = self._described()
        ongoing = self._admin.list_partition_reassignments()
        leaving = {partition: one for partition, one in ongoing.items() if self._broker in one.removing}
        brokers = as_brokers(self._admin.describe_cluster().brokers)
        self.registered = [one.id for one in brokers]
        held = current(topics.values(), ongoing)
        plan = emptied(held, self._broker, brokers)
        self._topics |= dict.fromkeys(partition.topic for partition in (*plan, *leaving))
        self._size_up([*plan, *leaving], topics)
        if self._throttle is None:
            self._lift_throttles()
        elif plan:
            # Include the partitions that already move, because they are listed in the same settings.
            wanted = plan | {partition: one.target for partition, one in leaving.items()}
            before = {
                partition: tuple(node for node in one.replicas if node not in one.adding)
                for partition, one in leaving.items()
            }
            set_throttle(self._admin, self._throttle, [one.id for one in brokers], held | before, wanted)
        return plan, leaving

    def _lift_throttles(self) -> None:
        """Remove the throttle that an earlier run has set. Other topics may be throttled by someone else, so they are
        left alone."""
        found = self._admin.describe_configs([ConfigResource.topic(name) for name in self._topics])
        slowed = [
            resource.name
            for resource, entries in found.items()
            if any(name in entries and entries[name].value for name in (LEADERS_SLOWED, FOLLOWERS_SLOWED))
        ]
        clear_throttle(self._admin, (), slowed)

    def _described(self) -> dict[str, TopicDescription]:
        return still_there(self._admin, [one.name for one in self._admin.list_topics(include_internal=True)])

    def _size_up(self, partitions: list[TopicPartition], topics: Mapping[str, TopicDescription]) -> None:
        """Ask the leaders for the sizes of their partitions."""
        led: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            leader = topics[partition.topic].partitions[partition.partition].leader
            if partition not in self._sizes:
                self._sizes[partition] = 0
                if leader is not None:
                    led.setdefault(leader, []).append(partition)
        for (partition, _), size in self._stored(led).items():
            self._sizes[partition] = size
        self.tally.partitions = len(self._sizes)
        self.tally.bytes = sum(self._sizes.values())

    def _stored(self, wanted: Mapping[int, list[TopicPartition]]) -> dict[tuple[TopicPartition, int], int]:
        """The bytes that brokers store of partitions. A broker that does not answer is left out."""
        found: dict[tuple[TopicPartition, int], int] = {}
        for node, partitions in wanted.items():
            try:
                directories = self._admin.describe_log_dirs(node, partitions)[node]
            except MoldauError:
                continue  # sizes are only displayed, and not needed for the moves
            for directory in directories:
                for partition, replica in directory.replicas.items():
                    if not replica.is_future:
                        found[partition, node] = replica.size
        return found

    # -- moving -----------------------------------------------------------------------------------------------------

    def _move(self, plan: Plan, moving: dict[TopicPartition, OngoingReassignment]) -> bool:
        """Start the planned moves, a limited number at a time, and wait until all have ended. Return False if
        stopped."""
        pending = dict(plan)
        while pending or moving:
            room = max(0, self._at_once - len(moving))
            batch = {partition: pending[partition] for partition in list(pending)[:room]}
            if batch and not self._begin(batch):
                return not self._wait(LOOK_S)  # a broker died or started: plan again
            for partition in batch:
                del pending[partition]
            ongoing = self._admin.list_partition_reassignments()
            begun = [*moving, *batch]
            moving = {partition: ongoing[partition] for partition in begun if partition in ongoing}
            self._done |= dict.fromkeys(partition for partition in begun if partition not in moving)
            self._note(moving)
            if (pending or moving) and self._wait(LOOK_S):
                return False
        return True

    def _begin(self, batch: Plan) -> bool:
        """Return False if the plan is outdated because a destination broker has died."""
        try:
            self._admin.alter_partition_reassignments(batch)
        except (BrokerError, SomeFailed) as failure:
            errors = list(failure.errors.values()) if isinstance(failure, SomeFailed) else [failure]
            # A partition that was deleted in the meantime needs no move.
            if all(isinstance(error, UnknownTopicOrPartition) for error in errors):
                return True
            if batch == self._refused or not all(isinstance(error, _OUTDATED) for error in errors):
                raise
            self._refused = batch
            return False
        return True

    def _note(self, moving: dict[TopicPartition, OngoingReassignment]) -> None:
        wanted: dict[int, list[TopicPartition]] = {}
        for partition, one in moving.items():
            for node in one.adding:
                wanted.setdefault(node, []).append(partition)
        copied: dict[TopicPartition, int] = {}
        for (partition, _), size in self._stored(wanted).items():
            copied[partition] = min(size, self._sizes.get(partition, 0))
        tally, now = self.tally, time.monotonic()
        tally.moving = moving
        tally.partitions_done = len(self._done)
        tally.bytes_done = sum(self._sizes.get(one, 0) for one in self._done) + sum(copied.values())
        news = (tally.partitions_done, tally.bytes_done)
        if news != self._last_news:
            self._last_news, self._news_at = news, now
        tally.still_for_s = now - self._news_at
        given_up = self._timeout_s is not None and tally.still_for_s >= self._timeout_s
        if given_up or tally.still_for_s >= STUCK_S:
            self.registered = [one.id for one in self._admin.describe_cluster().brokers]
            tally.away = frozenset(wanted.keys() - {*self.registered})
        self._tell(tally)
        if given_up:
            raise NotDrainedError(f"nothing has moved for {tally.still_for_s:.0f} s; waiting for {waiting_for(tally)}")

    def _finish(self) -> None:
        """Remove the throttle that this run, or an interrupted one, has set."""
        nodes = [node.id for node in self._admin.describe_cluster().brokers]
        if self._throttle is None and not self._is_slowed(nodes):
            return
        clear_throttle(self._admin, nodes, self._topics)

    def _is_slowed(self, nodes: list[int]) -> bool:
        found = self._admin.describe_configs([ConfigResource.broker(node) for node in nodes])
        return any(
            entry.source is ConfigSource.DYNAMIC_BROKER_CONFIG
            for entries in found.values()
            for name, entry in entries.items()
            if name in BROKER_RATES
        )


def waiting_for(tally: DrainProgress) -> str:
    """The partitions that still move and the brokers that they move to, or a few of them."""
    some = [f"{partition} on {', '.join(map(str, one.adding))}" for partition, one in list(tally.moving.items())[:3]]
    listed = "; ".join(some) + ("; …" if len(tally.moving) > len(some) else "")
    if not tally.away:
        return listed
    gone = ", ".join(map(str, sorted(tally.away)))
    return f"{listed}. Broker {gone} is not running: start it, or drain it as well"
