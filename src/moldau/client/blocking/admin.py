"""Blocking admin client: runs each call of the asyncio admin client on the loop thread while the caller waits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from moldau.client.admin.admin import Admin as AioAdmin
from moldau.client.errors import ClosedError
from moldau.client.loop_thread import LoopThread
from moldau.client.settings import ADMIN, ClientSettings

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    call: Callable[Concatenate[AioAdmin, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Admin, P], T]:
    """Return a method with the same arguments, documentation and result that waits for the coroutine."""

    @functools.wraps(call)
    def wait(self: Admin, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait_for(call(self._admin, *args, **kwargs))

    return wait


class Admin:
    """Administers a cluster: topics, settings, groups, offsets, transactions. The blocking form of `moldau.aio.Admin`.

        with Admin(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics(NewTopic("orders", partitions=3))

    Any number of threads may share one admin client.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, **keywords: Any) -> None:
        ClientSettings.of(ADMIN, settings, keywords)  # raises on wrong settings before a thread is started
        self._thread: LoopThread | None = LoopThread.acquire()
        try:
            self._admin = self._thread.run(self._made(settings, keywords))
        except BaseException:
            self._thread.release()
            raise

    @staticmethod
    async def _made(settings: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> AioAdmin:
        return AioAdmin(settings, **keywords)

    def _wait_for(self, call: Coroutine[Any, Any, T]) -> T:
        thread = self._thread
        if thread is None:
            call.close()
            raise ClosedError("the admin client is closed; create a new one")
        return thread.run(call)

    def close(self) -> None:
        """Close the connections. Calls of other threads that have not finished fail with ClosedError.

        Calling it again has no effect.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self._admin.close())
            finally:
                thread.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    create_topics = _blocking(AioAdmin.create_topics)
    delete_topics = _blocking(AioAdmin.delete_topics)
    create_partitions = _blocking(AioAdmin.create_partitions)
    list_topics = _blocking(AioAdmin.list_topics)
    describe_topics = _blocking(AioAdmin.describe_topics)

    elect_leaders = _blocking(AioAdmin.elect_leaders)
    alter_partition_reassignments = _blocking(AioAdmin.alter_partition_reassignments)
    list_partition_reassignments = _blocking(AioAdmin.list_partition_reassignments)

    describe_configs = _blocking(AioAdmin.describe_configs)
    alter_configs = _blocking(AioAdmin.alter_configs)

    list_groups = _blocking(AioAdmin.list_groups)
    describe_groups = _blocking(AioAdmin.describe_groups)
    delete_groups = _blocking(AioAdmin.delete_groups)
    list_group_offsets = _blocking(AioAdmin.list_group_offsets)
    alter_group_offsets = _blocking(AioAdmin.alter_group_offsets)
    reset_group_offsets = _blocking(AioAdmin.reset_group_offsets)
    delete_group_offsets = _blocking(AioAdmin.delete_group_offsets)

    list_offsets = _blocking(AioAdmin.list_offsets)
    delete_records = _blocking(AioAdmin.delete_records)

    describe_log_dirs = _blocking(AioAdmin.describe_log_dirs)
    alter_replica_log_dirs = _blocking(AioAdmin.alter_replica_log_dirs)

    describe_producers = _blocking(AioAdmin.describe_producers)
    list_transactions = _blocking(AioAdmin.list_transactions)
    describe_transactions = _blocking(AioAdmin.describe_transactions)
    abort_transaction = _blocking(AioAdmin.abort_transaction)
    terminate_transaction = _blocking(AioAdmin.terminate_transaction)
    complete_transaction = _blocking(AioAdmin.complete_transaction)
    find_hanging_transactions = _blocking(AioAdmin.find_hanging_transactions)

    describe_cluster = _blocking(AioAdmin.describe_cluster)
    describe_features = _blocking(AioAdmin.describe_features)
    unregister_broker = _blocking(AioAdmin.unregister_broker)
    list_config_resources = _blocking(AioAdmin.list_config_resources)
    api_versions = _blocking(AioAdmin.api_versions)

    create_acls = _blocking(AioAdmin.create_acls)
    describe_acls = _blocking(AioAdmin.describe_acls)
    delete_acls = _blocking(AioAdmin.delete_acls)
    describe_user_scram_credentials = _blocking(AioAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(AioAdmin.alter_user_scram_credentials)
    describe_client_quotas = _blocking(AioAdmin.describe_client_quotas)
    alter_client_quotas = _blocking(AioAdmin.alter_client_quotas)
    create_delegation_token = _blocking(AioAdmin.create_delegation_token)
    renew_delegation_token = _blocking(AioAdmin.renew_delegation_token)
    expire_delegation_token = _blocking(AioAdmin.expire_delegation_token)
    describe_delegation_tokens = _blocking(AioAdmin.describe_delegation_tokens)
