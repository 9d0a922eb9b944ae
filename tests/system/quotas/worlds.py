"""A broker with quotas, and raw connections of its clients."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moldau.broker.broker import Broker as Served
from moldau.cluster.changes import ClientQuotasChanged
from moldau.cluster.image import ClusterImage
from moldau.cluster.image_publisher import MetadataDecision, Step
from moldau.security.quota_entities import DEFAULT, QuotaEntity
from moldau.testing import Broker
from moldau.testing.broker_thread import BrokerThread
from tests.compat.wire import create_topic
from tests.support.raw import RawConnection

EVERYONE = QuotaEntity(DEFAULT)
QUIET_S = 0.15
"""How long a test listens to a connection on which nothing may arrive."""


class World:
    """A broker for one test. Its time moves only a little by itself, so that a throttle of seconds does not end before
    the test moves it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.life: BrokerThread = broker._running()
        self.served: Served = self.life.broker

    def set(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Replace all quotas in the metadata, and so in the image of the cluster."""
        self.life.run(self._set(quotas))

    async def _set(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        changes = {**{entity: {} for entity in self.served.image.security.client_quotas}, **quotas}

        def decide(image: ClusterImage, wanted: Sequence[ClientQuotasChanged]) -> MetadataDecision[None]:
            return MetadataDecision([None for _ in wanted], [Step(change, (at,)) for at, change in enumerate(wanted)])

        wanted = [ClientQuotasChanged(entity, values) for entity, values in changes.items()]
        assert await self.served.metadata._answers(wanted, decide) == [None] * len(wanted)

    def everyone(self, **quotas: float) -> None:
        """Set quotas of the default user: each user has its own rate."""
        self.set({EVERYONE: quotas})

    def connect(self, client_id: str = "raw") -> RawConnection:
        return RawConnection(self.broker.bootstrap_servers, client_id)

    def topic(self, name: str, partitions: int = 1) -> str:
        with self.connect() as connection:
            create_topic(connection, name, partitions, {})
        return name

    def ask(self, read: Any) -> Any:
        """What a function of the broker returns, in the broker's thread."""
        return self.life.call(read, self.served)

    @property
    def muted(self) -> int:
        return int(self.ask(lambda broker: broker.quotas.muted))

    def throttled(self, quota: str) -> int:
        return int(self.ask(lambda broker: broker.quotas.throttled[quota].requests))


@contextlib.contextmanager
def world(settings: Mapping[str, Any] | None = None) -> Iterator[World]:
    with Broker(settings) as broker:
        yield World(broker)


def is_quiet(connection: RawConnection) -> bool:
    """Whether nothing arrives for a moment. Nothing is read."""
    readable, _, _ = select.select([connection.socket], [], [], QUIET_S)
    return not readable
