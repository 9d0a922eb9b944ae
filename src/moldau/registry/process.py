"""Process of a schema registry: REST API and registry, put together.

Addresses are bound at once, and served when the topic is read: until then clients wait, because a registry that does
not know its schemas yet would call them unknown. At the end the REST API stops first, then the registry leaves its
group, so that another one can lead at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from moldau.aio import Admin
from moldau.host.event_log import event_logger
from moldau.registry.registry_metrics import RegistryMetrics
from moldau.registry.registry_service import TopicRegistry
from moldau.registry.rest.app import registry_app
from moldau.registry.rest.server_info import ServerInfo
from moldau.registry.settings import RegistryProcessSettings
from moldau.service.forwarding import Forwarder
from moldau.service.http_settings import HttpAddress
from moldau.service.metrics import HttpMetrics
from moldau.service.server import HttpServer

log = event_logger(__name__)

OK: Final = 0
CLUSTER_TIMEOUT_S: Final = 30.0
FORWARD_MARGIN_S: Final = 5.0
"""How much longer than a write of the leader the answer to a forwarded request may take."""

Ready = Callable[[Sequence[HttpAddress]], None]


class RegistryProcess:
    """One registry. `run` returns when `stop` is set, or raises what ended it."""

    def __init__(self, settings: RegistryProcessSettings) -> None:
        self._settings = settings
        self._metrics = HttpMetrics("registry")

    async def run(self, stop: asyncio.Event, ready: Ready = lambda addresses: None) -> int:
        """Run until `stop` is set. OSError: an address is in use; MoldauError: the brokers, or the topic."""
        settings = self._settings
        server = HttpServer(settings.http)
        server.bind()
        service = settings.service(server.addresses)
        # A leader that is frozen does not answer at all: its successor is there long before the usual time-out.
        forwarder = Forwarder(settings.http.tls, timeout_s=service.write_timeout_s + FORWARD_MARGIN_S)
        registry = TopicRegistry(service)
        self._metrics.registry.register(RegistryMetrics(registry))
        try:
            if await _unless(stop, self._start(server, registry, forwarder)):
                ready(server.addresses)
                log.info("registry started", extra={"address": ",".join(one.url for one in server.addresses)})
                await stop.wait()
        finally:
            await server.stop()
            await forwarder.close()
            await registry.close()
        return OK

    async def _start(self, server: HttpServer, registry: TopicRegistry, forwarder: Forwarder) -> None:
        async with Admin(self._settings.client) as admin:
            cluster_id = (await admin.describe_cluster(timeout=CLUSTER_TIMEOUT_S)).cluster_id or ""
        info = ServerInfo(cluster_id, self._settings.values["schema.registry.group.id"])
        app = registry_app(registry, self._settings.http, forwarder=forwarder, metrics=self._metrics, info=info)
        await registry.start()
        await server.start(app)


async def _unless(stop: asyncio.Event, work: Awaitable[None]) -> bool:
    """Wait for the work, or for `stop`, which cancels it. Returns whether the work is done; raises its error."""
    doing = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        doing.cancel()
    if not doing.done():
        await asyncio.wait([doing])
        return False
    doing.result()
    return True
