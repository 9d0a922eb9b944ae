"""Manager of the continuous queries of one server: follows catalogue and leadership, and acts on the decisions.

Everything here runs on the event loop and owns the state of `supervision.py`. What waits for Spark, brokers or disks
runs in threads, and comes back as an event. A JVM that does not answer is killed: its queries start again in a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from moldau.client.errors import MoldauError
from moldau.host.clock import SystemClock, SystemRandomness
from moldau.host.event_log import event_logger
from moldau.host.threads import Threads
from moldau.spark.session_holder import SessionHolder
from moldau.sql.catalogue import Catalogue
from moldau.sql.index.pull_queries import PullQueries
from moldau.sql.queries import QueryDefinition, QueryState, QueryStatus
from moldau.sql.server.progress_meter import QueryMeter
from moldau.sql.server.runs import QueryRuns
from moldau.sql.server.server_group import ServerGroup
from moldau.sql.server.setting_table import DEFAULT_SERVICE
from moldau.sql.server.state_directory import StateDirectory, is_safe_id
from moldau.sql.server.supervision import QuerySupervision, RemoveQuery, RestartRules, StartQuery, StopQuery

log = event_logger(__name__)

LOOK_EVERY_S: Final = 0.5
"""How often leadership is looked at, if nothing happens: its end by the clock is no event."""
POLL_EVERY_S: Final = 1.0
ANSWER_S: Final = 60.0
"""A JVM that has not answered for this long is killed."""
STOP_GRACE_S: Final = 10.0
"""A server that no longer leads kills the JVM if its queries have not stopped in this time."""
CLOSE_S: Final = 20.0
"""How long queries may take to stop when the server stops."""
RETRY_S: Final = 1.0

SERVICE_SETTING: Final = "service.id"
CATALOGUE_LANE: Final = "catalogue"
PROGRESS_LANE: Final = "progress"
INDEX_LANE: Final = "index"


@dataclass(frozen=True)
class ManagerSettings:
    """What the manager has to know."""

    url: str
    service_id: str
    client: dict[str, str]
    restarts: RestartRules
    report_every_s: float


class QueryManager:
    """The queries of one server. See the module."""

    def __init__(
        self,
        settings: ManagerSettings,
        catalogue: Catalogue,
        leadership: ServerGroup,
        holder: SessionHolder,
        state: StateDirectory,
        threads: Threads,
        indexes: PullQueries,
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._leadership = leadership
        self._threads = threads
        self._clock = SystemClock()
        self._randomness = SystemRandomness()
        self._loop = asyncio.get_running_loop()
        self._supervision = QuerySupervision(settings.restarts)
        self._runs = QueryRuns(holder, state, settings.client, self, lambda: self._leading, indexes)
        self._meters: dict[str, QueryMeter] = {}
        self._reported: dict[str, QueryStatus] = {}
        self._gone: set[str] = set()
        self._leading = False
        self._closing = False
        self._lost_at: float | None = None
        self._closing_indexes: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._report_now = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        for work, name in ((self._supervise(), "supervision"), (self._poll(), "progress"), (self._report(), "reports")):
            self._tasks.append(self._loop.create_task(work, name=f"{name} of queries"))

    async def close(self) -> None:
        """Stop all queries, and wait for that. The checkpoints stay."""
        self._closing = True
        self.wake()
        deadline = self._clock.monotonic() + CLOSE_S
        while self._runs.live and self._clock.monotonic() < deadline:  # noqa: ASYNC110 - threads announce it one by one
            await asyncio.sleep(0.05)
        for task in self._tasks:
            task.cancel()
        ending = [*self._tasks, *([self._closing_indexes] if self._closing_indexes else [])]
        await asyncio.gather(*ending, return_exceptions=True)

    def wake(self) -> None:
        """Something has changed: decide again. Called in the loop."""
        self._changed.set()

    def wake_from_thread(self) -> None:
        self._post(self.wake)

    @property
    def leading(self) -> bool:
        """Whether this server leads, has read the catalogue, and runs the queries."""
        return self._leading

    def statuses(self) -> list[QueryStatus]:
        """The queries of this server as they are now; empty if it does not lead."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        if not self._leading:
            return []
        return [
            self._status(entry.definition, now, now_ms)
            for entry in self._supervision.entries.values()
            if entry.definition.id not in self._gone
        ]

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        while True:
            try:
                await self._step()
            except MoldauError as error:
                log.warning("queries not looked at", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception("supervision failed")  # a bug: the queries must not be left alone because of it
                await asyncio.sleep(RETRY_S)
            pause = min(self._supervision.due() - self._clock.monotonic(), LOOK_EVERY_S)
            try:
                async with asyncio.timeout(max(pause, 0.0)):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()

    async def _step(self) -> None:
        if self._may_lead and not self._leading:
            await self._begin_leading()
        leads = self._may_lead and self._leading
        if self._leading and not leads:
            log.warning("this server no longer runs the queries")
            self._leading = False
            self._reported, self._gone = {}, set()
            self._closing_indexes = self._loop.create_task(self._threads.run(INDEX_LANE, self._runs.close_indexes))
        self._supervision.lead(leads)
        self._supervision.want(self._own_queries(), self._catalogue.statuses)
        for action in self._supervision.actions(self._clock.monotonic()):
            self._act(action)
        self._end_late_runs(leads)

    @property
    def _may_lead(self) -> bool:
        return self._leadership.leads and not self._closing

    async def _begin_leading(self) -> None:
        """Read what an earlier leader and the users have written, and clear away what belongs to nobody."""
        found = await self._threads.run(CATALOGUE_LANE, self._runs.found_state)
        await self._threads.run(CATALOGUE_LANE, self._catalogue.refresh)
        if not self._may_lead:
            return
        self._leading = True
        log.info("this server runs the queries", extra={"queries": len(self._own_queries())})
        self._runs.warm_up()
        damaged = any(key.startswith("query-") for key in self._catalogue.damaged)
        orphans = found - {definition.id for definition in self._catalogue.queries.values()}
        if orphans and not damaged:
            await self._threads.run(CATALOGUE_LANE, self._runs.clear_away, orphans)
        stale = self._catalogue.stale_statuses
        if stale and self._may_lead:
            await self._threads.run(CATALOGUE_LANE, self._catalogue.report, [], stale)

    def _own_queries(self) -> list[QueryDefinition]:
        return [
            definition
            for definition in self._catalogue.queries.values()
            if is_safe_id(definition.id)
            and definition.settings.get(SERVICE_SETTING, DEFAULT_SERVICE) == self._settings.service_id
        ]

    def _act(self, action: StartQuery | StopQuery | RemoveQuery) -> None:
        definition = action.definition
        if isinstance(action, StartQuery):
            meter = self._meters.get(definition.id)
            if meter is None:
                last = self._catalogue.statuses.get(definition.name)
                self._meters[definition.id] = QueryMeter(last)
            else:
                meter.restarted()
            self._runs.start(definition, action.run)
        elif isinstance(action, StopQuery):
            self._runs.stop(definition.id, action.run)
        else:
            self._gone.add(definition.id)
            self._runs.remove(definition)
        self._report_now.set()

    def _end_late_runs(self, leads: bool) -> None:
        now = self._clock.monotonic()
        if leads or not self._runs.live:
            self._lost_at = None
        elif self._lost_at is None:
            self._lost_at = now
        elif now - self._lost_at >= STOP_GRACE_S:
            self._lost_at = now
            self._runs.kill_session()

    # -- reports of runs, from their threads ---------------------------------------------------------------------------

    def run_started(self, query: str, run: int) -> None:
        self._post(lambda: self._supervision.started(query, run, self._clock.monotonic()), self._told)

    def run_ended(self, query: str, run: int, trace: str | None, died: bool) -> None:
        def ended() -> None:
            now, chance = self._clock.monotonic(), self._randomness.random()
            self._supervision.ended(query, run, now, trace, died=died, chance=chance)

        self._post(ended, self._told)

    def query_removed(self, query: str) -> None:
        def removed() -> None:
            self._supervision.removed(query)
            self._meters.pop(query, None)
            self._gone.discard(query)

        self._post(removed, self._told)

    def _told(self) -> None:
        self._changed.set()
        self._report_now.set()

    def _post(self, *calls: Callable[[], None]) -> None:
        for call in calls:
            try:
                self._loop.call_soon_threadsafe(call)
            except RuntimeError:
                return  # the loop is closed: nobody is left to tell

    # -- progress and status -------------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_EVERY_S)
            if not self._runs.live:
                continue
            polling = asyncio.ensure_future(self._threads.run(PROGRESS_LANE, self._runs.poll))
            try:
                while not (await asyncio.wait([polling], timeout=ANSWER_S))[0]:
                    log.error("Spark does not answer", extra={"after_s": ANSWER_S})
                    self._runs.kill_session()
                found = polling.result()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next poll is a second later
                log.warning("progress not read", extra={"reason": repr(error)})
                continue
            now = self._clock.monotonic()
            for (query, run), reports in found.items():
                meter = self._meters.get(query)
                if meter is not None and meter.add(reports, now):
                    self._supervision.progressed(query, run)

    async def _report(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings.report_every_s):
                    await self._report_now.wait()
            except TimeoutError:
                pass
            self._report_now.clear()
            if self._leading:
                await self._report_changes()

    async def _report_changes(self) -> None:
        statuses = {status.id: status for status in self.statuses()}
        changed = [
            status
            for status in statuses.values()
            if (last := self._reported.get(status.id)) is None
            or replace(status, reported_ms=0) != replace(last, reported_ms=0)
        ]
        names = {status.name.lower() for status in statuses.values()}
        gone = [one for one in self._reported.values() if one.id not in statuses and one.name.lower() not in names]
        if not changed and not gone:
            return
        try:
            await self._threads.run(CATALOGUE_LANE, self._catalogue.report, changed, [one.name for one in gone])
        except MoldauError as error:
            log.warning("statuses not reported", extra={"reason": str(error)})
            return
        self._reported = statuses

    def _status(self, definition: QueryDefinition, now: float, now_ms: int) -> QueryStatus:
        entry = self._supervision.entries[definition.id]
        meter = self._meters.get(definition.id) or QueryMeter(self._catalogue.statuses.get(definition.name))
        running = entry.state is QueryState.RUNNING
        return QueryStatus(
            definition.name,
            definition.id,
            entry.state,
            self._settings.url,
            None if running else entry.trace,
            meter.rows,
            meter.rate(now) if running else 0.0,
            meter.lag,
            dict(meter.dropped),
            entry.restarts,
            now_ms,
            entry.definition.resumes,
        )
