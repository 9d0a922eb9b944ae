"""`moldau cluster drain`: every replica of one broker is moved to the others, some at a time, until it holds nothing.

There is no state but the cluster's own. What is under way when it is interrupted goes on by itself, and a drain that is
started again finds it: so it may be broken off and taken up as often as one likes, with another throttle or none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moldau.cli.reassigning import (
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
from moldau.client.errors import BrokerError, InvalidReplicaAssignment, MoldauError, UnknownTopicOrPartition
from moldau.client.model import TopicPartition
from moldau.cluster.relocation import emptied

if TYPE_CHECKING:
    from moldau.client.admin import TopicDescription
    from moldau.client.blocking.admin import Admin

LOOK_S: Final = 0.5
"""Between two looks at what is under way."""

STUCK_S: Final = 30.0
"""After so long without a byte or a partition moved, whoever waits is told."""


_OUTDATED: Final = (InvalidReplicaAssignment, UnknownTopicOrPartition)


class NotDrainedError(MoldauError):
    """The drain came to no end in the time that it was given."""


@dataclass
class Tally:
    """How far a drain is."""

    partitions: int = 0
    """To be moved, those that are done included."""
    partitions_done: int = 0
    bytes: int = 0
    bytes_done: int = 0
    moving: Mapping[TopicPartition, OngoingReassignment] = field(default_factory=dict)
    """What is under way now."""
    still_for_s: float = 0.0
    """For how long nothing has moved."""
    away: frozenset[int] = frozenset()
    """Brokers that partitions move to and that are not there: looked for where nothing moves."""


class Drain:
    """One run. `wait` pauses for so many seconds and says whether to stop; `tell` hears of every look."""

    def __init__(
        self,
        admin: Admin,
        broker: int,
        *,
        at_once: int,
        throttle: int | None,
        timeout_s: float | None,
        wait: Callable[[float], bool],
        tell: Callable[[Tally], None],
    ) -> None:
        self._admin = admin
        self._broker = broker
        self._at_once = at_once
        self._throttle = throttle
        self._timeout_s = timeout_s
        self._wait = wait
        self._tell = tell
        self.tally = Tally()
        self.registered: list[int] = []
        """The brokers of the cluster, as far as they live."""
        self._sizes: dict[TopicPartition, int] = {}
        """Bytes of each partition that is to be moved, as its leader has them."""
        self._done: dict[TopicPartition, None] = {}
        self._topics: dict[str, None] = {}
        self._refused: Plan | None = None
        self._last_news = (-1, -1)
        self._news_at = time.monotonic()

    def run(self) -> bool:
        """Until the broker holds nothing; False where it was stopped before."""
        while True:
            plan, moving = self._look_around()
            if not plan and not moving:
                self._finish()
                return True
            if not self._move(plan, moving):
                return False

    # -- what is to be done ----------------------------------------------------------------------------------------

    def _look_around(self) -> tuple[Plan, dict[TopicPartition, OngoingReassignment]]:
        """What is to be moved and does not move yet; and what leaves the broker already."""
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
            # Of what moves already, too: that is listed in the same settings.
            wanted = plan | {partition: one.target for partition, one in leaving.items()}
            before = {
                partition: tuple(node for node in one.replicas if node not in one.adding)
                for partition, one in leaving.items()
            }
            set_throttle(self._admin, self._throttle, [one.id for one in brokers], held | before, wanted)
        return plan, leaving

    def _lift_throttles(self) -> None:
        """What a run before this one has slowed down goes on at full speed. Other topics may be somebody else's."""
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
        """Ask the leaders how large their partitions are."""
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
        """How many bytes brokers have of partitions; a broker that does not answer has none that we know of."""
        found: dict[tuple[TopicPartition, int], int] = {}
        for node, partitions in wanted.items():
            try:
                directories = self._admin.describe_log_dirs(node, partitions)[node]
            except MoldauError:
                continue  # it is for showing only: what moves is known from elsewhere
            for directory in directories:
                for partition, replica in directory.replicas.items():
                    if not replica.is_future:
                        found[partition, node] = replica.size
        return found

    # -- doing it --------------------------------------------------------------------------------------------------

    def _move(self, plan: Plan, moving: dict[TopicPartition, OngoingReassignment]) -> bool:
        """Begin with what is planned, so many at a time, and watch all of it to its end; False where it was stopped."""
        pending = dict(plan)
        while pending or moving:
            room = max(0, self._at_once - len(moving))
            batch = {partition: pending[partition] for partition in list(pending)[:room]}
            if batch and not self._begin(batch):
                return not self._wait(LOOK_S)  # a broker died, or came: look around again
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
        """False where the plan does not fit the cluster any more: a broker that something was to go to has died."""
        try:
            self._admin.alter_partition_reassignments(batch)
        except (BrokerError, SomeFailed) as failure:
            errors = list(failure.errors.values()) if isinstance(failure, SomeFailed) else [failure]
            # One that was deleted meanwhile holds nothing up.
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
        """Take back what this run, or one that was broken off, has slowed down."""
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


def waiting_for(tally: Tally) -> str:
    """Which partitions are not there yet, and on whom; some of them."""
    some = [f"{partition} on {', '.join(map(str, one.adding))}" for partition, one in list(tally.moving.items())[:3]]
    listed = "; ".join(some) + ("; …" if len(tally.moving) > len(some) else "")
    if not tally.away:
        return listed
    gone = ", ".join(map(str, sorted(tally.away)))
    return f"{listed}. Of these brokers {gone} is not there: start it again, or drain it, too"
