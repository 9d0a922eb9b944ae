"""Leader hints in error responses (KIP-951): the current leader of a partition and its address.

They save the client a Metadata request after NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moldau.cluster.image import NO_LEADER, ClusterImage
from moldau.wire.errors import ErrorCode

MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors to which a leader hint is added."""


class CurrentLeader(NamedTuple):
    leader_id: int
    leader_epoch: int


class LeaderAddress(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


def present_leader(image: ClusterImage, node_id: int, topic: str | bytes, index: int) -> CurrentLeader | None:
    """The leader of a partition according to the image; None if it is this broker (`node_id`) or unknown."""
    name = image.topic_names_by_id.get(topic) if isinstance(topic, bytes) else topic
    state = None if name is None else image.partition(name, index)
    if state is None or state.leader in (NO_LEADER, node_id):
        return None
    return CurrentLeader(state.leader, state.leader_epoch)


def addresses(image: ClusterImage, listener: str, leaders: Iterable[CurrentLeader]) -> list[LeaderAddress]:
    """The addresses of leaders for clients of this listener."""
    found = []
    for node in dict.fromkeys(leader.leader_id for leader in leaders):
        broker = image.brokers.get(node)
        endpoint = None if broker is None else broker.endpoint(listener)
        if broker is not None and endpoint is not None:
            found.append(LeaderAddress(node, endpoint.host, endpoint.port, broker.rack))
    return found
