"""Worker process of Connect: REST API, herder and engine, put together.

The REST API answers from the start; before the herder has read its topics, with 503, as Kafka Connect. At the end the
REST API stops first, then the connectors, then the worker leaves its group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from moldau.connect.config_def import ConfigError
from moldau.connect.config_validator import ConfigValidator
from moldau.connect.engine import ConnectorEngine, Report, StatusReport
from moldau.connect.engine.engine import Engine
from moldau.connect.herder import Herder, HerderError
from moldau.connect.herder.distributed_herder import DistributedHerder
from moldau.connect.herder.standalone_herder import StandaloneHerder
from moldau.connect.herder.stored_herder import HerderParts
from moldau.connect.rest.dispatch import MAX_HOPS, rest_error_body
from moldau.connect.rest.routes import routes
from moldau.connect.worker_metrics import ConnectorMetrics
from moldau.connect.worker_settings import WorkerSettings
from moldau.host.event_log import event_logger
from moldau.host.threads import Threads
from moldau.service.app import service_app
from moldau.service.forwarding import Forwarder
from moldau.service.http_settings import HttpAddress
from moldau.service.metrics import HttpMetrics
from moldau.service.server import HttpServer

log = event_logger(__name__)

NAME: Final = "name"
OK: Final = 0
THREADS_TIMEOUT_S: Final = 2.0

Ready = Callable[[Sequence[HttpAddress]], None]


class ConnectWorker:
    """One worker. `run` returns when `stop` is set, or raises what ended it."""

    def __init__(self, settings: WorkerSettings, standalone: Sequence[Mapping[str, str]] | None = None) -> None:
        """`standalone`: the configurations of the connectors of a worker without a group."""
        self._settings = settings
        self._standalone = standalone
        self._metrics = HttpMetrics("connect")
        self._connectors = ConnectorMetrics()
        self._metrics.registry.register(self._connectors)
        self._threads = Threads()

    async def run(self, stop: asyncio.Event, ready: Ready = lambda addresses: None) -> int:
        """Run until `stop` is set. OSError: an address is in use; MoldauError: the brokers, or a configuration."""
        server = HttpServer(self._settings.http)
        server.bind()
        forwarder = Forwarder(self._settings.http.tls, max_hops=MAX_HOPS)
        herder: Herder | None = None
        try:
            herder = self._herder(server.addresses)
            await server.start(self._app(herder, forwarder))
            if await _unless(stop, self._start(herder)):
                ready(server.addresses)
                log.info("worker started", extra={"address": ",".join(one.url for one in server.addresses)})
                await stop.wait()
        finally:
            await server.stop()
            await forwarder.close()
            if herder is not None:
                await herder.close()
            await self._close_threads()
        return OK

    async def _close_threads(self) -> None:
        """Wait for validations that run, but not for one that hangs in a database."""
        try:
            async with asyncio.timeout(THREADS_TIMEOUT_S):
                await self._threads.close()
        except TimeoutError:
            log.warning("a validation did not end")

    async def _start(self, herder: Herder) -> None:
        await herder.start()
        for config in self._standalone or ():
            name = config.get(NAME, "")
            try:
                await herder.put_config(name, config)
            except HerderError as error:
                raise ConfigError(f"connector {name!r}: {error}") from error

    def _app(self, herder: Herder, forwarder: Forwarder) -> Any:
        values = self._settings.values
        endpoints = routes(
            herder,
            forwarder,
            topic_tracking=values["topic.tracking.enable"],
            topic_reset=values["topic.tracking.allow.reset"],
        )
        return service_app(endpoints, self._settings.http, metrics=self._metrics, error_body=rest_error_body)

    def _herder(self, addresses: Sequence[HttpAddress]) -> Herder:
        settings = self._settings
        validator = ConfigValidator(self._threads, settings.providers.resolve, settings.rules)
        parts = HerderParts(self._engine, validator)
        if self._standalone is None:
            return DistributedHerder(settings.distributed(addresses), parts)
        return StandaloneHerder(
            settings.advertised(addresses).url.partition("://")[2],
            settings.client,
            parts,
            offset_topic=settings.storage("offset"),
            track_topics=settings.values["topic.tracking.enable"],
        )

    def _engine(self, report: Report) -> ConnectorEngine:
        def both(status: StatusReport) -> None:
            self._connectors.note(status)
            report(status)

        settings = self._settings
        engine = Engine(settings.engine, settings.spark, both, resolve=settings.providers.resolve)
        self._connectors.watch(engine)
        return engine


async def _unless(stop: asyncio.Event, work: Awaitable[None]) -> bool:
    """Wait for the work, or for `stop`, which cancels it. Returns whether the work is done; raises its error."""
    doing = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        doing.cancel()
    if not doing.done():
        await asyncio.wait([doing])
        return False
    doing.result()
    return True
