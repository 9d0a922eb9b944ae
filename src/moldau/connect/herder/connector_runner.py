"""Connectors of this worker: starts and stops them on the engine, and stores the states that the engine reports.

`follow` makes the engine run exactly the assigned connectors, with their stored configurations. It may be called again
at any time: what runs already as it should is left alone. `abandon` is for a worker that has lost its membership: it
stops everything at once, waits for nothing and stores nothing.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from moldau.connect.engine import ConnectorEngine, ConnectorState, FailedPart, StatusReport
from moldau.connect.herder import status_reports
from moldau.connect.herder.connector_plan import WantedConnector, plan, wanted_connectors
from moldau.connect.herder.status_reports import ReportedStates, ReportingWorker
from moldau.connect.herder.status_writer import StatusWriter
from moldau.connect.states import TargetState
from moldau.connect.stores import status_store
from moldau.connect.stores.config_store import ConfigState, RestartRequest
from moldau.connect.stores.status_store import StatusState, TopicUse
from moldau.host.event_log import event_logger

log = event_logger(__name__)

STOP_TIMEOUT_S: Final = 30.0
"""How long a connector may take to stop before its successor starts without waiting. The engine's fencing then keeps
the old one from committing anything."""

_TARGETS: Final = {
    TargetState.STARTED: ConnectorState.RUNNING,
    TargetState.PAUSED: ConnectorState.PAUSED,
    TargetState.STOPPED: ConnectorState.STOPPED,
}


@dataclass(frozen=True)
class RunnerWorker:
    """What the runner has to know of its worker."""

    worker_id: str
    version_of: Callable[[Mapping[str, str]], str | None]
    """The version of the connector's class."""
    now_ms: Callable[[], int]
    track_topics: bool = True


class ConnectorRunner:
    """The connectors of one worker. Used from the worker's loop."""

    def __init__(
        self,
        engine: ConnectorEngine,
        configs: ConfigState,
        statuses: StatusState,
        writer: StatusWriter,
        worker: RunnerWorker,
    ) -> None:
        self._engine = engine
        self._configs = configs
        self._statuses = statuses
        self._writer = writer
        self._worker = worker
        self.generation = 0
        self.assigned: frozenset[str] = frozenset()
        self.running: dict[str, WantedConnector] = {}
        self._states: dict[str, ReportedStates] = {}
        self._batches: dict[str, int] = {}
        self._stopping: dict[str, asyncio.Future[None]] = {}
        self._acting = asyncio.Lock()
        self._lives = 0

    # -- acting -------------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Run what is assigned and stored, and nothing else."""
        async with self._acting:
            life = self._lives
            wanted = wanted_connectors(self._configs, self.assigned)
            todo = plan(self.running, wanted)
            for name in todo.stop:
                self._stop(name)
            await self._until_stopped([*todo.stop, *todo.start])
            if life != self._lives:
                return  # abandoned while it waited: the assignment of that time is void
            for name in todo.start:
                self._start(name, wanted[name])
            for name in todo.retarget:
                self._retarget(name, wanted[name])

    def abandon(self) -> None:
        """Stop all connectors at once. Other workers may run them already: nothing more is stored for them."""
        self._lives += 1
        self.assigned = frozenset()
        self._writer.drop()
        for name in list(self.running):
            self._forget(name)

    def restart(self, request: RestartRequest) -> None:
        """Restart a connector that runs here; others are left to their workers."""
        if request.name not in self.running:
            return
        if not request.only_failed:
            worker = self._reporting(request.name)
            self._states[request.name] = status_reports.restarting(request.name, self._statuses, worker)
            self.store_states(request.name)
        self._engine.restart(request.name, only_failed=request.only_failed)

    async def close(self) -> None:
        """Stop all connectors, in order: their states become UNASSIGNED."""
        self.assigned = frozenset()
        await self.follow()

    def _start(self, name: str, wanted: WantedConnector) -> None:
        self.running[name] = wanted
        self._batches[name] = 0
        try:
            self._engine.start(name, wanted.config, _TARGETS[wanted.target])
        except Exception:  # noqa: BLE001 - a connector that cannot be started must not keep the others from it
            trace = traceback.format_exc()
            self.report(StatusReport(name, ConnectorState.FAILED, trace=trace, failed=FailedPart.CONNECTOR))

    def _retarget(self, name: str, wanted: WantedConnector) -> None:
        self.running[name] = wanted
        if wanted.target is TargetState.STARTED:
            self._engine.resume(name)
        elif wanted.target is TargetState.PAUSED:
            self._engine.pause(name)
        else:
            self._engine.suspend(name)

    def _stop(self, name: str) -> None:
        worker = self._reporting(name)
        self._forget(name)
        if name in self._configs.connectors:
            gone = status_reports.assigned_nowhere(name, self._statuses, worker)
            self._writer.put(status_reports.status_entries(name, gone, self._statuses))

    def _forget(self, name: str) -> None:
        del self.running[name]
        self._states.pop(name, None)
        self._batches.pop(name, None)
        self._stopping[name] = asyncio.wrap_future(self._engine.stop(name))

    async def _until_stopped(self, names: Iterable[str]) -> None:
        pending = {name: self._stopping[name] for name in names if name in self._stopping}
        if not pending:
            return
        await asyncio.wait(pending.values(), timeout=STOP_TIMEOUT_S)
        for name, stopped in pending.items():
            if not stopped.done():
                log.warning("connector did not stop in time", extra={"connector": name, "waited_s": STOP_TIMEOUT_S})
            elif stopped.exception() is not None:
                log.warning("connector failed to stop", extra={"connector": name, "reason": str(stopped.exception())})
            if self._stopping.get(name) is stopped:
                del self._stopping[name]

    # -- states -------------------------------------------------------------------------------------------------------

    def report(self, report: StatusReport) -> None:
        """Take a report of the engine. Reports of connectors that no longer run here come too late."""
        if report.name not in self.running:
            return
        states = status_reports.reported_states(report, self._reporting(report.name))
        self._states[report.name] = states
        self.store_states(report.name)
        self._store_topics(report)

    def store_states(self, name: str) -> None:
        """Store the reported states of a connector where the topic says something else."""
        if name in self._states and name in self.running:
            self._writer.put(status_reports.status_entries(name, self._states[name], self._statuses))

    def _store_topics(self, report: StatusReport) -> None:
        # Only a batch since the last report means that the topics were used again, after they had been reset.
        batches = report.progress.batches
        worked = batches > self._batches[report.name]
        self._batches[report.name] = batches
        if not worked or not self._worker.track_topics:
            return
        known = self._statuses.topics(report.name)
        now = self._worker.now_ms()
        new = [TopicUse(topic, report.name, 0, now) for topic in sorted(report.progress.topics) if topic not in known]
        self._writer.put(map(status_store.topic_entry, new))

    def _reporting(self, name: str) -> ReportingWorker:
        version = self._worker.version_of(self.running[name].config)
        return ReportingWorker(self._worker.worker_id, self.generation, version)
