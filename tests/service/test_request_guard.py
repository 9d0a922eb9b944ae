"""Requests that a service refuses before they reach it, and those that it accepts."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import logging
from pathlib import Path

import pytest

from moldau.service import request_guard, server
from moldau.service.login import hashed
from tests.service.http_services import ask, http, served, status_of


def body_of(answer: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return found


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


# -- host and origin ---------------------------------------------------------------------------------------------------


def test_a_request_under_a_foreign_name_is_refused() -> None:
    async def run() -> None:
        async with served() as (service, address):
            for host in ("evil.example", "evil.example:8083", "localhost.evil.example", "127.0.0.1.nip.io", "a b"):
                answer = await ask(address, http("GET", "/thing", Host=host))
                assert status_of(answer) == 400
                assert b"moldau.http.allowed.hosts" in answer
            assert service.reached == []

    asyncio.run(run())


def test_a_request_without_a_host_is_refused() -> None:
    async def run() -> None:
        async with served() as (service, address):
            assert status_of(await ask(address, b"GET /thing HTTP/1.0\r\n\r\n")) == 400
            assert service.reached == []

    asyncio.run(run())


def test_addresses_and_known_names_are_accepted() -> None:
    async def run() -> None:
        async with served(allowed_hosts=("known.example",)) as (_, address):
            for host in ("127.0.0.1", "localhost:8083", "LOCALHOST", "[::1]:8083", "10.1.2.3:80", "known.example"):
                assert status_of(await ask(address, http("GET", "/thing", Host=host))) == 200

    asyncio.run(run())


FOREIGN_PAGES = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "https://evil.example", "Sec_Fetch_Site": "same-origin"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
]


def test_a_changing_request_of_a_foreign_page_is_refused() -> None:
    async def run() -> None:
        async with served(allow_origins=("https://good.example",)) as (service, address):
            for method, headers in itertools.product(["POST", "PUT", "PATCH", "DELETE"], FOREIGN_PAGES):
                answer = await ask(address, http(method, "/thing", b"{}", **headers))
                assert status_of(answer) == 403
                assert b"access-control" not in answer.lower().partition(b"\r\n\r\n")[0]
            assert service.reached == []

    asyncio.run(run())


def test_pages_of_allowed_origins_may_change_and_read() -> None:
    async def run() -> None:
        async with served(allow_origins=("https://good.example",)) as (service, address):
            answer = await ask(address, http("POST", "/thing", b"{}", Origin="https://good.example"))
            assert status_of(answer) == 200
            assert b"access-control-allow-origin: https://good.example" in answer
            assert len(service.reached) == 1

    asyncio.run(run())


def test_the_pages_of_the_service_itself_and_programs_may_change() -> None:
    async def run() -> None:
        async with served() as (_, address):
            own = {"Host": f"localhost:{address.port}", "Origin": f"http://localhost:{address.port}"}
            assert status_of(await ask(address, http("POST", "/thing", b"{}", **own))) == 200
            assert status_of(await ask(address, http("POST", "/thing", b"{}"))) == 200
            assert status_of(await ask(address, http("POST", "/thing", b"{}", Sec_Fetch_Site="none"))) == 200

    asyncio.run(run())


def test_a_preflight_is_answered_for_allowed_origins_only() -> None:
    async def run() -> None:
        settings = {"allow_origins": ("https://good.example",), "allow_methods": ("GET", "PUT")}
        async with served(**settings) as (service, address):
            asked = {"Access_Control_Request_Method": "PUT"}
            good = await ask(address, http("OPTIONS", "/thing", Origin="https://good.example", **asked))
            assert status_of(good) == 200
            assert b"access-control-allow-methods: GET,PUT" in good
            bad = await ask(address, http("OPTIONS", "/thing", Origin="https://evil.example", **asked))
            assert b"access-control" not in bad
            assert service.reached == []

    asyncio.run(run())


# -- login -------------------------------------------------------------------------------------------------------------


def test_without_the_right_password_nothing_is_reached(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"# of the test\nalice:{hashed('secret')}\n\nbob:{hashed('other:one')}\n")

    async def run() -> None:
        async with served(password_file=str(users)) as (service, address):
            wrong = [
                {},
                {"Authorization": basic("alice", "wrong")},
                {"Authorization": basic("alice", "")},
                {"Authorization": basic("mallory", "secret")},
                {"Authorization": basic("", "")},
                {"Authorization": basic("bob", "secret")},
                {"Authorization": "Basic !!!"},
                {"Authorization": "Basic"},
                {"Authorization": basic("alice", "secret").replace("Basic", "Bearer")},
                {"Authorization": basic("alice", "x" * 5000)},
            ]
            for headers in wrong:
                answer = await ask(address, http("GET", "/thing", **headers))
                assert status_of(answer) == 401, headers
                assert b'www-authenticate: Basic realm="moldau"' in answer
            for path in ("/metrics", "/no-such-path", "/health/", "//health", "/HEALTH"):
                assert status_of(await ask(address, http("GET", path))) == 401
            assert service.reached == []
            for user, password in (("alice", "secret"), ("bob", "other:one"), ("alice", "secret")):
                answer = await ask(address, http("GET", "/thing", Authorization=basic(user, password)))
                assert body_of(answer) == {"user": user}
            assert status_of(await ask(address, http("GET", "/health"))) == 200

    asyncio.run(run())


def test_a_changed_password_counts_at_the_next_request(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(f"alice:{hashed('old')}\n")

    async def run() -> None:
        async with served(password_file=str(users)) as (_, address):

            async def status(password: str) -> int:
                return status_of(await ask(address, http("GET", "/thing", Authorization=basic("alice", password))))

            assert await status("old") == 200
            users.write_text(f"alice:{hashed('new-one')}\n# another size\n")
            assert (await status("old"), await status("new-one")) == (401, 200)
            users.unlink()
            assert await status("new-one") == 401

    asyncio.run(run())


# -- size and time -----------------------------------------------------------------------------------------------------


def test_a_large_body_is_refused_before_it_is_read() -> None:
    async def run() -> None:
        async with served(max_body_bytes=1000) as (service, address):
            declared = http("POST", "/thing", Content_Length="1001")
            assert status_of(await ask(address, declared)) == 413  # no byte of the body was sent
            absurd = http("POST", "/thing", Content_Length="9" * 19)
            assert status_of(await ask(address, absurd)) in (400, 413)
            chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
            chunked = http("POST", "/thing", Transfer_Encoding="chunked") + chunk
            assert status_of(await ask(address, chunked)) == 413
            assert service.reached == []
            assert status_of(await ask(address, http("POST", "/thing", b"x" * 1000))) == 200

    asyncio.run(run())


def test_a_body_that_does_not_arrive_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_guard, "BODY_TIMEOUT_S", 0.1)

    async def run() -> None:
        async with served() as (service, address):
            answer = await ask(address, http("POST", "/thing", Content_Length="10") + b"123")
            assert status_of(answer) == 408
            assert service.reached == []

    asyncio.run(run())


@pytest.mark.parametrize("begun", [b"", b"GET /thi", b"GET /thing HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_a_client_that_never_finishes_its_headers_is_cut_off(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_TIMEOUT_S", 0.1)

    async def run() -> None:
        async with served() as (_, address):
            assert await ask(address, begun) == b""
            assert status_of(await ask(address, http("GET", "/thing"))) == 200

    asyncio.run(run())


def test_a_client_that_sends_a_header_byte_now_and_then_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_TIMEOUT_S", 0.3)

    async def run() -> None:
        async with served() as (_, address):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"GET /thing HTTP/1.1\r\n")
            ended = asyncio.create_task(reader.read())
            async with asyncio.timeout(10):
                while not ended.done():
                    writer.write(b"X")
                    await asyncio.wait([ended], timeout=0.05)
            writer.close()
            await writer.wait_closed()

    asyncio.run(run())


def test_headers_without_end_are_refused() -> None:
    async def run() -> None:
        async with served() as (service, address):
            answer = await ask(address, b"GET /thing HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000)
            assert answer == b"" or status_of(answer) == 400
            assert service.reached == []

    asyncio.run(run())


def test_a_request_that_takes_too_long_is_answered() -> None:
    async def run() -> None:
        async with served(request_timeout_s=0.1) as (_, address):
            answer = await ask(address, http("GET", "/slow"))
            assert status_of(answer) == 504
            assert "longer than 0.1 s" in str(body_of(answer)["message"])

    asyncio.run(run())


# -- errors, metrics, health, log --------------------------------------------------------------------------------------


def test_errors_are_json_and_tell_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with served() as (_, address):
            answer = await ask(address, http("GET", "/broken"))
            assert status_of(answer) == 500
            assert b"hunter2" not in answer
            assert body_of(await ask(address, http("GET", "/nothing")))["error_code"] == 404
            assert body_of(await ask(address, http("DELETE", "/slow")))["error_code"] == 405

    with caplog.at_level(logging.ERROR, "moldau.service"):
        asyncio.run(run())
    assert "request failed" in caplog.text
    assert "ValueError" in caplog.text


def test_requests_are_logged_without_their_query(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with served() as (_, address):
            await ask(address, http("GET", "/thing?token=hunter2"))

    with caplog.at_level(logging.INFO, "moldau.service"):
        asyncio.run(run())
    assert "path=/thing" in caplog.text
    assert "status=200" in caplog.text
    assert "hunter2" not in caplog.text


def test_metrics_count_requests_by_endpoint_and_refusals_by_reason() -> None:
    async def run() -> None:
        async with served() as (_, address):
            await ask(address, http("GET", "/thing"))
            await ask(address, http("GET", "/thing", Host="evil.example"))
            await ask(address, http("GET", "/some-path-that-nobody-serves"))
            page = (await ask(address, http("GET", "/metrics"))).decode()
            assert 'moldau_small_http_requests_total{endpoint="thing",method="GET",status="200"} 1.0' in page
            assert 'moldau_small_http_requests_refused_total{reason="host"} 1.0' in page
            assert "some-path" not in page

    asyncio.run(run())


def test_health_says_what_is_wrong() -> None:
    async def run() -> None:
        async with served() as (service, address):
            assert status_of(await ask(address, http("GET", "/health"))) == 200
            service.problem = "no broker"
            answer = await ask(address, http("GET", "/health"))
            assert status_of(answer) == 503
            assert body_of(answer)["message"] == "no broker"

    asyncio.run(run())
