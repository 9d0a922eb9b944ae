"""Requests to a registry in memory, without a socket. With one it is `moldau.testing.Registry`."""

from __future__ import annotations

import asyncio
from functools import partialmethod
from typing import Any

import httpx

from moldau.registry.registry import Registry
from moldau.registry.rest.app import registry_app
from moldau.registry.rest.server_info import ServerInfo
from moldau.registry.stored_registry import MemoryRegistry
from moldau.service.forwarding import Forwarder
from moldau.service.http_settings import HttpAddress, HttpSettings
from moldau.service.metrics import HttpMetrics
from moldau.service.request_guard import RequestGuard

HOSTS = ("testserver", "leader")
V1 = "application/vnd.schemaregistry.v1+json"


def app(registry: Registry, forwarder: Forwarder, **settings: Any) -> RequestGuard:
    """The web application of a registry."""
    http = HttpSettings((HttpAddress("http", "127.0.0.1", 0),), allowed_hosts=HOSTS, **settings)
    return registry_app(
        registry,
        http,
        forwarder=forwarder,
        metrics=HttpMetrics("registry"),
        info=ServerInfo("cluster-1", "schema-registry"),
    )


class InProcess:
    """Requests to a registry of this process, without a socket."""

    def __init__(self, registry: Registry | None = None, **more: Any) -> None:
        self.registry = registry or MemoryRegistry()
        self._forwarder = Forwarder()
        self._application = app(self.registry, self._forwarder, **more)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self._request(method, path, **more))

    async def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._application)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            try:
                return await client.request(method, path, **more)
            finally:
                await self._forwarder.close()  # its connections belong to the loop of this request

    get = partialmethod(request, "GET")
    head = partialmethod(request, "HEAD")
    post = partialmethod(request, "POST")
    put = partialmethod(request, "PUT")
    delete = partialmethod(request, "DELETE")
    options = partialmethod(request, "OPTIONS")
