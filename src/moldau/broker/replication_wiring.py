"""Wiring of replication: connections to other brokers, the cluster's metadata and the broker's settings."""

from __future__ import annotations

from collections.abc import Callable

from moldau.broker.peer_security import PeerSecurity
from moldau.cluster.metadata import Metadata
from moldau.net.framing import FrameMemory
from moldau.net.peer_connection import (
    ANSWERS_MEMORY_BYTES,
    FIRST_READ_BYTES,
    PeerConnection,
    PeerConnectionLost,
)
from moldau.replication.fetcher import FetchLimits
from moldau.replication.manager import ClusterAccess, ReplicationLimits
from moldau.replication.throttles import Rates
from moldau.settings import BrokerSettings

CONNECT_TIMEOUT_S = 5.0
"""Timeout of a follower that connects to its leader. It tries again afterwards."""


def cluster_access(
    node_id: int, metadata: Metadata, settings: Callable[[], BrokerSettings], security: PeerSecurity
) -> ClusterAccess:
    listener = security.listener
    memory = FrameMemory(ANSWERS_MEMORY_BYTES, FIRST_READ_BYTES)

    async def connect(leader: int) -> PeerConnection:
        known = metadata.image.brokers.get(leader)
        endpoint = None if known is None else known.endpoint(listener)
        if endpoint is None:
            raise PeerConnectionLost(f"broker {leader} is not registered with listener {listener}")
        client_id, name = f"broker-{node_id}-fetcher", f"{leader} ({endpoint.host}:{endpoint.port})"
        return await security.connect(
            endpoint.host, endpoint.port, client_id, timeout_s=CONNECT_TIMEOUT_S, memory=memory, name=name
        )

    return ClusterAccess(
        connect=connect,
        change_isr=metadata.change_isr,
        resign=metadata.resign,
        broker_epoch=lambda: metadata.broker_epoch,
        limits=LimitsCache(settings).current,
    )


class LimitsCache:
    """The limits of replication, read again from the settings when these were replaced."""

    def __init__(self, settings: Callable[[], BrokerSettings]) -> None:
        self._current_settings = settings
        self._settings: BrokerSettings | None = None
        self._limits = ReplicationLimits()

    def current(self) -> ReplicationLimits:
        settings = self._current_settings()
        if settings is not self._settings:
            self._settings = settings
            self._limits = ReplicationLimits(
                settings["replica.lag.time.max.ms"] / 1000,
                FetchLimits(
                    settings["replica.fetch.wait.max.ms"],
                    settings["replica.fetch.min.bytes"],
                    settings["replica.fetch.max.bytes"],
                    settings["replica.fetch.response.max.bytes"],
                    settings["replica.fetch.backoff.ms"],
                ),
                Rates(settings["leader.replication.throttled.rate"], settings["follower.replication.throttled.rate"]),
            )
        return self._limits
