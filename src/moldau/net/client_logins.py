"""SASL logins of a client or broker: creates an exchange for each connection, with one token for all of them.

A token is requested when a connection needs one, and again when the present one nears its end. If that fails while the
present one is still valid, the present one is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from moldau.host.clock import Clock
from moldau.host.event_log import event_logger
from moldau.net.token_endpoint import EndpointBusy, TokenEndpoint, request_token
from moldau.security.bearer_tokens import BearerToken, TokenError, TokenRefresh, bearer_token, unsecured_token
from moldau.security.client_login import Login, PasswordLogin, TokenLogin
from moldau.security.sasl_client import OAuthBearerClient, SaslClient

log = event_logger(__name__)

FetchToken = Callable[[], Awaitable[str]]
RunText = Callable[[Callable[[], str]], Awaitable[str]]
"""Runs a function in a thread."""
RunStep = Callable[[Callable[[], bytes | None]], Awaitable[bytes | None]]


class LoginSource(Protocol):
    """Where a connection gets its exchanges from."""

    async def exchange(self) -> SaslClient:
        """Return a new exchange. Raises TokenError or LoginError."""
        ...

    def run(self, function: Callable[[], bytes | None], /) -> Awaitable[bytes | None]:
        """Run a slow step of an exchange in a thread."""
        ...


class RetryPolicy(NamedTuple):
    """Pauses between attempts to get a token, with the defaults of `sasl.login.retry.backoff.*`."""

    first_s: float = 0.1
    total_s: float = 10.0


class TokenCache:
    """The present token, and when to get the next one. One request at a time, which all connections share."""

    def __init__(
        self, fetch: FetchToken, clock: Clock, random: Callable[[], float], refresh: TokenRefresh | None = None
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._random = random
        self._refresh = refresh or TokenRefresh()
        self._token: BearerToken | None = None
        self._due_s: float | None = None
        self._lock = asyncio.Lock()

    async def token(self) -> BearerToken:
        """Return a valid token. Raises TokenError."""
        async with self._lock:
            now_s = self._clock.now_ms() / 1000
            token = self._token
            if token is not None and (self._due_s is None or now_s < self._due_s) and _valid(token, now_s):
                return token
            try:
                fresh = bearer_token(await self._fetch(), now_s)
            except TokenError as error:
                if token is None or not _valid(token, now_s):
                    raise
                log.warning("no new token, the present one stays in use", extra={"reason": str(error)})
                return token
            self._token = fresh
            # A token without an end is requested again for each login, so that a new one is noticed.
            due_s = self._refresh.due_s(fresh, self._random())
            self._due_s = now_s if due_s is None else due_s
            return fresh


def _valid(token: BearerToken, now_s: float) -> bool:
    return token.expires_s is None or now_s < token.expires_s


class ClientLogins:
    """What one client or broker logs in with."""

    def __init__(self, login: Login, tokens: TokenCache | None, run: RunStep) -> None:
        self._login = login
        self._tokens = tokens
        self._run = run

    def run(self, function: Callable[[], bytes | None], /) -> Awaitable[bytes | None]:
        """Run a slow step of an exchange in a thread."""
        return self._run(function)

    @property
    def mechanism(self) -> str:
        return self._login.mechanism

    async def exchange(self) -> SaslClient:
        """Return the exchange for one connection. Raises TokenError if there is no token."""
        if isinstance(self._login, PasswordLogin):
            return self._login.exchange()
        assert self._tokens is not None
        token = await self._tokens.token()
        return OAuthBearerClient(token.text, self._login.extensions)


def endpoint_fetch(endpoint: TokenEndpoint, login: TokenLogin, run: RunText, retry: RetryPolicy) -> FetchToken:
    """Return a function that gets a token from an endpoint or a file, again if the endpoint is busy."""

    async def fetch() -> str:
        pause, spent = retry.first_s, 0.0
        while True:
            try:
                return await run(lambda: request_token(endpoint, login.client_id, login.client_secret, login.scope))
            except EndpointBusy:
                if spent + pause > retry.total_s:
                    raise
            await asyncio.sleep(pause)
            spent += pause
            pause *= 2

    return fetch


def unsecured_fetch(login: TokenLogin, clock: Clock) -> FetchToken:
    """Return a function that makes tokens without a signature, for tests."""

    async def fetch() -> str:
        now_s = clock.now_ms() // 1000
        return unsecured_token(
            {"iat": now_s, "exp": now_s + login.unsecured_lifetime_s, **(login.unsecured_claims or {})}
        )

    return fetch
