"""Process of an SQL server: REST API, catalogue, leadership and queries, put together.

The REST API answers from the start; before the catalogue is read, with 503. At the end the REST API stops first, then
the queries, then the server leaves its group, so that another one can begin at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from moldau.aio import Admin
from moldau.host.event_log import event_logger
from moldau.host.threads import Threads
from moldau.service.app import service_app
from moldau.service.forwarding import Forwarder
from moldau.service.http_settings import HttpAddress
from moldau.service.metrics import HttpMetrics
from moldau.service.server import HttpServer
from moldau.spark.session_holder import SessionHolder
from moldau.sql.catalogue import Catalogue
from moldau.sql.index.pull_queries import PullQueries
from moldau.sql.server.query_manager import ManagerSettings, QueryManager
from moldau.sql.server.query_metrics import QueryMetrics
from moldau.sql.server.rest.errors import sql_error_body
from moldau.sql.server.rest.routes import RestContext, routes
from moldau.sql.server.server_group import ServerGroup
from moldau.sql.server.server_session import server_session
from moldau.sql.server.server_settings import ServerSettings
from moldau.sql.server.state_directory import StateDirectory
from moldau.sql.server.statement_runner import StatementRunner

log = event_logger(__name__)

OK: Final = 0
THREADS: Final = 8
THREADS_TIMEOUT_S: Final = 2.0
CLUSTER_TIMEOUT_S: Final = 30.0

Ready = Callable[[Sequence[HttpAddress]], None]


class SqlServer:
    """One server. `run` returns when `stop` is set, or raises what ended it."""

    def __init__(self, settings: ServerSettings, holder: SessionHolder | None = None) -> None:
        """`holder`: the Spark session to use; without it the server starts one of its own."""
        self._settings = settings
        self._metrics = HttpMetrics("sql")
        self._threads = Threads(THREADS)
        self._holder = holder or server_session(settings.spark)
        self._state = StateDirectory(settings.values["state.dir"])
        self._indexes = PullQueries(lambda: self._holder.session()[0], settings.client, str(self._state.path))
        self._manager: QueryManager | None = None
        self._leadership: ServerGroup | None = None
        self._catalogue = Catalogue(settings.client, on_change=self._catalogue_changed)

    async def run(self, stop: asyncio.Event, ready: Ready = lambda addresses: None) -> int:
        """Run until `stop` is set. OSError: an address is in use; MoldauError: the brokers, or the state directory."""
        server = HttpServer(self._settings.http)
        server.bind()
        forwarder = Forwarder(self._settings.http.tls, max_hops=2)
        runner = StatementRunner(self._settings, self._catalogue, self._holder, self._indexes)
        context = RestContext(self._settings, runner, forwarder, self._catalogue, self._threads)
        try:
            app = service_app(
                routes(context), self._settings.http, metrics=self._metrics, error_body=sql_error_body, health=None
            )
            await server.start(app)
            if await _unless(stop, self._start(context, server.addresses)):
                ready(server.addresses)
                log.info("server started", extra={"address": ",".join(one.url for one in server.addresses)})
                await stop.wait()
        finally:
            context.closing()
            await server.stop()
            await forwarder.close()
            await self._close()
        return OK

    async def _start(self, context: RestContext, addresses: Sequence[HttpAddress]) -> None:
        settings = self._settings
        async with Admin(settings.client) as admin:
            cluster_id = (await admin.describe_cluster(timeout=CLUSTER_TIMEOUT_S)).cluster_id or ""
        await self._threads.run("disk", self._state.claim, cluster_id)
        await self._threads.run("catalogue", self._catalogue.open)
        url = settings.advertised(addresses)
        values = settings.values
        self._leadership = ServerGroup(
            settings.client,
            values["service.id"],
            url,
            session_timeout_ms=values["session.timeout.ms"],
            heartbeat_interval_ms=values["heartbeat.interval.ms"],
            rebalance_timeout_ms=values["rebalance.timeout.ms"],
            on_change=self._wake,
        )
        report_every_s = values["moldau.sql.report.interval.ms"] / 1_000
        named = ManagerSettings(url, values["service.id"], settings.client, settings.restarts, report_every_s)
        manager = QueryManager(
            named, self._catalogue, self._leadership, self._holder, self._state, self._threads, self._indexes
        )
        self._manager = manager
        self._metrics.registry.register(QueryMetrics(manager))
        context.begin(manager, self._leadership)
        manager.start()
        await self._leadership.start()

    def _wake(self) -> None:
        if self._manager is not None:
            self._manager.wake()

    def _catalogue_changed(self) -> None:
        """Called in a thread of the catalogue."""
        if self._manager is not None:
            self._manager.wake_from_thread()

    async def _close(self) -> None:
        if self._manager is not None:
            await self._manager.close()
        if self._leadership is not None:
            await self._leadership.stop()
        try:
            async with asyncio.timeout(THREADS_TIMEOUT_S * 5):
                await self._threads.run("catalogue", self._catalogue.close)
                await self._threads.run("spark", self._holder.close)
            async with asyncio.timeout(THREADS_TIMEOUT_S):
                await self._threads.close()
        except TimeoutError:
            log.warning("Spark or the brokers did not answer at the end")
            self._holder.kill()


async def _unless(stop: asyncio.Event, work: Awaitable[None]) -> bool:
    """Wait for the work, or for `stop`, which cancels it. Returns whether the work is done; raises its error."""
    doing = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if not doing.done():
            doing.cancel()
    if not doing.done():
        await asyncio.wait([doing])
        return False
    doing.result()
    return True
