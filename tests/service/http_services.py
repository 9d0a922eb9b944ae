"""A small HTTP service for tests, and raw requests to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moldau.service.app import service_app
from moldau.service.http_settings import HttpAddress, HttpSettings
from moldau.service.metrics import HttpMetrics
from moldau.service.server import HttpServer

LOOPBACK = HttpAddress("http", "127.0.0.1", 0)


class SmallService:
    """Remembers the requests that reached it."""

    def __init__(self) -> None:
        self.reached: list[tuple[str, str, bytes]] = []
        self.may_finish = asyncio.Event()
        self.began = asyncio.Event()
        self.metrics = HttpMetrics("small")
        self.problem: str | None = None

    async def thing(self, request: Request) -> Response:
        self.reached.append((request.method, request.url.path, await request.body()))
        return JSONResponse({"user": request.scope.get("user_name")})

    async def slow(self, request: Request) -> Response:
        self.began.set()
        await self.may_finish.wait()
        return JSONResponse({"slow": True})

    async def broken(self, request: Request) -> Response:
        raise ValueError("password=hunter2")

    @property
    def routes(self) -> list[Route]:
        every = ["GET", "POST", "PUT", "DELETE", "PATCH"]
        return [
            Route("/thing", self.thing, methods=every),
            Route("/slow", self.slow, methods=["GET"]),
            Route("/broken", self.broken, methods=["GET"]),
        ]


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[tuple[SmallService, HttpAddress]]:
    """A service that runs, and its address."""
    wanted = replace(HttpSettings((LOOPBACK,)), **settings)
    wanted.check()
    service = SmallService()
    app = service_app(service.routes, wanted, metrics=service.metrics, health=lambda: service.problem)
    server = HttpServer(wanted)
    await server.start(app)
    try:
        yield service, server.addresses[0]
    finally:
        await server.stop()


async def ask(address: HttpAddress, request: bytes) -> bytes:
    """Send these bytes, and return all that comes until the server closes the connection."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(15):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def http(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request; `Host` is 127.0.0.1 unless another is given ("" for none)."""
    given = {
        "Host": "127.0.0.1",
        "Connection": "close",
        **{name.replace("_", "-"): text for name, text in headers.items()},
    }
    if body:
        given.setdefault("Content-Length", str(len(body)))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in given.items() if text)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])
