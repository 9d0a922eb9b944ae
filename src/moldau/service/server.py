"""HTTP server of a service: uvicorn on the service's addresses.

The addresses are bound before anything else starts, so that a port in use is known at once. When the service stops, it
accepts no more connections, and requests in flight may finish within `STOP_TIMEOUT_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from moldau.host.event_log import event_logger
from moldau.host.main_loop import run_process
from moldau.net.tls_context import server_context
from moldau.service.http_settings import ALL_INTERFACES, HttpAddress, HttpSettings

if TYPE_CHECKING:
    import logging
    import ssl

    from starlette.types import ASGIApp

__all__ = ["HttpServer", "banner_lines", "run_process"]

log = event_logger(__name__)

STOP_TIMEOUT_S: Final = 10.0
"""How long requests in flight may take when the service stops."""
HEADER_TIMEOUT_S: Final = 10.0
"""The time in which the line and the headers of a request must have arrived."""
KEEP_ALIVE_S: Final = 30.0
MAX_HEADER_BYTES: Final = 64 * 1024
MAX_CONNECTIONS: Final = 500
"""More are answered with 503."""
MAX_WEBSOCKET_MESSAGE: Final = 1024 * 1024
"""The largest message that a client may send over a WebSocket."""
BACKLOG: Final = 128
TICK_S: Final = 1.0
"""How often the Date header of responses is renewed."""


class HttpServer:
    """The HTTP server of a service. Port 0 in the settings is any free port."""

    def __init__(
        self, settings: HttpSettings, *, max_connections: int = MAX_CONNECTIONS, websockets: bool = False
    ) -> None:
        """More than `max_connections` are answered with 503. `websockets`: whether the application has WebSockets."""
        self._settings = settings
        self._max_connections = max_connections
        self._websockets = websockets
        self._sockets: list[socket.socket] = []
        self._servers: list[tuple[_Server, asyncio.Task[None]]] = []
        self.addresses: tuple[HttpAddress, ...] = ()
        """The addresses that are served, with their real ports; known after `bind`."""

    def bind(self) -> None:
        """Reserve all addresses. OSError names the one that cannot be used."""
        try:
            for address in self._settings.addresses:
                self._sockets += [_bind(address)]
        except OSError:
            self._close_sockets()
            raise
        self.addresses = tuple(
            HttpAddress(address.scheme, address.host, one.getsockname()[1])
            for address, one in zip(self._settings.addresses, self._sockets, strict=True)
        )

    async def start(self, app: ASGIApp) -> None:
        """Serve the application on all addresses. Raises OSError if an address cannot be used; SettingError: TLS."""
        if not self._sockets:
            self.bind()
        context = None
        if self._settings.tls is not None:
            context = await asyncio.to_thread(server_context, self._settings.tls)
        for address, one in zip(self.addresses, self._sockets, strict=True):
            if not address.is_loopback and address.scheme == "http":
                log.warning("passwords are sent without encryption; use https", extra={"address": address.url})
            tls = context if address.scheme == "https" else None
            server = _Server(_config(app, tls, self._max_connections, self._websockets))
            task = asyncio.get_running_loop().create_task(server.serve([one]), name=f"HTTP on {address.url}")
            self._servers.append((server, task))
        for server, task in self._servers:
            await _until_started(server, task)

    async def stop(self) -> None:
        """Accept no more connections, let requests in flight finish (bounded), and close."""
        for server, _ in self._servers:
            server.exit()
        if self._servers:
            await asyncio.wait([task for _, task in self._servers], timeout=STOP_TIMEOUT_S + 2.0)
        for _, task in self._servers:
            task.cancel()
        self._servers = []
        self._close_sockets()

    def _close_sockets(self) -> None:
        for one in self._sockets:
            one.close()
        self._sockets = []


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process of the service has its own. It wakes up once per second only."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._exit = asyncio.Event()

    def exit(self) -> None:
        self.should_exit = True
        self._exit.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._exit.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _TimedProtocol(H11Protocol):
    """uvicorn's protocol, which also closes a connection that does not send the headers of a request in time."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unwatch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unwatch()  # from here uvicorn's own timer of idle connections counts

    def _watch(self) -> None:
        """Begin to wait when a request has begun or may begin, and end when its headers are complete."""
        if self.conn.their_state is not h11.IDLE:
            self._unwatch()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(HEADER_TIMEOUT_S, self._give_up)

    def _unwatch(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        log.info("connection closed: no request in time", extra={"client": self.client[0] if self.client else ""})
        self.transport.close()


def _is_news(record: logging.LogRecord) -> bool:
    """False for what uvicorn says of each WebSocket that is refused with an HTTP status, as it should be."""
    return "without completing handshake" not in str(record.msg)


def _config(app: Any, context: ssl.SSLContext | None, max_connections: int, websockets: bool) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=_TimedProtocol,
        ws="websockets-sansio" if websockets else "none",
        ws_max_size=MAX_WEBSOCKET_MESSAGE,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(KEEP_ALIVE_S),
        timeout_graceful_shutdown=int(STOP_TIMEOUT_S),
        limit_concurrency=max_connections,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        backlog=BACKLOG,
    )
    config.load()
    if websockets:
        event_logger("uvicorn.error").addFilter(_is_news)
    config.ssl = context
    return config


def _bind(address: HttpAddress) -> socket.socket:
    """A socket that is bound to the address. OSError has the address as its file name."""
    try:
        bound = _bound(address)
        # Connections inherit it. asyncio sets it only for sockets that name TCP as their protocol, which these do not:
        # the kernel would hold the body of each answer back until the client acknowledges its headers (40 ms).
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return bound
    except OSError as error:
        # A message with the address: `create_server` adds its own words to strerror.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else (error.strerror or str(error))
        raise OSError(error.errno, reason, address.url.partition("://")[2]) from None


def _bound(address: HttpAddress) -> socket.socket:
    if address.host in ALL_INTERFACES:
        if address.host != "0.0.0.0" and socket.has_dualstack_ipv6():
            return socket.create_server(("::", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", address.port))
    family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
    return socket.create_server((address.host, address.port), family=family)


async def _until_started(server: _Server, task: asyncio.Task[None]) -> None:
    while not server.started:  # uvicorn announces it by this attribute only
        if task.done():
            task.result()
            raise RuntimeError("the HTTP server ended while it started")
        await asyncio.sleep(0)


def banner_lines(service: str, addresses: Sequence[HttpAddress], try_path: str = "/") -> list[str]:
    """What a service prints when it serves: where, and a command to try."""
    url = next((one.url for one in addresses), "")
    return [
        f"Moldau {service} is ready on {', '.join(one.url for one in addresses)}",
        f"  try     curl {url}{try_path}",
    ]
