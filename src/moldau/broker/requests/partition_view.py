"""Partitions as clients of one listener see them: leader, offline replicas and error.

Metadata, DescribeCluster and DescribeTopicPartitions share it. The image contains the replicas; the brokers that a
client can reach depend on its listener. A replica is offline if its broker is not registered or does not have the
listener. A replica of this broker is also offline if its disk has failed; of other brokers that is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from moldau.cluster.image import NO_LEADER, BrokerImage, ClusterImage, Endpoint, PartitionState
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.connection.listener import Listener


class PartitionStatus(NamedTuple):
    """The status of one partition for clients of one listener."""

    error: ErrorCode
    leader: int
    offline: list[int]


def reachable(image: ClusterImage, listener: str) -> Iterator[tuple[BrokerImage, Endpoint]]:
    """The registered brokers that have this listener, with their address for it, ordered by id."""
    for node in image.brokers.values():
        endpoint = node.endpoint(listener)
        if endpoint is not None:
            yield node, endpoint


def listed_brokers(
    image: ClusterImage, listener: Listener, node_id: int, rack: str | None
) -> list[tuple[BrokerImage, Endpoint]]:
    """The brokers that a client of this listener can reach, ordered by id. This broker (`node_id`, `rack`) is always
    among them, even while it is not registered.

    If the metadata store was unavailable for longer than the session timeout, all brokers register again at the same
    time. The first one finds no registered broker, and its image is empty until it has registered itself. Clients
    forget brokers that are not listed: with an empty list, librdkafka forgets all and cannot ask again.
    """
    found = {node.id: (node, endpoint) for node, endpoint in reachable(image, listener.name)}
    if node_id not in found:
        here = listener.endpoint()
        found[node_id] = BrokerImage(node_id, (here,), rack), here
    return [found[node_id] for node_id in sorted(found)]


class PartitionView:
    """The partitions as clients of one listener of this broker see them. Built for each response."""

    __slots__ = ("_alive", "_me", "_no_listener", "_reached")

    def __init__(self, image: ClusterImage, me: int, listener: str, *, tell_missing_listener: bool = True) -> None:
        self._me = me
        self._alive = image.brokers
        self._reached = frozenset(node.id for node, _ in reachable(image, listener))
        # Older clients do not know LISTENER_NOT_FOUND and would not retry.
        self._no_listener = ErrorCode.LISTENER_NOT_FOUND if tell_missing_listener else ErrorCode.LEADER_NOT_AVAILABLE

    def status(self, state: PartitionState, *, lost_here: bool) -> PartitionStatus:
        """`lost_here`: the disk of this broker's replica has failed, if it has a replica."""
        me = self._me
        offline = [one for one in state.replicas if one not in self._reached or (lost_here and one == me)]
        if state.leader not in self._alive or (lost_here and state.leader == me):
            return PartitionStatus(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, offline)
        if state.leader not in self._reached:
            return PartitionStatus(self._no_listener, NO_LEADER, offline)
        return PartitionStatus(ErrorCode.NONE, state.leader, offline)
