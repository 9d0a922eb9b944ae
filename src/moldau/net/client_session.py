"""Authentication of a connection with SASL: the first login, and new ones before the session ends (KIP-368).

A new login happens on the same connection. Requests in flight are answered before it, and requests that are sent during
it wait until it is complete: the broker accepts no other request between its steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from moldau.net.client_logins import LoginSource
from moldau.net.request_pipeline import RequestPipeline
from moldau.security.bearer_tokens import TokenError
from moldau.security.client_login import LoginError
from moldau.security.sasl_client import SaslClient, SaslError
from moldau.wire.api import APIS, ApiKey
from moldau.wire.errors import ErrorCode, WireError
from moldau.wire.message import Request
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest

E = TypeVar("E", bound=Exception)

SESSION_PART, SESSION_JITTER = 0.85, 0.10
"""A new login starts after 85 to 95 % of the session, as in Kafka's clients."""

MAX_STEPS = 8
"""The limit of messages in one login. SCRAM needs two."""

HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2
"""The versions between brokers. Version 1 of the handshake announces SaslAuthenticate; older brokers use raw bytes."""


class LoginRefused(Exception):
    """The login failed for good: another attempt with the same credentials would fail. The message has no secret."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(message)
        self.code = code


class ClientSession:
    """The logins of one connection."""

    def __init__(
        self,
        pipeline: RequestPipeline[Any],
        login: LoginSource,
        *,
        timeout_s: float,
        random: Callable[[], float],
        error_of: Callable[[Exception], Exception],
        version_of: Callable[[ApiKey], int] | None = None,
    ) -> None:
        """`error_of` turns LoginRefused, TokenError and LoginError into the error of the connection's owner."""
        self._pipeline = pipeline
        self._login = login
        self._timeout_s = timeout_s
        self._random = random
        self._error_of = error_of
        self._version_of = version_of or _between_brokers
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def begin(self, deadline: float) -> None:
        """Log in, and keep the session alive from then on. Raises the owner's errors."""
        try:
            await self._log_in(await self._login.exchange(), deadline)
        except (LoginRefused, TokenError, LoginError) as error:
            raise self._error_of(error) from error

    def end(self) -> None:
        """Stop, because the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()

    # -- new logins ------------------------------------------------------------------------------------------------

    def _schedule(self, lifetime_ms: int) -> None:
        if lifetime_ms > 0 and not self._pipeline.closed:
            part = SESSION_PART + SESSION_JITTER * self._random()
            self._timer = asyncio.get_running_loop().call_later(lifetime_ms / 1000 * part, self._start_again)

    def _start_again(self) -> None:
        self._timer = None
        if not self._pipeline.closed:
            self._task = asyncio.get_running_loop().create_task(self._again(), name=f"login at {self._pipeline.name}")

    async def _again(self) -> None:
        try:
            exchange = await self._login.exchange()  # a new token may take long, so no request waits for it
            # Requests in flight are answered first, and may rightly take long (JoinGroup).
            deadline = self._pipeline.last_deadline + self._timeout_s
            self._pipeline.hold_requests()
            await self._log_in(exchange, deadline)
        except (LoginRefused, TokenError, LoginError) as error:
            self._pipeline.close(self._error_of(error))
        except Exception as error:  # noqa: BLE001 - the connection has failed, and tells its users itself
            if not self._pipeline.closed:
                self._pipeline.close(self._error_of(error))
        finally:
            self._task = None
            self._pipeline.release_requests()

    # -- one login -------------------------------------------------------------------------------------------------

    async def _log_in(self, exchange: SaslClient, deadline: float) -> None:
        name = self._pipeline.name
        answer = await self._ask(SaslHandshakeRequest(mechanism=exchange.mechanism), deadline)
        if answer.error_code:
            raise LoginRefused(
                handshake_problem(name, exchange.mechanism, answer), ErrorCode.of(int(answer.error_code))
            )
        message = exchange.first()
        for _ in range(MAX_STEPS):
            answer = await self._ask(SaslAuthenticateRequest(auth_bytes=message), deadline)
            if answer.error_code:
                raise LoginRefused(_refusal(name, exchange.mechanism, answer), ErrorCode.of(int(answer.error_code)))
            following = await self._step(exchange, bytes(answer.auth_bytes))
            if following is None:
                self._schedule(answer.session_lifetime_ms)
                return
            message = following
        raise LoginRefused(f"broker {name} does not end the login with {exchange.mechanism}")

    async def _step(self, exchange: SaslClient, challenge: bytes) -> bytes | None:
        try:
            if exchange.slow:
                return await self._login.run(lambda: exchange.respond(challenge))
            return exchange.respond(challenge)
        except SaslError as error:
            raise LoginRefused(f"broker {self._pipeline.name}: {error}") from None

    async def _ask(self, request: Request, deadline: float) -> Any:
        key = ApiKey(request.API_KEY)
        version = self._version_of(key)
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def on_reply(view: memoryview | None, error: Exception | None) -> None:
            if reply.done():
                return
            if view is None:
                assert error is not None
                reply.set_exception(error)
                return
            try:
                reply.set_result(APIS[key].response_type().decode(bytes(view), version))
            except WireError:
                reply.set_exception(LoginRefused(f"broker {self._pipeline.name} sent an invalid {APIS[key].name}"))

        self._pipeline.send(key, version, (request.encode(version),), on_reply, deadline)
        return await reply


def _between_brokers(key: ApiKey) -> int:
    return HANDSHAKE_VERSION if key is ApiKey.SASL_HANDSHAKE else AUTHENTICATE_VERSION


def handshake_problem(name: str, mechanism: str, answer: Any) -> str:
    """Return the message for a refused SaslHandshake."""
    code = ErrorCode.of(int(answer.error_code))
    if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        enabled = ", ".join(answer.mechanisms) or "none"
        return f"broker {name} does not have the SASL mechanism {mechanism}; set sasl.mechanism to one of: {enabled}"
    if code is ErrorCode.ILLEGAL_SASL_STATE:
        return (
            f"broker {name} does not expect a login: its listener has no SASL; set security.protocol to PLAINTEXT or "
            "SSL, or use the port of another listener"
        )
    return f"broker {name} refused the login with {mechanism} ({code.name})"


def _refusal(name: str, mechanism: str, answer: Any) -> str:
    told = (answer.error_message or "").rstrip(".") or "it gave no reason"
    return f"broker {name} refused the login with {mechanism}: {told}; check user name and password, or the token"
