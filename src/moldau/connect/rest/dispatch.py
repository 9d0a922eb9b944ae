"""Dispatch of requests: methods, content types, time-outs, error bodies, and forwarding to another worker.

An endpoint is a path with a handler per method. A handler returns a `Reply` or raises an error of the herder. Every
error is answered with Kafka Connect's body, `{"error_code": …, "message": …}`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from moldau.client.errors import MoldauError
from moldau.connect.herder.errors import HerderError, OtherWorkerError
from moldau.host.event_log import event_logger
from moldau.service.errors import HttpError
from moldau.service.forwarding import Forwarder, hops_of

log = event_logger(__name__)

REQUEST_TIMEOUT_S: Final = 90.0
"""Kafka Connect's limit for one request."""
MAX_HOPS: Final = 2
"""How often a request is forwarded: the first worker may not know yet who leads, the second one does."""
JSON: Final = "application/json"
_PHRASES: Final = {
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    415: "Unsupported Media Type",
}


@dataclass(frozen=True)
class Reply:
    """The answer of a handler. No body: an empty one."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Reply]]


class RestError(HerderError):
    """An error of HTTP itself, such as a method that an endpoint does not have."""

    def __init__(self, status: int, message: str | None = None) -> None:
        super().__init__(message or f"HTTP {status} {_PHRASES[status]}")
        self.status = status


def json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(content, status, dict(headers or {}), media_type=JSON)


def rest_error_body(status: int, message: str) -> dict[str, Any]:
    """The body of errors that the web application finds, for `service_app`: 404 has the message of Kafka Connect."""
    return {"error_code": status, "message": f"HTTP {status} {message}" if message == _PHRASES.get(status) else message}


def base_url(request: Request) -> str:
    """The address by which the client reached this worker."""
    return str(request.base_url).rstrip("/")


def error_response(status: int, message: str) -> Response:
    return json_response(status, {"error_code": status, "message": message})


class RestEndpoint:
    """One path with its handlers, as an ASGI application."""

    def __init__(
        self,
        path: str,
        handlers: Mapping[str, Handler],
        forwarder: Forwarder,
        ready: Callable[[], bool],
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self.__name__ = path  # by which metrics count requests
        self._ready = ready
        self._handlers = dict(handlers)
        self._forwarder = forwarder
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        try:
            check_path(request)
            if request.method == "OPTIONS":
                return self._options()
            handler = self._handlers.get("GET" if request.method == "HEAD" else request.method)
            if handler is None:
                raise RestError(405)
            await check_content(request)
            if not self._ready():
                raise RestError(503, "Worker is still starting up.")
            return await self._run(handler, request)
        except HerderError as error:
            return error_response(error.status, str(error))
        except HttpError as error:
            return error_response(error.status, error.message)
        except MoldauError as error:
            log.error("request failed", extra={"request": request_line(request), "reason": str(error)})
            return error_response(500, str(error))
        except Exception as error:
            # The message of an unexpected error may hold anything, secrets included: it goes to the log of the worker
            # as a type and a stack only.
            log.exception("request failed", extra={"request": request_line(request)})
            return error_response(
                500, f"Internal error ({type(error).__name__}); the log of the worker has the details"
            )

    async def _run(self, handler: Handler, request: Request) -> Response:
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await handler(request)
        except TimeoutError:
            return error_response(500, "Request timed out")
        except OtherWorkerError as error:
            return await self._elsewhere(request, error)
        if reply.body is None:
            return Response(None, reply.status, dict(reply.headers))
        return json_response(reply.status, reply.body, reply.headers)

    async def _elsewhere(self, request: Request, error: OtherWorkerError) -> Response:
        """Forward to the worker that can answer, over two hops at most: the second one may know a newer assignment."""
        if hops_of(request) >= MAX_HOPS:
            raise RestError(409, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
        if error.url is None:
            raise RestError(
                409,
                "Cannot complete request momentarily due to no known leader URL, "
                "likely because a rebalance was underway.",
            )
        answer = await self._forwarder.forward(request, error.url)
        if "location" in answer.headers:
            # The client talks to this worker: the other one may not be reachable for it.
            answer.headers["location"] = base_url(request) + urlsplit(answer.headers["location"]).path
        return answer

    def _options(self) -> Response:
        methods = [*self._handlers, *(["HEAD"] if "GET" in self._handlers else []), "OPTIONS"]
        allowed = ", ".join(methods)
        return Response(allowed, 200, {"Allow": allowed}, media_type="text/plain")


def request_line(request: Request) -> str:
    return f"{request.method} {request.url.path}"


def check_path(request: Request) -> None:
    """A name with a slash cannot be told from a longer path: refused as in Kafka Connect."""
    if b"%2f" in request.scope.get("raw_path", b"").lower():
        raise RestError(400, "Ambiguous URI path separator: the name of a connector in a path cannot have a slash")


async def check_content(request: Request) -> None:
    """Refuse what is not JSON, on either side."""
    if not _accepts_json(request.headers.get("accept")):
        raise RestError(406)
    if await request.body() and request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise RestError(415)


def _accepts_json(accept: str | None) -> bool:
    if accept is None or not accept.strip():
        return True
    for part in accept.split(","):
        kind, _, parameters = part.strip().lower().partition(";")
        refused = parameters.replace(" ", "") in ("q=0", "q=0.0")
        if kind.strip() in ("*/*", "application/*", JSON) and not refused:
            return True
    return False
