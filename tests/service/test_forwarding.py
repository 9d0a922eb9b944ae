"""Forwarding to another process of a service: what is carried, loops, and processes that do not answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moldau.net.tls_settings import TlsSettings
from moldau.service import forwarding
from moldau.service.app import service_app
from moldau.service.forwarding import Forwarder
from moldau.service.http_settings import HttpSettings
from moldau.service.metrics import HttpMetrics
from moldau.service.server import HttpServer
from tests.service.http_services import LOOPBACK
from tests.support.certificates import Authority


class Worker:
    """A process of a service that forwards everything to its leader; without one it answers itself."""

    def __init__(self, tls: TlsSettings | None = None) -> None:
        self.leader = ""
        self.asked = 0
        self.forwarder = Forwarder(tls, timeout_s=1.0)
        self.url = ""

    async def anything(self, request: Request) -> Response:
        self.asked += 1
        if self.leader:
            return await self.forwarder.forward(request, self.leader)
        got = {
            "method": request.method,
            "path": request.scope["raw_path"].decode(),
            "query": request.url.query,
            "body": (await request.body()).decode(),
            "authorization": request.headers.get("authorization"),
            "cookie": request.headers.get("cookie"),
        }
        return JSONResponse(got, 201, {"Location": "/there", "Set-Cookie": "x=1"})


@asynccontextmanager
async def workers(count: int, tls: TlsSettings | None = None) -> AsyncIterator[list[Worker]]:
    found, servers = [], []
    for _ in range(count):
        worker = Worker(tls)
        scheme = "http" if tls is None else "https"
        settings = HttpSettings((replace(LOOPBACK, scheme=scheme),), tls=tls)
        methods = ["GET", "POST", "PUT", "DELETE"]
        routes = [Route("/{path:path}", worker.anything, methods=methods)]
        server = HttpServer(settings)
        app = service_app(routes, settings, metrics=HttpMetrics("small"))
        await server.start(app)
        worker.url = server.addresses[0].url
        found.append(worker)
        servers.append(server)
    try:
        yield found
    finally:
        for worker in found:
            await worker.forwarder.close()
        await asyncio.gather(*(server.stop() for server in servers))


def test_a_request_reaches_the_leader_with_its_login_and_body() -> None:
    async def run() -> None:
        async with workers(2) as (follower, leader), httpx.AsyncClient(trust_env=False) as client:
            follower.leader = leader.url + "/"
            answer = await client.put(
                f"{follower.url}/connectors/a%20b%2Fc/config?x=1&y=%2F",
                content=b'{"a": 1}',
                headers={"Authorization": "Basic eDp5", "Cookie": "c=1"},
            )
            assert answer.status_code == 201
            assert answer.json() == {
                "method": "PUT",
                "path": "/connectors/a%20b%2Fc/config",
                "query": "x=1&y=%2F",
                "body": '{"a": 1}',
                "authorization": "Basic eDp5",
                "cookie": None,
            }
            assert answer.headers["location"] == "/there"
            assert "set-cookie" not in answer.headers

    asyncio.run(run())


def test_two_workers_that_take_each_other_for_the_leader_do_not_send_a_request_round() -> None:
    async def run() -> None:
        async with workers(2) as (one, other), httpx.AsyncClient(trust_env=False) as client:
            one.leader, other.leader = other.url, one.url
            answer = await client.get(f"{one.url}/connectors")
            assert answer.status_code == 409
            assert (one.asked, other.asked) == (1, 1)

    asyncio.run(run())


def test_a_leader_that_is_gone_is_named() -> None:
    async def run() -> None:
        async with workers(1) as (one,), httpx.AsyncClient(trust_env=False) as client:
            one.leader = "http://127.0.0.1:1"
            answer = await client.get(f"{one.url}/connectors")
            assert answer.status_code == 502
            assert "http://127.0.0.1:1 cannot be reached" in answer.json()["message"]

    asyncio.run(run())


def test_a_leader_that_never_answers_ends_in_time() -> None:
    async def run() -> None:
        async def read_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        silent = await asyncio.start_server(read_only, "127.0.0.1", 0)
        async with workers(1) as (one,), httpx.AsyncClient(trust_env=False) as client:
            one.leader = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
            answer = await client.get(f"{one.url}/connectors")
            assert answer.status_code == 504
        silent.close()

    asyncio.run(run())


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "MAX_RESPONSE_BYTES", 20)

    async def run() -> None:
        async with workers(2) as (follower, leader), httpx.AsyncClient(trust_env=False) as client:
            follower.leader = leader.url
            assert (await client.get(f"{follower.url}/connectors")).status_code == 502

    asyncio.run(run())


def test_workers_verify_the_certificates_of_each_other(tmp_path: Path) -> None:
    authority, stranger = Authority(), Authority("of others")
    keystore = str(authority.issue("localhost").write_pem(tmp_path / "server.pem"))

    async def status(trusted: Authority) -> int:
        context = ssl.create_default_context(cadata=authority.pem)
        tls = TlsSettings(keystore_location=keystore, truststore_certificates=trusted.pem)
        async with workers(2, tls) as (follower, leader), httpx.AsyncClient(trust_env=False, verify=context) as client:
            follower.leader = leader.url
            return (await client.get(f"{follower.url}/connectors")).status_code

    assert asyncio.run(status(authority)) == 201
    assert asyncio.run(status(stranger)) == 502
