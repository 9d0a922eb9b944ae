"""Process of a REST proxy: its sessions, endpoints and HTTP server, put together.

The proxy answers when it has reached the brokers once. At the end it ends what has no end of its own (followers,
streams), then the HTTP server, then the consumers, which leave their groups, then the clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from moldau.host.event_log import event_logger
from moldau.host.syscalls import raise_descriptor_limit
from moldau.rest.endpoints import reads_itself
from moldau.rest.errors import ProxyError
from moldau.rest.follow.followers import Followers
from moldau.rest.follow.server_sent_events import ServerSentEvents
from moldau.rest.follow.websocket import socket_route
from moldau.rest.rest_settings import RestSettings
from moldau.rest.routes import routes, v2_endpoints, v3_endpoints
from moldau.rest.schema_formats import SchemaFormats
from moldau.rest.sessions import Sessions
from moldau.rest.v2.consumer_instances import ConsumerInstances
from moldau.service.app import service_app
from moldau.service.errors import plain_error_body
from moldau.service.http_settings import HttpAddress
from moldau.service.metrics import HttpMetrics
from moldau.service.server import HttpServer

log = event_logger(__name__)

OK: Final = 0
Ready = Callable[[Sequence[HttpAddress]], None]


class RestProxy:
    """One proxy. `run` returns when `stop` is set, or raises what ended it."""

    def __init__(self, settings: RestSettings) -> None:
        self._settings = settings
        self._metrics = HttpMetrics("rest")
        self._sessions = Sessions(settings)
        self._schemas = SchemaFormats(settings.registry) if settings.registry else None
        self.consumers = ConsumerInstances(settings)
        self.followers = Followers(settings, self._schemas)
        self._server = HttpServer(
            settings.http, max_connections=settings.values["moldau.rest.max.connections"], websockets=True
        )

    @property
    def addresses(self) -> tuple[HttpAddress, ...]:
        return self._server.addresses

    async def run(self, stop: asyncio.Event, ready: Ready = lambda addresses: None) -> int:
        """Run until `stop` is set. OSError: an address is in use; MoldauError: the brokers."""
        raise_descriptor_limit()  # a follower is a connection
        await self.start()
        try:
            ready(self._server.addresses)
            await stop.wait()
        finally:
            await self.stop()
        return OK

    async def start(self) -> None:
        self._server.bind()
        try:
            await self._server.start(self._app())
            self._sessions.start()
            self.consumers.start()
            if not self._settings.logs_in_users:
                async with self._sessions.lease(None):
                    pass
        except BaseException:
            await self.stop()
            raise
        log.info("proxy started", extra={"address": ",".join(one.url for one in self._server.addresses)})

    async def stop(self) -> None:
        await self.followers.close()
        await self._server.stop()
        await self.consumers.close()
        await self._sessions.close()
        if self._schemas is not None:
            await self._schemas.close()

    def _app(self) -> Any:
        endpoints = [
            *v3_endpoints(self._settings, self._schemas),
            *v2_endpoints(self.consumers, self._schemas),
            *ServerSentEvents(self.followers).endpoints(),
        ]
        socket = socket_route(self._sessions, self.followers, self._schemas)
        return service_app(
            [*routes(endpoints, self._sessions), socket],
            self._settings.http,
            metrics=self._metrics,
            error_body=plain_error_body,
            health=lambda: None,
            exception_handlers={ProxyError: _error_answer},
            streams=reads_itself(endpoints),
            websockets=True,
        )


def _error_answer(_: Request, error: Any) -> Response:
    return JSONResponse(error.body, error.status, error.headers)
