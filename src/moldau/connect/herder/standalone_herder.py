"""Standalone worker: runs the connectors of its property files, alone and without a group.

Configurations and states are in memory and end with the process. Offsets are in the offset topic, as those of a
distributed worker: an exactly-once source commits them in the same transaction as its records, and no file can be part
of that. `docs/decisions` has the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.aio import Admin
from moldau.connect.herder.distributed_herder import StorageTopic
from moldau.connect.herder.offset_requests import OffsetRequests
from moldau.connect.herder.record_log import MemoryLog
from moldau.connect.herder.stored_herder import HerderParts, StoredHerder
from moldau.connect.stores.offset_store import OffsetState
from moldau.service.state_topic import StateRecord, StateTopic


class StandaloneHerder(StoredHerder):
    """The herder of a worker without a group. Its caller creates the connectors of the property files."""

    def __init__(
        self,
        worker_id: str,
        client: Mapping[str, Any],
        parts: HerderParts,
        *,
        offset_topic: StorageTopic | None = None,
        track_topics: bool = True,
    ) -> None:
        super().__init__(worker_id, parts, track_topics=track_topics)
        self._client = client
        stored = OffsetState()
        topic = offset_topic or StorageTopic("connect-offsets", 25)
        self._offset_topic = StateTopic(
            topic.name,
            client,
            on_record=stored.apply,
            on_failure=self._store_failed,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            fewer_replicas=True,
            topic_configs=topic.configs,
        )
        self._config_log = MemoryLog(self._config_record, parts.clock.now_ms)
        self._status_log = MemoryLog(self._status_record, parts.clock.now_ms)
        self._offsets = OffsetRequests(self._offset_topic, stored, client)

    async def start(self) -> None:
        async with Admin(self._client) as admin:
            self._cluster_id = (await admin.describe_cluster()).cluster_id or ""
        await self._offset_topic.start()
        self._begin()

    async def close(self) -> None:
        await self._end()
        await self._offset_topic.close()

    @property
    def leads(self) -> bool:
        return self._live

    async def _settled(self, *, owners: bool = False) -> None:
        """There is no group that could rebalance."""

    def _require_leader(self, message: str) -> None:
        """The only worker leads."""

    def _require_owner(self, name: str, message: str) -> None:
        """The only worker runs everything."""

    def _config_record(self, record: StateRecord) -> None:
        super()._config_record(record)
        self._runner.assigned = frozenset(self.configs.connectors)
