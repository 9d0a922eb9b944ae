"""Admin client for asyncio: `from moldau.aio import Admin`."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from moldau.client.admin.acls import AclCalls
from moldau.client.admin.cluster import ClusterCalls
from moldau.client.admin.configs import ConfigCalls
from moldau.client.admin.delegation_tokens import DelegationTokenCalls
from moldau.client.admin.group_offsets import GroupOffsetCalls
from moldau.client.admin.groups import GroupCalls
from moldau.client.admin.log_dirs import LogDirCalls
from moldau.client.admin.quotas import QuotaCalls
from moldau.client.admin.replicas import ReplicaCalls
from moldau.client.admin.topics import TopicCalls
from moldau.client.admin.transactions import TransactionCalls
from moldau.client.admin.users import UserCalls
from moldau.client.settings import ADMIN, ClientSettings


class Admin(
    TopicCalls,
    ReplicaCalls,
    ConfigCalls,
    GroupCalls,
    GroupOffsetCalls,
    LogDirCalls,
    TransactionCalls,
    ClusterCalls,
    AclCalls,
    UserCalls,
    QuotaCalls,
    DelegationTokenCalls,
):
    """Administers a cluster: topics, replicas, settings, groups, offsets, data directories, transactions, access.

    Settings have Kafka's names (`bootstrap.servers`, `request.timeout.ms` …). Give them as a mapping or as keywords.
    Each call has a `timeout` in seconds; the default is default.api.timeout.ms. Until then it retries errors that are
    retriable. A call raises if anything failed: a call about one item raises its error, a call about several items
    raises `SomeFailed` with the errors of those that failed and the results of the others. Calls may run concurrently.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, **keywords: Any) -> None:
        super().__init__(ClientSettings.of(ADMIN, settings, keywords))

    async def close(self) -> None:
        """Close the connections. Calls that have not finished fail with ClosedError. A second call has no effect."""
        await self._close()

    async def __aenter__(self) -> Self:
        await self._ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
