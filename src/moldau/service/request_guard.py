"""Request guard: the outermost layer of every service's HTTP application.

For each request, in this order: Host, preflight answers, Origin, login, the body within its size and time, then the
application within the time limit. What is refused never reaches the application. Each request is counted, and logged
without its query, which may hold secrets.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.host.clock import SystemClock
from moldau.host.event_log import event_logger
from moldau.service.errors import ErrorBody, HttpError
from moldau.service.http_settings import METHODS, HttpSettings
from moldau.service.login import PasswordFile
from moldau.service.metrics import HttpMetrics
from moldau.service.request_checks import (
    cross_origin_headers,
    host_problem,
    is_allowed_origin,
    origin_problem,
    preflight_headers,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = event_logger(__name__)

CLOCK: Final = SystemClock()
BODY_TIMEOUT_S: Final = 30.0
"""The time in which a request's body must have arrived."""

TIME_LIMIT: Final = "moldau.time_limit"
"""The scope has the request's `asyncio.Timeout` under this name: an endless response lifts it with `reschedule`."""

REASONS: Final[Mapping[int, str]] = {400: "host", 401: "login", 403: "origin", 408: "time", 413: "size", 504: "time"}


class RequestGuard:
    """An ASGI application around another one. See the module."""

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        metrics: HttpMetrics,
        *,
        error_body: ErrorBody,
        known_hosts: Collection[str],
        login: PasswordFile | None = None,
        open_paths: Collection[str] = (),
        streams: Callable[[Scope], bool] = lambda scope: False,
        websockets: bool = False,
    ) -> None:
        """`open_paths` need no login: they tell nothing but whether the service works.

        `streams` says whether the application reads the body of a request itself, piece by piece, and limits it.
        `websockets`: whether the application has WebSocket endpoints.
        """
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._error_body = error_body
        self._known_hosts = frozenset(known_hosts)
        self._login = login
        self._open_paths = frozenset(open_paths)
        self._streams = streams
        self._websockets = websockets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and self._websockets:
            await self._open_websocket(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"this service does not speak {scope['type']}")
        exchange = _Exchange(scope, receive, send, self._settings.allow_origins)
        with self._metrics.in_flight.track_inprogress():
            try:
                await self._answer(exchange)
            finally:
                self._record(exchange)

    async def _answer(self, exchange: _Exchange) -> None:
        try:
            async with asyncio.timeout(self._settings.request_timeout_s) as limit:
                exchange.scope[TIME_LIMIT] = limit
                if await self._admit(exchange):
                    await self._app(exchange.scope, exchange.receive, exchange.send)
        except HttpError as error:
            self._metrics.refused.labels(REASONS.get(error.status, "other")).inc()
            await exchange.respond(error.status, self._error_body(error.status, error.message), error.headers)
        except TimeoutError:
            message = f"the request took longer than {self._settings.request_timeout_s:g} s"
            self._metrics.refused.labels("time").inc()
            log.warning("request took too long", extra=exchange.facts())
            await exchange.respond(504, self._error_body(504, message))
        except _Disconnected:
            pass
        except Exception:  # a bug of the service: the client learns that, and the log has the traceback
            log.exception("request failed", extra=exchange.facts())
            if exchange.finished:
                return  # an exception handler has answered
            await exchange.respond(500, self._error_body(500, "internal error; the log of the service has the reason"))

    async def _admit(self, exchange: _Exchange) -> bool:
        """Check the request and read its body. False: it is answered. Raises HttpError if it is refused."""
        host, origin = exchange.header(b"host"), exchange.header(b"origin")
        problem = host_problem(host, self._known_hosts)
        if problem is not None:
            raise HttpError(400, problem)
        assert host is not None
        allowed = self._settings.allow_origins
        if exchange.is_preflight and origin is not None and is_allowed_origin(origin, allowed):
            await exchange.respond(200, None, extra=preflight_headers(self._settings.allow_methods))
            return False
        problem = origin_problem(exchange.method, host, origin, exchange.header(b"sec-fetch-site"), allowed)
        if problem is not None:
            raise HttpError(403, problem)
        if self._login is not None and exchange.scope["path"] not in self._open_paths:
            exchange.user = await self._login.user(exchange.header(b"authorization"))
            if exchange.user is None:
                raise HttpError(401, "User cannot access the resource.", {"WWW-Authenticate": 'Basic realm="moldau"'})
            exchange.scope["user_name"] = exchange.user
        if not self._streams(exchange.scope):
            await exchange.read_body(self._settings.max_body_bytes)
        return True

    async def _open_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request that opens a WebSocket, as if it changed something: browsers open them across origins."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host")
        problem, status = host_problem(host, self._known_hosts), 400
        if problem is None:
            site = headers.get(b"sec-fetch-site")
            problem = origin_problem("POST", host or "", headers.get(b"origin"), site, self._settings.allow_origins)
            status = 403
        if problem is None and self._login is not None:
            user = await self._login.user(headers.get(b"authorization"))
            problem, status = (None, 200) if user is not None else ("User cannot access the resource.", 401)
            scope["user_name"] = user
        facts = {"method": "WEBSOCKET", "path": scope["path"], "client": (scope.get("client") or ("",))[0]}
        if problem is not None:
            self._metrics.refused.labels(REASONS.get(status, "other")).inc()
            log.info("request", extra={**facts, "status": status})
            await receive()
            await refuse_websocket(scope, send, status, self._error_body(status, problem))
            return
        log.info("request", extra={**facts, "status": 101})
        with self._metrics.in_flight.track_inprogress():
            await self._app(scope, receive, send)

    def _record(self, exchange: _Exchange) -> None:
        seconds = CLOCK.monotonic() - exchange.began
        endpoint = exchange.scope.get("endpoint")
        name = getattr(endpoint, "__name__", "none") if exchange.status != 404 else "none"
        method = exchange.method if exchange.method in METHODS else "OTHER"
        self._metrics.done(method, name, exchange.status, seconds)
        level = log.debug if exchange.scope["path"] in self._open_paths else log.info
        level("request", extra={**exchange.facts(), "status": exchange.status, "ms": round(seconds * 1_000, 1)})


