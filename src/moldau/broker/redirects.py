"""Where a client should have asked (KIP-951): a broker that does not lead a partition tells who does, and at which
address, so that the client need not ask for metadata first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from moldau.cluster.image import NO_LEADER
from moldau.wire.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors that the name of the present leader answers."""


class Leader(NamedTuple):
    leader_id: int
    leader_epoch: int


class Address(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


def present_leader(broker: Broker, topic: str | bytes, index: int) -> Leader | None:
    """Who leads a partition as far as we know, if it is somebody else."""
    image = broker.image
    name = image.topic_names_by_id.get(topic) if isinstance(topic, bytes) else topic
    state = None if name is None else image.partition(name, index)
    if state is None or state.leader in (NO_LEADER, broker.node_id):
        return None
    return Leader(state.leader, state.leader_epoch)


def addresses(broker: Broker, listener: str, leaders: Iterable[Leader]) -> list[Address]:
    """Where they are reached, by whoever came in by this listener."""
    found = []
    for node in dict.fromkeys(leader.leader_id for leader in leaders):
        image = broker.image.brokers.get(node)
        endpoint = None if image is None else image.endpoint(listener)
        if image is not None and endpoint is not None:
            found.append(Address(node, endpoint.host, endpoint.port, image.rack))
    return found
