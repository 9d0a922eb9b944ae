"""A herder whose answers a test chooses, for what REST does alone: bodies, content types, errors, forwarding.

The comparison with Apache Kafka Connect (tests/compat/kafka_connect) runs the real herder.
"""

from __future__ import annotations

import asyncio
from functools import partialmethod
from typing import Any
from unittest.mock import create_autospec

import httpx
from starlette.requests import Request
from starlette.responses import Response

from moldau.connect.herder import Herder
from moldau.connect.plugins import Plugins
from moldau.connect.rest.dispatch import rest_error_body
from moldau.connect.rest.routes import routes
from moldau.service.app import service_app
from moldau.service.forwarding import Forwarder
from moldau.service.http_settings import HttpAddress, HttpSettings
from moldau.service.metrics import HttpMetrics
from moldau.service.request_guard import RequestGuard

HOSTS = frozenset({"testserver", "leader", "second", "third"})


def herder(**answers: Any) -> Any:
    """A herder with these results by method; an exception is raised. `calls(herder)` has what was asked."""
    scripted = create_autospec(Herder, instance=True)
    for method, answer in answers.items():
        kind = "side_effect" if isinstance(answer, Exception) or callable(answer) else "return_value"
        setattr(getattr(scripted, method), kind, answer)
    return scripted


class Nowhere(Forwarder):
    """For tests in which nothing is forwarded."""

    async def forward(self, request: Request, url: str) -> Response:
        raise AssertionError(f"nothing is forwarded in this test, but {url} was asked")


def app(scripted: Any, forwarder: Forwarder | None = None, **more: Any) -> RequestGuard:
    """The web application of a worker with this herder."""
    more.setdefault("plugins", Plugins([]))
    settings = HttpSettings((HttpAddress("http", "127.0.0.1", 0),), allowed_hosts=HOSTS)
    return service_app(
        routes(scripted, forwarder or Nowhere(), **more),
        settings,
        metrics=HttpMetrics("connect"),
        error_body=rest_error_body,
    )


class InProcess:
    """Requests to a web application of this process, without a socket."""

    def __init__(self, application: RequestGuard) -> None:
        self._application = application

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self._request(method, path, **more))

    async def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._application)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return await client.request(method, path, **more)

    get = partialmethod(request, "GET")
    post = partialmethod(request, "POST")
    put = partialmethod(request, "PUT")
    patch = partialmethod(request, "PATCH")
    delete = partialmethod(request, "DELETE")
    options = partialmethod(request, "OPTIONS")