class _Disconnected(Exception):
    """The client is gone."""


class _Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, allow_origins: tuple[str, ...]) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.began = CLOCK.monotonic()
        self.status = 0
        self.finished = False
        self.user: str | None = None
        self._receive = receive
        self._send = send
        self._body: bytes | None = None
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._cross_origin = cross_origin_headers(self.header(b"origin"), allow_origins)

    def header(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    @property
    def is_preflight(self) -> bool:
        return self.method == "OPTIONS" and b"access-control-request-method" in self._headers

    def facts(self) -> dict[str, Any]:
        client = self.scope.get("client")
        user = {} if self.user is None else {"user": self.user}
        return {"method": self.method, "path": self.scope["path"], "client": client[0] if client else "", **user}

    async def read_body(self, limit: int) -> None:
        """Read the whole body. Raises HttpError if it is too large or too slow."""
        declared = self.header(b"content-length") or ""
        if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
            raise _too_large(limit)
        chunks: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while more:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise _Disconnected
                    chunks.append(message.get("body", b""))
                    size += len(chunks[-1])
                    if size > limit:
                        raise _too_large(limit)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise HttpError(
                408, f"the body did not arrive within {BODY_TIMEOUT_S:g} s", {"Connection": "close"}
            ) from None
        self._body = b"".join(chunks)

    async def receive(self) -> Message:
        """The application's `receive`: the body in one piece, then whether the client is gone."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()

    async def send(self, message: Message) -> None:
        """The application's `send`."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self._cross_origin]}
        await self._send(message)
        self.finished = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def respond(
        self,
        status: int,
        body: Any,
        headers: Mapping[str, str] | None = None,
        extra: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        """Answer with a JSON body. A response that has begun cannot be replaced: the connection is closed instead."""
        if self.status:
            raise RuntimeError("the request failed after its response had begun")
        data = b"" if body is None else json.dumps(body).encode()
        sent = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data)), *extra]
        sent += [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        await self.send({"type": "http.response.start", "status": status, "headers": sent})
        await self.send({"type": "http.response.body", "body": data if self.method != "HEAD" else b""})


async def refuse_websocket(scope: Scope, send: Send, status: int, body: Any) -> None:
    """Answer the request that opens a WebSocket with an error. Its `websocket.connect` has been received."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"application/json")]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="moldau"'))
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": json.dumps(body).encode()})


def _too_large(limit: int) -> HttpError:
    # The rest of the body is not read, so the connection cannot be used for another request.
    message = f"the body is larger than {limit} bytes; the limit is moldau.http.max.body.bytes"
    return HttpError(413, message, {"Connection": "close"})
