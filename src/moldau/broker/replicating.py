"""What replication takes from the broker around it: connections to other brokers, the metadata, the settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from moldau.cluster.image import PartitionState
from moldau.cluster.isr import IsrProposal
from moldau.cluster.refusal import Refusal
from moldau.net.exchange import ANSWERS_MEMORY_BYTES, FIRST_READ_BYTES, Exchange, ExchangeLost, open_exchange
from moldau.net.framing import FrameMemory
from moldau.replication.fetcher import FetchLimits
from moldau.replication.manager import ClusterAccess, ReplicationLimits
from moldau.replication.throttles import Rates
from moldau.settings import BrokerSettings

if TYPE_CHECKING:
    from moldau.broker.broker import Broker

CONNECT_TIMEOUT_S = 5.0
"""For a follower to reach its leader; one that cannot be reached is tried again."""


def cluster_access(broker: Broker) -> ClusterAccess:
    limits = Limits(broker)
    listener = broker.settings.listener_plan().inter_broker
    memory = FrameMemory(ANSWERS_MEMORY_BYTES, FIRST_READ_BYTES)

    async def connect(leader: int) -> Exchange:
        known = broker.image.brokers.get(leader)
        endpoint = None if known is None else known.endpoint(listener)
        if endpoint is None:
            raise ExchangeLost(f"broker {leader} is not there")
        client_id, name = f"broker-{broker.node_id}-fetcher", f"{leader} ({endpoint.host}:{endpoint.port})"
        return await open_exchange(
            endpoint.host, endpoint.port, client_id, timeout_s=CONNECT_TIMEOUT_S, memory=memory, name=name
        )

    return ClusterAccess(
        connect=connect,
        change_isr=lambda proposals: _change_isr(broker, proposals),
        resign=lambda partitions: _resign(broker, partitions),
        broker_epoch=lambda: broker.metadata.broker_epoch,
        limits=limits.now,
    )


async def _change_isr(broker: Broker, proposals: Sequence[IsrProposal]) -> list[PartitionState | Refusal]:
    return await broker.metadata.change_isr(proposals)


async def _resign(broker: Broker, partitions: Collection[tuple[str, int]]) -> None:
    await broker.metadata.resign(partitions)


class Limits:
    """The settings of replication, read anew when the settings are other ones."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._settings: BrokerSettings | None = None
        self._limits = ReplicationLimits()

    def now(self) -> ReplicationLimits:
        settings = self._broker.settings
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
