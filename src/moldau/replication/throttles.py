"""Limits on replication, so that moving partitions leaves room for clients: Kafka's throttled rates and replicas.

A topic names replicas (`PARTITION:BROKER`, or all) whose traffic counts, on the leader's side and on the follower's; a
broker has a rate for each side. A replica that is in sync is not held back: it would fall out of the in-sync set.

The rate is kept by debt: what was copied is paid back at the rate, and while there is debt nothing more is copied. So
one answer may be larger than a second's worth, and is made up for by the pause after it.
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
"""Texts of settings that need not be read anew."""


class Rates(NamedTuple):
    """Bytes a second, as the broker's settings have them."""

    leader: int = UNLIMITED
    follower: int = UNLIMITED


class Throttle:
    """One rate. The debt is in bytes, so that one made at a low rate is soon paid when the rate is raised."""

    __slots__ = ("_debt_bytes", "_now", "_rate", "_settled_at")

    def __init__(self, rate: Callable[[], int], now: Callable[[], float]) -> None:
        self._rate = rate
        self._now = now
        self._debt_bytes = 0.0
        self._settled_at = 0.0

    @property
    def exceeded(self) -> bool:
        """Whether more was copied lately than the rate allows."""
        rate = self._rate()
        if rate >= UNLIMITED:
            self._debt_bytes = 0.0
            return False
        return rate == 0 or self._owed(rate) > 0

    def count(self, size: int) -> None:
        """So many bytes were copied."""
        rate = self._rate()
        if 0 < rate < UNLIMITED:
            self._debt_bytes = self._owed(rate) + size

    def _owed(self, rate: int) -> float:
        now = self._now()
        self._debt_bytes = max(0.0, self._debt_bytes - (now - self._settled_at) * rate)
        self._settled_at = now
        return self._debt_bytes


class Throttles:
    """Both rates of a broker, and whom they are for."""

    def __init__(
        self,
        node_id: int,
        topic: Callable[[str], TopicImage | None],
        rates: Callable[[], Rates],
        now: Callable[[], float],
    ) -> None:
        self._node_id = node_id
        self._topic = topic
        self._sending = Throttle(lambda: rates().leader, now)
        self._copying = Throttle(lambda: rates().follower, now)

    def may_send(self, partition: Partition, replica: int) -> bool:
        """Whether a follower may be sent records now."""
        return not (self._sending.exceeded and self._counts(partition, LEADER_REPLICAS, replica))

    def sent(self, partition: Partition, replica: int, size: int) -> None:
        """Records were sent to a follower."""
        if self._counts(partition, LEADER_REPLICAS, replica):
            self._sending.count(size)

    def holds_back(self, partition: Partition) -> bool:
        """Whether we must not copy a partition now."""
        return self._copying.exceeded and self._counts(partition, FOLLOWER_REPLICAS, self._node_id)

    def copied(self, partition: Partition, size: int) -> None:
        """We have copied records."""
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
