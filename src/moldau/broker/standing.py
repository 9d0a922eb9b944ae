"""Partitions as a client of one listener sees them: who leads, which replicas cannot be reached, and what is wrong.

The image says who holds what; which of those brokers a client can talk to depends on the listener that it came in by.
Metadata, DescribeCluster and DescribeTopicPartitions tell the same, so they ask here. A replica counts as offline when
its broker is not registered, has no such listener, or (known of this broker's own alone) has lost the disk that it was
on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from moldau.cluster.image import NO_LEADER, BrokerImage, ClusterImage, Endpoint, PartitionState
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.listener import Listener


class Standing(NamedTuple):
    """One partition, told to clients of one listener."""

    error: ErrorCode
    leader: int
    offline: list[int]


def reachable(image: ClusterImage, listener: str) -> Iterator[tuple[BrokerImage, Endpoint]]:
    """The live brokers that have this listener, with the address that they give for it, by id."""
    for node in image.brokers.values():
        endpoint = node.endpoint(listener)
        if endpoint is not None:
            yield node, endpoint


def told_brokers(listener: Listener) -> list[tuple[BrokerImage, Endpoint]]:
    """Those that a client of this listener can reach, and this one in any case, by id.

    When the metadata store was away for longer than the sessions, all brokers come back to it at once. The first reads
    that nobody is registered, and until it has registered itself, that is its image. Clients forget brokers that they
    are not told of: librdkafka, told of none, forgets all, and has nobody left whom it could ask again.
    """
    broker = listener.broker
    found = {node.id: (node, endpoint) for node, endpoint in reachable(broker.image, listener.name)}
    if broker.node_id not in found:
        here = listener.endpoint()
        found[broker.node_id] = BrokerImage(broker.node_id, (here,), broker.settings["broker.rack"]), here
    return [found[node_id] for node_id in sorted(found)]


class View:
    """The cluster as it looks from one listener of one broker, for the length of one answer."""

    __slots__ = ("_alive", "_me", "_no_listener", "_reached")

    def __init__(self, image: ClusterImage, me: int, listener: str, *, tell_missing_listener: bool = True) -> None:
        self._me = me
        self._alive = image.brokers
        self._reached = frozenset(node.id for node, _ in reachable(image, listener))
        # Older clients do not know the code, and would take it for one that does not pass.
        self._no_listener = ErrorCode.LISTENER_NOT_FOUND if tell_missing_listener else ErrorCode.LEADER_NOT_AVAILABLE

    def standing(self, state: PartitionState, *, lost_here: bool) -> Standing:
        """`lost_here`: the replica of this broker went with its disk, if it has one."""
        me = self._me
        offline = [one for one in state.replicas if one not in self._reached or (lost_here and one == me)]
        if state.leader not in self._alive or (lost_here and state.leader == me):
            return Standing(ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, offline)
        if state.leader not in self._reached:
            return Standing(self._no_listener, NO_LEADER, offline)
        return Standing(ErrorCode.NONE, state.leader, offline)
