"""Schema registry in tests: the whole REST API in the test's own process, without a broker, in milliseconds.

    from moldau.testing import Registry

    with Registry() as registry:
        client = SchemaRegistryClient({"url": registry.url})
        registry.register("orders-value", '"string"')    # without HTTP
        registry.fail_next(503)                          # the next request fails

It runs the operations and routes of `moldau registry` over a log in memory. Its content is gone at its end.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from moldau.registry.registry import ListedSchema
    from moldau.schemas.schema import Schema

ANSWER_TIMEOUT_S: Final = 60.0
"""How long a caller waits for the registry's thread. Only a bug or a stalled machine exceeds it."""
MAX_REQUESTS: Final = 10_000
"""How many requests `requests` keeps."""

T = TypeVar("T")


class Registry:
    """A registry in a thread of its own. All methods are for other threads."""

    def __init__(
        self,
        *,
        port: int = 0,
        compatibility: str = "BACKWARD",
        entries: Sequence[tuple[bytes, bytes | None]] = (),
        password_file: str = "",
    ) -> None:
        """`port` 0: any free one. `entries`: records of a topic `_schemas` to begin with."""
        from moldau.registry.stored_registry import MemoryRegistry, RegistryRules
        from moldau.schemas.compatibility import CompatibilityLevel

        self._registry = MemoryRegistry(RegistryRules(CompatibilityLevel(compatibility.upper())), list(entries))
        self._port = port
        self._password_file = password_file
        self._host: _Host | None = None
        self.requests: deque[tuple[str, str]] = deque(maxlen=MAX_REQUESTS)
        """Method and path of every request since the last `clear`, the newest last."""
        self._failures: deque[int] = deque()

    def start(self) -> Self:
        """Serve the REST API. After `close` it serves the same content at the same port again."""
        if self._host is None:
            host = _Host(self._app, self._port, self._password_file)
            self._port = host.port
            self._host = host
        return self

    def close(self) -> None:
        """Stop serving, as a registry that is not there."""
        host, self._host = self._host, None
        if host is not None:
            host.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where clients reach it: the value of `schema.registry.url`."""
        if self._host is None:
            raise RuntimeError("the registry is not running: `start` it first")
        return f"http://127.0.0.1:{self._port}"

    @property
    def entries(self) -> list[tuple[bytes, bytes | None]]:
        """Every record that the registry has written, as in the topic `_schemas`."""
        return list(self._registry.entries)

    def register(self, subject: str, schema: str | Schema) -> int:
        """Register a schema (a text is Avro), and return its id. RegistryRefusal if the registry refuses it."""
        from moldau.registry.registry import NewSchema

        new = NewSchema(schema) if isinstance(schema, str) else NewSchema.of(schema)
        return self._run(self._registry.register(subject, new)).registered.id

    def schema(self, subject: str, version: int | str = "latest") -> ListedSchema:
        """A version of a subject. RegistryRefusal if it does not exist."""

        async def found() -> ListedSchema:
            return self._registry.version(subject, version)

        return self._run(found())

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        self._run(self._registry.set_config(subject, {"compatibility": level}))

    def fail_next(self, status: int, *, times: int = 1) -> None:
        """Answer the next requests with this status."""
        self._failures.extend([status] * times)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._host is None:
            work.close()
            raise RuntimeError("the registry is not running: `start` it first")
        return self._host.run(work)

    def _app(self, http: Any) -> ASGIApp:
        """The application of `moldau registry`, behind the record of requests and the injected failures."""
        from starlette.responses import JSONResponse

        from moldau.registry.rest.app import registry_app
        from moldau.service.forwarding import Forwarder
        from moldau.service.metrics import HttpMetrics

        inner = registry_app(self._registry, http, forwarder=Forwarder(), metrics=HttpMetrics("registry"))

        async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                self.requests.append((scope["method"], scope["path"]))
                if self._failures:
                    status = self._failures.popleft()
                    body: Mapping[str, Any] = {"error_code": status, "message": "injected by the test"}
                    await JSONResponse(body, status)(scope, receive, send)
                    return
            await inner(scope, receive, send)

        return recorded


class _Host:
    """The thread, loop and HTTP server of one time of serving."""

    def __init__(self, make_app: Any, port: int, password_file: str) -> None:
        from moldau.service.http_settings import HttpAddress, HttpSettings
        from moldau.service.server import HttpServer

        settings = HttpSettings((HttpAddress("http", "127.0.0.1", port),), password_file=password_file)
        self._server = HttpServer(settings)
        self._server.bind()
        self.port = self._server.addresses[0].port
        self._app = make_app(settings)
        self._loop = asyncio.new_event_loop()
        self._started: Future[None] = Future()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._live, name="moldau-registry", daemon=True)
        self._thread.start()
        self._started.result(ANSWER_TIMEOUT_S)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_TIMEOUT_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(ANSWER_TIMEOUT_S)
        if self._thread.is_alive():
            raise TimeoutError(f"the registry's thread did not end within {ANSWER_TIMEOUT_S:.0f} s")

    def _live(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        try:
            await self._server.start(self._app)
        except BaseException as error:  # noqa: BLE001 - raised again where the start is waited for
            self._started.set_exception(error)
            return
        self._started.set_result(None)
        await self._ending.wait()
        await self._server.stop()
