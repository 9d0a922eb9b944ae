"""Token endpoint: what is sent, what is retried, and that no error shows a secret."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from moldau.net.client_logins import RetryPolicy, TokenCache, endpoint_fetch
from moldau.net.token_endpoint import EndpointBusy, TokenEndpoint, request_token
from moldau.security.bearer_tokens import TokenError, TokenRefresh, unsecured_token
from moldau.security.client_login import TokenLogin

SECRET = "client-secret"


class Issuer(ThreadingHTTPServer):
    """A token endpoint that gives the answers of `answers`, then the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = [(200, json.dumps({"access_token": "TOKEN"}).encode())]
        self.requests: list[tuple[str, dict[str, str], str]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/token"


class Handler(BaseHTTPRequestHandler):
    server: Issuer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.requests.append((self.path, dict(self.headers), body))
        answers = self.server.answers
        code, content = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_credentials_go_into_the_header_and_the_scope_into_the_form(issuer: Issuer) -> None:
    assert request_token(TokenEndpoint(issuer.url), "me", SECRET, "kafka read") == "TOKEN"
    path, headers, body = issuer.requests[0]
    assert path == "/token" and body == "grant_type=client_credentials&scope=kafka+read"
    assert headers["Authorization"] == "Basic bWU6Y2xpZW50LXNlY3JldA=="


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        ((401, b""), TokenError, "refused the request with HTTP 401"),
        ((302, b""), TokenError, "refused the request with HTTP 302"),
        ((503, b""), EndpointBusy, "HTTP 503"),
        ((200, b"no json"), TokenError, "did not answer with JSON"),
        ((200, b"[]"), TokenError, "has no access_token"),
        ((200, b'{"access_token": 7}'), TokenError, "has no access_token"),
        ((200, b"x" * 700_000), TokenError, "sent more than"),
    ],
)
def test_wrong_answers_are_errors_without_secrets(
    issuer: Issuer, answer: tuple[int, bytes], kind: type[Exception], says: str
) -> None:
    issuer.answers = [answer]
    with pytest.raises(kind, match=says) as error:
        request_token(TokenEndpoint(issuer.url), "me", SECRET, "")
    assert type(error.value) is kind and SECRET not in str(error.value)
    assert len(issuer.requests) == 1  # a redirect is not followed: it would get the credentials


def test_an_endpoint_that_nobody_serves_is_busy() -> None:
    with pytest.raises(EndpointBusy, match="cannot be reached"):
        request_token(TokenEndpoint("http://user:url-secret@127.0.0.1:1/token", 1, 1), "me", SECRET, "")


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", ""])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(TokenError, match="not an http, https or file URL"):
        request_token(TokenEndpoint(url), "me", SECRET, "")


def test_credentials_are_needed(issuer: Issuer) -> None:
    with pytest.raises(TokenError, match="clientId and clientSecret"):
        request_token(TokenEndpoint(issuer.url), "me", "", "")


def test_a_file_has_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("TOKEN\n")
    assert request_token(TokenEndpoint(f"file:{tmp_path}/token"), "", "", "").strip() == "TOKEN"
    assert request_token(TokenEndpoint(f"file://{tmp_path}/token"), "", "", "").strip() == "TOKEN"
    with pytest.raises(TokenError, match="cannot be read: No such file"):
        request_token(TokenEndpoint(f"file:{tmp_path}/missing"), "", "", "")


def test_a_busy_endpoint_is_asked_again_for_a_bounded_time(issuer: Issuer) -> None:
    issuer.answers = [(503, b""), (503, b""), *issuer.answers]
    fetch = endpoint_fetch(
        TokenEndpoint(issuer.url), TokenLogin("me", SECRET), asyncio.to_thread, RetryPolicy(0.001, 1.0)
    )
    assert asyncio.run(fetch()) == "TOKEN"
    issuer.answers = [(503, b"")]
    issuer.requests.clear()
    fetch = endpoint_fetch(
        TokenEndpoint(issuer.url), TokenLogin("me", SECRET), asyncio.to_thread, RetryPolicy(0.001, 0.01)
    )
    with pytest.raises(EndpointBusy):
        asyncio.run(fetch())
    assert len(issuer.requests) == 4  # pauses of 1, 2 and 4 ms


# -- the present token -----------------------------------------------------------------------------------------------


class Clock:
    now_s = 1000.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s


class Source:
    """Tokens that live for 100 s."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.fails = False
        self.count = 0

    async def __call__(self) -> str:
        self.count += 1
        await asyncio.sleep(0)
        if self.fails:
            raise TokenError("no token")
        return unsecured_token({"iat": self.clock.now_s, "exp": self.clock.now_s + 100, "n": self.count})


def test_a_token_is_shared_until_it_nears_its_end() -> None:
    clock = Clock()
    source = Source(clock)
    cache = TokenCache(source, clock, lambda: 0.0, TokenRefresh(buffer_s=0, min_period_s=0))

    async def steps() -> None:
        first, second = await asyncio.gather(cache.token(), cache.token())
        assert first == second and source.count == 1
        clock.now_s += 79
        assert await cache.token() == first
        clock.now_s += 2
        assert await cache.token() != first and source.count == 2

    asyncio.run(steps())


def test_a_valid_token_outlives_a_failure_and_an_expired_one_does_not() -> None:
    clock = Clock()
    source = Source(clock)
    cache = TokenCache(source, clock, lambda: 0.0, TokenRefresh(buffer_s=0, min_period_s=0))

    async def steps() -> None:
        first = await cache.token()
        source.fails = True
        clock.now_s += 90
        assert await cache.token() == first
        clock.now_s += 20
        with pytest.raises(TokenError):
            await cache.token()

    asyncio.run(steps())
