"""Forwarding of a request to another process of the same service, such as the leader of its group.

A forwarded request carries the login of its sender and how often it was forwarded. That number has a limit: two
processes that take each other for the leader during a rebalance would send it round for ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moldau.host.event_log import event_logger
from moldau.net.tls_context import client_context
from moldau.net.tls_settings import TlsSettings
from moldau.service.errors import HttpError

if TYPE_CHECKING:
    import httpx

log = event_logger(__name__)

FORWARDED: Final = "moldau-forwarded"
CARRIED: Final = ("authorization", "content-type", "accept", "accept-language")
"""Headers of the request that the other process gets too."""
RETURNED: Final = ("content-type", "location", "www-authenticate", "retry-after")
TIMEOUT_S: Final = 100.0
"""The time for the whole answer: more than a request may take at the other process (Kafka Connect: 90 s)."""
CONNECT_TIMEOUT_S: Final = 5.0
MAX_CONNECTIONS: Final = 20
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024


def hops_of(request: Request) -> int:
    """How often the request was forwarded before it came here."""
    text = request.headers.get(FORWARDED, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 5 else 1


class Forwarder:
    """A client for other processes of the same service. Closed with `close`."""

    def __init__(self, tls: TlsSettings | None = None, *, timeout_s: float = TIMEOUT_S, max_hops: int = 1) -> None:
        """`tls` are the settings of the service's https listeners: the others' certificates are verified with them."""
        self._tls = tls
        self._max_hops = max_hops
        self._timeout_s = timeout_s
        self._client: httpx.AsyncClient | None = None

    async def forward(self, request: Request, url: str) -> Response:
        """Send the request to the process at this URL (`http://host:port/`), and return its answer.

        Raises HttpError: 409 if the request was forwarded `max_hops` times before, 502 if the other process does not
        answer, 504 if it does not in time.
        """
        import httpx

        target, headers = self._target(request, url)
        try:
            async with self._http().stream(
                request.method,
                target,
                headers=headers,
                content=await request.body(),
            ) as answer:
                content = await _content(answer, url)
        except httpx.TimeoutException:
            raise HttpError(504, f"{url} did not answer within {self._timeout_s:g} s") from None
        except httpx.HTTPError as error:
            log.warning("forwarding failed", extra={"url": url, "reason": str(error) or type(error).__name__})
            raise HttpError(502, f"{url} cannot be reached, and only that process can answer this request") from None
        returned = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
        return Response(content, answer.status_code, returned)

    async def forward_stream(self, request: Request, url: str) -> Response:
        """Like `forward`, for an answer without an end: it is passed on as it comes, without a limit of time or size.

        If the other process goes away, the answer ends there.
        """
        import httpx

        target, headers = self._target(request, url)
        endless = httpx.Timeout(self._timeout_s, connect=CONNECT_TIMEOUT_S, read=None)
        sent = self._http().build_request(
            request.method, target, headers=headers, content=await request.body(), timeout=endless
        )
        try:
            answer = await self._http().send(sent, stream=True)
        except httpx.HTTPError as error:
            log.warning("forwarding failed", extra={"url": url, "reason": str(error) or type(error).__name__})
            raise HttpError(502, f"{url} cannot be reached, and only that process can answer this request") from None

        async def passed_on() -> AsyncIterator[bytes]:
            try:
                async for chunk in answer.aiter_bytes():
                    yield chunk
            except httpx.HTTPError as error:
                log.warning("forwarded answer broke off", extra={"url": url, "reason": type(error).__name__})
            finally:
                await answer.aclose()

        returned = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
        return StreamingResponse(passed_on(), answer.status_code, returned)

    def _target(self, request: Request, url: str) -> tuple[str, dict[str, str]]:
        """The URL and the headers of the forwarded request. HttpError 409: it was forwarded too often."""
        hops = hops_of(request)
        if hops >= self._max_hops:
            raise HttpError(
                409, "the request was forwarded to this process, which cannot answer it either; try again in a moment"
            )
        # The path as it was sent: a name with %2F in it must not become two parts of the path.
        path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        query: bytes = request.scope.get("query_string", b"")
        target = url.rstrip("/") + path.decode("ascii") + (f"?{query.decode('ascii')}" if query else "")
        carried = {name: request.headers[name] for name in CARRIED if name in request.headers}
        return target, {FORWARDED: str(hops + 1), **carried}

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _http(self) -> httpx.AsyncClient:
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(
                verify=True if self._tls is None else client_context(self._tls),
                timeout=httpx.Timeout(self._timeout_s, connect=CONNECT_TIMEOUT_S),
                limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
                trust_env=False,
                follow_redirects=False,
            )
        return self._client


async def _content(answer: httpx.Response, url: str) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in answer.aiter_bytes():
        size += len(chunk)
        if size > MAX_RESPONSE_BYTES:
            raise HttpError(502, f"the answer of {url} is larger than {MAX_RESPONSE_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
