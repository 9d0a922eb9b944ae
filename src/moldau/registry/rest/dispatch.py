"""Dispatch of requests: paths, methods, content types, error bodies, and forwarding to the leader.

It is an ASGI application of its own, without Starlette's routes and requests: a look-up by id costs little more than
its HTTP. Every error is answered with Confluent's body, `{"error_code": …, "message": …}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request

from moldau.client.errors import MoldauError
from moldau.host.event_log import event_logger
from moldau.registry.refusals import NotLeader, RegistryRefusal, forwarding_failed, no_leader
from moldau.registry.registry import Registry
from moldau.registry.rest.endpoint import ApiCall, ApiEndpoint, ApiReply
from moldau.registry.rest.errors import ApiError, http_error, not_found
from moldau.registry.rest.media_types import V1, answer_type, is_accepted
from moldau.registry.rest.paths import CONTEXTS, PathTree, path_parts, within_context
from moldau.service.errors import HttpError
from moldau.service.forwarding import Forwarder

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

log = event_logger(__name__)

MAX_PARAMETERS: Final = 1_000
"""Query parameters of one request."""

BODY: Final = "moldau.registry.body"
"""The scope has the body under this name, for a request that is forwarded."""


class RegistryApi:
    """The ASGI application of all endpoints."""

    def __init__(self, endpoints: Iterable[ApiEndpoint], registry: Registry, forwarder: Forwarder) -> None:
        self._paths = PathTree(endpoints)
        self._registry = registry
        self._forwarder = forwarder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        accept, content_type = _content_headers(scope["headers"])
        media_type = answer_type(accept)
        try:
            if media_type is None:
                raise http_error(406)
            try:
                reply = await self._reply(scope, receive, content_type)
            except NotLeader as error:
                response = await self._ask_leader(scope, error.url)
                await response(scope, receive, send)
                return
        except (ApiError, RegistryRefusal) as error:
            reply = _error(error.status, error.code, str(error))
        except HttpError as error:
            reply = _error(error.status, error.status, error.message)
        except UnicodeEncodeError:
            # JSON can escape half of a surrogate pair, also in the text of a schema; records are UTF-8.
            reply = _error(422, 42201, "the text has half of a surrogate pair (\\ud800 to \\udfff): it is not Unicode")
        except MoldauError as error:
            log.error("request failed", extra={"path": scope["path"], "reason": str(error)})
            reply = _error(500, 50001, str(error))
        await _send(send, reply, media_type or V1)

    async def _reply(self, scope: Scope, receive: Receive, content_type: str) -> ApiReply:
        parts = path_parts(scope.get("raw_path") or scope["path"].encode())
        query = _query(scope["query_string"])
        if len(parts) > 1 and parts[0] == CONTEXTS:
            parts, query = within_context(parts, query)
        methods, names = self._paths.find(parts)
        if not methods:
            raise not_found()
        method = scope["method"]
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            return _other_method(method, methods)
        scope["endpoint"] = _Named(endpoint.operation.path)
        call = ApiCall(names, query)
        if method in ("POST", "PUT"):
            call.body = (await receive()).get("body", b"")
            scope[BODY] = call.body
            if call.body and not is_accepted(content_type):
                raise http_error(415)
        return await endpoint.handler(call)

    async def _ask_leader(self, scope: Scope, url: str | None) -> Response:
        """The leader's answer, when this node has read what the leader wrote: the client may read it here next."""
        if url is None:
            raise no_leader()

        async def body_again() -> dict[str, Any]:
            return {"type": "http.request", "body": scope.get(BODY, b""), "more_body": False}

        try:
            response = await self._forwarder.forward(Request(scope, body_again), url)
        except HttpError as error:
            raise forwarding_failed(f"the leader did not carry out the request: {error.message}") from None
        await self._registry.fresh()
        return response


class _Named:
    """What metrics count a request by."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


def _content_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, str]:
    accept = content_type = b""
    for name, value in headers:
        if name == b"accept":
            accept = accept + b"," + value if accept else value
        elif name == b"content-type":
            content_type = value
    return accept.decode("latin-1"), content_type.decode("latin-1")


def _query(text: bytes) -> Mapping[str, Sequence[str]]:
    if not text:
        return {}
    try:
        return parse_qs(text.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise ApiError(400, 400, f"the request has more than {MAX_PARAMETERS} query parameters") from None


def _other_method(method: str, methods: Mapping[str, ApiEndpoint]) -> ApiReply:
    allowed = ", ".join([*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"])
    headers = {"Allow": allowed}
    if method == "OPTIONS":
        return ApiReply(text=allowed, headers=headers)
    return ApiReply({"error_code": 405, "message": "HTTP 405 Method Not Allowed"}, 405, headers=headers)


def _error(status: int, code: int, message: str) -> ApiReply:
    return ApiReply({"error_code": code, "message": message}, status)


async def _send(send: Send, reply: ApiReply, media_type: str) -> None:
    if reply.status == 204:
        content = b""
    elif reply.text is not None:
        content = reply.text.encode()
    else:
        # A lone surrogate, which JSON can have, is not UTF-8: it stays escaped.
        text = json.dumps(reply.body, ensure_ascii=False, separators=(",", ":"))
        content = text.encode("utf-8", "backslashreplace")
    headers = [
        (b"content-type", (reply.media_type or media_type).encode()),
        (b"content-length", b"%d" % len(content)),
        *((name.lower().encode(), value.encode()) for name, value in reply.headers.items()),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
