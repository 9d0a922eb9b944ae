"""Replication throttles: limits the rate of partition moves to leave bandwidth for clients.

As in Kafka, a topic names the throttled replicas (`PARTITION:BROKER`, or all) on the leader's and on the follower's
side, and a broker has a rate for each side. A replica that is in sync is never throttled: it would fall out of the ISR.

The rate is enforced by debt. Copied bytes are added to the debt, which decreases at the rate; while there is debt,
nothing is copied. So one response may exceed one second's share, and the pause after it compensates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from moldau.cluster.image import TopicImage
from moldau.replication.partition import Partition

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

UNLIMITED: Final = (1 << 63) - 1
LISTS_REMEMBERED: Final = 1024
"""Cache size for parsed lists of replicas."""


class Rates(NamedTuple):
    """Bytes per second, from the broker's settings."""

    leader: int = UNLIMITED
    follower: int = UNLIMITED


class ReplicationThrottle:
    """One rate. The debt is in bytes, so a debt from a low rate is paid quickly after the rate is raised."""

    __slots__ = ("_debt_bytes", "_now", "_rate", "_settled_at")

    def __init__(self, rate: Callable[[], int], now: Callable[[], float]) -> None:
        self._rate = rate
        self._now = now
        self._debt_bytes = 0.0
        self._settled_at = 0.0

    @property
    def exceeded(self) -> bool:
        """Whether more was copied recently than the rate allows."""
        rate = self._rate()
        if rate >= UNLIMITED:
            self._debt_bytes = 0.0
            return False
        return rate == 0 or self._owed(rate) > 0

    def count(self, size: int) -> None:
        """Count copied bytes."""
        rate = self._rate()
        if 0 < rate < UNLIMITED:
            self._debt_bytes = self._owed(rate) + size

    def _owed(self, rate: int) -> float:
        now = self._now()
        self._debt_bytes = max(0.0, self._debt_bytes - (now - self._settled_at) * rate)
        self._settled_at = now
        return self._debt_bytes


class Throttles:
    """Both rates of a broker, and the replicas that they apply to."""

    def __init__(
        self,
        node_id: int,
        topic: Callable[[str], TopicImage | None],
        rates: Callable[[], Rates],
        now: Callable[[], float],
    ) -> None:
        self._node_id = node_id
        self._topic = topic
        self._sending = ReplicationThrottle(lambda: rates().leader, now)
        self._copying = ReplicationThrottle(lambda: rates().follower, now)

    def may_send(self, partition: Partition, replica: int) -> bool:
        """Whether records may be sent to a follower now."""
        return not (self._sending.exceeded and self._counts(partition, LEADER_REPLICAS, replica))

    def sent(self, partition: Partition, replica: int, size: int) -> None:
        """Count records that were sent to a follower."""
        if self._counts(partition, LEADER_REPLICAS, replica):
            self._sending.count(size)

    def holds_back(self, partition: Partition) -> bool:
        """Whether this broker must not copy a partition now."""
        return self._copying.exceeded and self._counts(partition, FOLLOWER_REPLICAS, self._node_id)

    def copied(self, partition: Partition, size: int) -> None:
        """Count records that this broker copied."""
        if self._counts(partition, FOLLOWER_REPLICAS, self._node_id):
            self._copying.count(size)

    def _counts(self, partition: Partition, side: str, replica: int) -> bool:
        topic = self._topic(partition.topic)
        if topic is None or not topic.configs or not is_throttled(topic.configs, side, partition.index, replica):
            return False
        leadership = partition.leadership
        return replica not in (leadership.isr if leadership is not None else topic.partitions[partition.index].isr)


def is_throttled(configs: Mapping[str, str], side: str, partition: int, replica: int) -> bool:
    """Whether a topic's settings name this replica."""
    text = configs.get(side)
    return text is not None and (text.strip() == "*" or (partition, replica) in _named(text))


@lru_cache(LISTS_REMEMBERED)
def _named(text: str) -> frozenset[tuple[int, int]]:
    pairs = (item.split(":") for item in text.split(",") if item.strip())
    return frozenset((int(partition), int(replica)) for partition, replica in pairs)
