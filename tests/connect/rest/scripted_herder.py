"""A herder whose answers a test chooses, for what REST does alone: bodies, content types, errors, forwarding.

The comparison with Apache Kafka Connect (tests/compat/kafka_connect) runs the real herder.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partialmethod
from typing import Any
from unittest.mock import create_autospec

import httpx
from starlette.applications import Starlette

from moldau.connect.herder import Herder
from moldau.connect.plugins import Plugins
from moldau.connect.rest.dispatch import Forward
from moldau.connect.rest.routes import routes


def herder(**answers: Any) -> Any:
    """A herder with these results by method; an exception is raised. `calls(herder)` has what was asked."""
    scripted = create_autospec(Herder, instance=True)
    for method, answer in answers.items():
        kind = "side_effect" if isinstance(answer, Exception) or callable(answer) else "return_value"
        setattr(getattr(scripted, method), kind, answer)
    return scripted


async def nowhere(*arguments: Any, **more: Any) -> Any:
    raise AssertionError("nothing is forwarded in this test")


def app(scripted: Any, forward: Forward | Callable[..., Awaitable[Any]] = nowhere, **more: Any) -> Starlette:
    return Starlette(routes=routes(scripted, forward, plugins=more.pop("plugins", Plugins([])), **more))


class InProcess:
    """Requests to a web application of this process, without a socket."""

    def __init__(self, application: Starlette) -> None:
        self._application = application

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        return asyncio.run(self._request(method, path, **more))

    async def _request(self, method: str, path: str, **more: Any) -> httpx.Response:
        if isinstance(more.get("content"), Iterator):
            more["content"] = _chunks(more["content"])
        transport = httpx.ASGITransport(app=self._application)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return await client.request(method, path, **more)

    get = partialmethod(request, "GET")
    post = partialmethod(request, "POST")
    put = partialmethod(request, "PUT")
    patch = partialmethod(request, "PATCH")
    delete = partialmethod(request, "DELETE")
    options = partialmethod(request, "OPTIONS")


async def _chunks(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
