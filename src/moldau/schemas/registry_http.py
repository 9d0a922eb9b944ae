"""HTTP requests to a registry: several addresses, login, TLS, repetition of what failed for a passing reason.

An answer that says what is wrong becomes a RegistryError with its status and the registry's code. If no address
answers, the status is 0. Neither an error nor a log shows a login: addresses are kept without it.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.host.clock import SystemRandomness
from moldau.host.processes import in_forked_children
from moldau.host.threads import Event, Lock
from moldau.net.tls_context import client_context
from moldau.schemas.errors import RegistryError
from moldau.schemas.registry_settings import RegistrySettings

if TYPE_CHECKING:
    import httpx

ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""
MAX_CONNECTIONS: Final = 10
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024


class RegistryHttp:
    """Sends requests from any thread. A process that was forked opens connections of its own."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._client: httpx.Client | None = None
        self._closing: weakref.finalize[..., Any] | None = None
        self._randomness = SystemRandomness()
        secure = any(url.startswith("https:") for url in settings.urls)
        self._tls = client_context(settings.tls) if secure else None
        self._first = 0
        """The address that answered last: the next request begins there."""
        _opened.add(self)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str | int | bool] | None = None,
    ) -> Any:
        """The answer of the registry, decoded. Raises RegistryError."""
        attempt = 0
        while True:
            try:
                return self._ask_each(method, path, body, query)
            except _Passing as problem:
                if attempt >= self._settings.max_retries:
                    raise problem.error from None
            longest = min(self._settings.retry_wait_s * 2**attempt, self._settings.retry_max_wait_s)
            Event().wait(longest * self._randomness.random())
            attempt += 1

    def close(self) -> None:
        with self._lock:
            if self._closing is not None:
                self._closing()
            self._client = self._closing = None

    def forget_connections(self) -> None:
        """Leave the connections to the parent, in a process that was forked."""
        self._lock = Lock()
        if self._closing is not None:
            self._closing.detach()
        self._client = self._closing = None

    def _ask_each(self, method: str, path: str, body: Any, query: Mapping[str, str | int | bool] | None) -> Any:
        """Ask each address, once. Raises _Passing with the last error if none could answer."""
        urls = self._settings.urls
        first = self._first
        problem: _Passing | None = None
        for at in (*range(first, len(urls)), *range(first)):
            try:
                answer = self._ask(method, urls[at], path, body, query)
            except _Passing as found:
                problem = found
            else:
                self._first = at
                return answer
        assert problem is not None
        raise problem

    def _ask(self, method: str, url: str, path: str, body: Any, query: Mapping[str, str | int | bool] | None) -> Any:
        client = self._http()
        import httpx

        sent = None if body is None else json.dumps(body).encode()
        headers = {} if sent is None else {"content-type": CONTENT_TYPE}
        params = {name: _text(value) for name, value in (query or {}).items()}
        try:
            with client.stream(method, url + path, content=sent, headers=headers, params=params) as answer:
                content = _content(answer, url)
        except httpx.TimeoutException:
            error = RegistryError(f"the registry at {url} did not answer {method} {path} in time")
        except httpx.HTTPError as reason:
            error = RegistryError(f"the registry at {url} cannot be reached: {str(reason) or type(reason).__name__}")
        else:
            return _decoded(answer.status_code, content, url, f"{method} {path}")
        if method == "DELETE":  # It may have had its effect, and would be refused now.
            raise error
        raise _Passing(error)

    def _http(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                self._client = self._new_client()
                # Serializers that a producer makes from its settings have nobody who closes their connections.
                self._closing = weakref.finalize(self, self._client.close)
            return self._client

    def _new_client(self) -> httpx.Client:
        try:
            import httpx
        except ImportError:
            raise RegistryError("the client of a registry needs httpx: pip install 'moldau[schemas]'") from None
        settings = self._settings
        headers = {"accept": ACCEPT, "user-agent": "moldau", **settings.token_headers}
        if settings.token:
            headers["authorization"] = f"Bearer {settings.token}"
        return httpx.Client(
            verify=self._tls or False,
            auth=None if settings.token or settings.login is None else httpx.BasicAuth(*settings.login),
            headers=headers,
            proxy=settings.proxy,
            timeout=httpx.Timeout(settings.read_timeout_s, connect=settings.connect_timeout_s),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
            # Neither proxies nor a .netrc with passwords from the environment: settings say what is sent where.
            trust_env=False,
            follow_redirects=False,
        )


class _Passing(Exception):
    """A failure after which another address, or the same one later, may answer."""

    def __init__(self, error: RegistryError) -> None:
        super().__init__(str(error))
        self.error = error


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _content(answer: httpx.Response, url: str) -> bytes:
    content = bytearray()
    for chunk in answer.iter_bytes():
        content += chunk
        if len(content) > MAX_RESPONSE_BYTES:
            raise RegistryError(f"the answer of {url} is larger than {MAX_RESPONSE_BYTES} bytes")
    return bytes(content)


def _decoded(status: int, content: bytes, url: str, what: str) -> Any:
    try:
        found = json.loads(content) if content else None
    except ValueError:
        found = None
        if status < 300:
            raise RegistryError(f"the answer of {url} to {what} is not JSON", status=status) from None
    if status < 300:
        return found
    body = found if isinstance(found, dict) else {}
    code = body.get("error_code")
    message = str(body.get("message") or f"status {status}")
    error = RegistryError(
        f"the registry at {url} refused {what}: {message}",
        status=status,
        code=code if isinstance(code, int) else status,
    )
    if status in PASSING:
        raise _Passing(error)
    raise error


_opened: weakref.WeakSet[RegistryHttp] = weakref.WeakSet()


def _after_fork() -> None:
    for one in _opened:
        one.forget_connections()


in_forked_children(_after_fork)
