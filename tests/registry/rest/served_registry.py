"""A registry in memory behind a real HTTP server, for clients that need an address; and requests without one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
from moldau.service.server import HttpServer

HOSTS = ("testserver", "leader")
TIMEOUT_S = 60.0
V1 = "application/vnd.schemaregistry.v1+json"


def app(registry: Registry, forwarder: Forwarder | None = None, **settings: Any) -> RequestGuard:
    """The web application of a registry."""
    http = HttpSettings((HttpAddress("http", "127.0.0.1", 0),), allowed_hosts=HOSTS, **settings)
    return registry_app(
        registry,
        http,
        forwarder=forwarder or Forwarder(),
        metrics=HttpMetrics("registry"),
        info=ServerInfo("cluster-1", "schema-registry"),
    )


class InProcess:
    """Requests to a registry of this process, without a socket."""

    def __init__(self, registry: Registry | None = None, **more: Any) -> None:
        self.registry = registry or MemoryRegistry()
        self.application = app(self.registry, **more)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self._request(method, path, **more))

    async def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.application)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return await client.request(method, path, **more)

    get = partialmethod(request, "GET")
    head = partialmethod(request, "HEAD")
    post = partialmethod(request, "POST")
    put = partialmethod(request, "PUT")
    delete = partialmethod(request, "DELETE")
    options = partialmethod(request, "OPTIONS")


@contextmanager
def served(registry: Registry | None = None, **settings: Any) -> Iterator[str]:
    """The URL of a registry that a thread of this process serves."""
    started: list[str] = []
    ready = threading.Event()
    stop: list[Any] = []

    async def main() -> None:
        application = app(registry or MemoryRegistry(), **settings)
        server = HttpServer(HttpSettings((HttpAddress("http", "127.0.0.1", 0),)))
        end = asyncio.Event()
        stop.append((asyncio.get_running_loop(), end))
        try:
            await server.start(application)
            started.append(server.addresses[0].url)
            ready.set()
            await end.wait()
        finally:
            ready.set()
            await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(main(),), name="registry under test")
    thread.start()
    try:
        assert ready.wait(TIMEOUT_S) and started
        yield started[0]
    finally:
        loop, end = stop[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(TIMEOUT_S)
