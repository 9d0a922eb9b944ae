"""Forwarding of requests to the worker that can answer them: the leader, or the one that runs the connector.

The request keeps its method, path, parameters, body and login. `forward=true` tells the next worker that it may forward
once more, `forward=false` that it may not.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlsplit

import httpx
from starlette.requests import Request
from starlette.responses import Response

from moldau.connect.rest.dispatch import REQUEST_TIMEOUT_S, error_response
from moldau.host.event_log import event_logger

log = event_logger(__name__)

_REQUEST_HEADERS: Final = ("accept", "content-type", "authorization")
_RESPONSE_HEADERS: Final = ("content-type", "location")


class HttpForward:
    """Forwards over HTTP. One client for all requests of the worker: it keeps connections."""

    def __init__(self, client: httpx.AsyncClient | None = None) -> None:
        self._client = client or httpx.AsyncClient(timeout=REQUEST_TIMEOUT_S, trust_env=False)

    async def __call__(self, request: Request, body: bytes, url: str, *, forward_again: bool) -> Response:
        query: list[tuple[str, str | int | float | bool | None]] = [
            (name, text) for name, text in request.query_params.multi_items() if name != "forward"
        ]
        query.append(("forward", "true" if forward_again else "false"))
        target = url.rstrip("/") + quote(request.scope["path"], safe="/")
        headers = {name: request.headers[name] for name in _REQUEST_HEADERS if name in request.headers}
        try:
            answer = await self._client.request(
                request.method, target, params=query, content=body or None, headers=headers
            )
        except httpx.HTTPError as error:
            log.warning("forwarding failed", extra={"worker": url, "reason": f"{type(error).__name__}: {error}"})
            return error_response(500, f"IO Error trying to forward REST request to {url}: {type(error).__name__}")
        kept = {name: answer.headers[name] for name in _RESPONSE_HEADERS if name in answer.headers}
        if "location" in kept:
            # The client talks to this worker: the other one may not be reachable for it.
            kept["location"] = str(request.base_url).rstrip("/") + urlsplit(kept["location"]).path
        return Response(answer.content, answer.status_code, kept)

    async def close(self) -> None:
        await self._client.aclose()
