"""The asyncio admin client: `async with Admin(bootstrap_servers=…) as admin: await admin.create_topics("orders")`."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from moldau.client.admin.cluster import ClusterCalls
from moldau.client.admin.configs import ConfigCalls
from moldau.client.admin.group_offsets import GroupOffsetCalls
from moldau.client.admin.groups import GroupCalls
from moldau.client.admin.log_dirs import LogDirCalls
from moldau.client.admin.replicas import ReplicaCalls
from moldau.client.admin.topics import TopicCalls
from moldau.client.admin.transactions import TransactionCalls
from moldau.client.settings import ADMIN, ClientSettings


class Admin(
    TopicCalls, ReplicaCalls, ConfigCalls, GroupCalls, GroupOffsetCalls, LogDirCalls, TransactionCalls, ClusterCalls
):
    """What an operator does to a cluster, call by call. One subject is one module beside this.

    Settings are Kafka's (`bootstrap.servers`, `request.timeout.ms` …), as a mapping or as keywords. Every call takes a
    `timeout` in seconds (default.api.timeout.ms where none is given), retries what may pass by itself until then, and
    either does everything that it was asked for or raises: the error of the one thing that failed, or `SomeFailed`
    with the errors of several and the results of the rest. Calls may run at the same time.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, **keywords: Any) -> None:
        super().__init__(ClientSettings.of(ADMIN, settings, keywords))

    async def close(self) -> None:
        """Close the connections; calls that are under way fail. Closing twice is allowed."""
        await self._close()

    async def __aenter__(self) -> Self:
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
