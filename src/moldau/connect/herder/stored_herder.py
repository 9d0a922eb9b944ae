"""Herder on stores: what distributed and standalone workers share.

A change is written to a store first; the worker acts when it reads the change back. One task (`_tend`) acts after every
change. On the leader it also removes the states of deleted connectors and stores how many tasks a connector has.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau import __version__
from moldau.client.errors import MoldauError, TimedOut
from moldau.connect.engine import ConnectorEngine, ConnectorProgress, Report, StatusReport
from moldau.connect.herder import (
    ActiveTopics,
    AlreadyExistsError,
    BadRequestError,
    ClusterInfo,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorOffsets,
    ConnectorStateInfo,
    ConnectorType,
    Created,
    Health,
    Herder,
    HerderError,
    LoggerLevel,
    NotFoundError,
    RebalancingError,
    RequestTimedOutError,
    State,
    TargetState,
    TaskId,
    TaskInfo,
    TaskStateInfo,
    ValidationResult,
    answers,
)
from moldau.connect.herder.connector_runner import ConnectorRunner, RunnerWorker
from moldau.connect.herder.offset_requests import NewOffsets, OffsetRequests
from moldau.connect.herder.plugin_facts import PluginFacts
from moldau.connect.herder.record_log import RecordLog, Records
from moldau.connect.herder.status_reports import wanted_task_count
from moldau.connect.herder.status_writer import StatusWriter
from moldau.connect.herder.task_configs import task_configs
from moldau.connect.herder.worker_loggers import WorkerLoggers
from moldau.connect.stores import config_store, status_store
from moldau.connect.stores.config_store import ConfigState, LoggerChanged, RestartRequest
from moldau.connect.stores.status_store import StatusState
from moldau.host.clock import Clock, SystemClock
from moldau.host.event_log import event_logger
from moldau.service.state_topic import StateRecord

log = event_logger(__name__)

RETRY_PAUSE_S: Final = 1.0
FLUSH_TIMEOUT_S: Final = 5.0
STOPPED_WAIT_S: Final = 10.0
"""How long a request to change offsets waits for the connector's last micro-batch to end."""
STOPPED_POLL_S: Final = 0.05
ONLY_LEADER: Final = "Only the leader can set connector configs."
COMMIT: Final = "unknown"
"""`GET /` shows the commit that Kafka was built from; Moldau has none to show."""

Validate = Callable[[Mapping[str, str | None]], Awaitable[ValidationResult]]


@dataclass(frozen=True)
class HerderParts:
    """What a herder needs beside its own settings."""

    engine: Callable[[Report], ConnectorEngine]
    """Creates the engine; the herder calls it when it starts."""
    validate: Validate
    plugins: PluginFacts = field(default_factory=PluginFacts)
    clock: Clock = field(default_factory=SystemClock)


class StoredHerder(Herder):
    """The part of a herder that works on the stores. Subclasses know who leads, who runs what, where the logs are."""

    def __init__(self, worker_id: str, parts: HerderParts, *, track_topics: bool) -> None:
        self.worker_id = worker_id
        self.configs = ConfigState()
        self.statuses = StatusState()
        self._track_topics = track_topics
        self._validate = parts.validate
        self._plugins = parts.plugins
        self._clock = parts.clock
        self._create_engine = parts.engine
        self._loggers = WorkerLoggers(parts.clock.now_ms)
        self._live = False
        self._changed = asyncio.Event()
        self._changing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: MoldauError | None = None
        self._cluster_id = ""
        # The subclass sets these before `_begin`.
        self._config_log: RecordLog
        self._status_log: RecordLog
        self._offsets: OffsetRequests

    # -- who leads, who runs what -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def leads(self) -> bool:
        """Whether this worker may write configurations now."""

    @abstractmethod
    async def _settled(self, *, owners: bool = False) -> None:
        """Wait until it is known who leads, with `owners` also who runs what. Bounded: raises RebalancingError."""

    @abstractmethod
    def _require_leader(self, message: str) -> None:
        """Raises NotLeaderError if another worker leads."""

    @abstractmethod
    def _require_owner(self, name: str, message: str) -> None:
        """Raises NotAssignedError if another worker runs the connector."""

    async def _prepare_write(self) -> None:
        """Become the only writer of the config topic, and know all of it. Raises RebalancingError."""

    async def _write_configs(self, entries: Records) -> None:
        """Write to the config topic, as the leader. A RebalancingError means that nothing was written."""
        await self._config_log.write_all(entries)

    # -- life ---------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Create the engine and start the tasks, after the stores were read."""
        self._engine = self._create_engine(self._report)
        version = self._plugins.version
        worker = RunnerWorker(self.worker_id, version, self._clock.now_ms, track_topics=self._track_topics)
        self._writer = StatusWriter(self._status_log)
        self._runner = ConnectorRunner(self._engine, self.configs, self.statuses, self._writer, worker)
        self._live = True
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._tend(), name="herder"),
            loop.create_task(self._writer.run(), name="status writer"),
        ]

    async def _end(self) -> None:
        """Stop the connectors and the tasks."""
        if not self._live:
            return
        self._live = False
        await self._runner.close()
        if not await self._writer.flush(FLUSH_TIMEOUT_S):
            log.warning("states of the stopped connectors were not stored")
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await asyncio.wrap_future(self._engine.close())

    @property
    def ready(self) -> bool:
        return self._live

    async def health(self) -> Health:
        if self._failure is not None:
            return Health("unhealthy", str(self._failure))
        if not self._live:
            return Health("starting", "Worker is still starting up.")
        return Health("healthy", "Worker has completed startup and is ready to handle requests.")

    async def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(__version__, COMMIT, self._cluster_id)

    def _store_failed(self, error: MoldauError) -> None:
        """A store can no longer be followed: what this worker knows is out of date, so it runs nothing more."""
        log.error("store failed, connectors stopped", extra={"reason": str(error)})
        self._failure = error
        if self._live:
            self._runner.abandon()

    # -- changes ------------------------------------------------------------------------------------------------------

    def _config_record(self, record: StateRecord) -> None:
        event = self.configs.apply(record)
        if event is None or not self._live:
            return  # requests from before this worker started (restart, log level) are void
        if isinstance(event, RestartRequest):
            self._runner.restart(event)
        elif isinstance(event, LoggerChanged):
            try:
                self._loggers.set(event.namespace, event.level)
            except HerderError as error:
                log.warning("log level ignored", extra={"logger": event.namespace, "reason": str(error)})
        else:
            self._changed.set()

    def _status_record(self, record: StateRecord) -> None:
        name = self.statuses.apply(record)
        if self._live and name is not None:
            self._runner.store_states(name)
            self._changed.set()

    def _report(self, report: StatusReport) -> None:
        if self._live:
            self._runner.report(report)

    async def _tend(self) -> None:
        """Act after each change, for as long as the worker lives."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._runner.follow()
                if self.leads:
                    await self._lead()
            except MoldauError as error:
                log.warning("change not followed, trying again", extra={"reason": str(error)})
                await asyncio.sleep(RETRY_PAUSE_S)
                self._changed.set()

    async def _lead(self) -> None:
        """The leader's duties: no states of deleted connectors, and the number of tasks that each connector has."""
        for name in self.statuses.names() - self.configs.connectors.keys():
            await self._status_log.write_all(self.statuses.removal_entries(name))
        for name, config in list(self.configs.connectors.items()):
            count = wanted_task_count(name, self.configs.target(name), self.statuses)
            if count is None:
                continue
            wanted = task_configs(config, self._plugins.full_class(config), count)
            if wanted != self.configs.task_configs(name):
                await self._write_configs(config_store.task_entries(name, wanted))

    async def _change(self, refusal: str, decide: Callable[[], Records]) -> None:
        """Write to the config topic for a request, as the leader.

        `decide` checks the request and returns the records. Requests follow one another: no other change comes between
        the check and the write. A rebalance in the midst of it is waited for once.
        """
        async with self._changing:
            for last in (False, True):
                await self._settled()
                self._require_leader(refusal)
                try:
                    await self._prepare_write()
                    await self._write_configs(decide())
                except RebalancingError:
                    if last:
                        raise
                except TimedOut as error:
                    raise RequestTimedOutError(
                        f"Request timed out. The config topic did not answer: {error}"
                    ) from error
                else:
                    return

    # -- connectors ---------------------------------------------------------------------------------------------------

    def _known(self, name: str, message: str) -> Mapping[str, str]:
        try:
            return self.configs.connectors[name]
        except KeyError:
            raise NotFoundError(message.format(name)) from None

    async def _existing(self, name: str, message: str) -> Mapping[str, str]:
        """The configuration of a connector. A connector that was created a moment ago on another worker is found."""
        if name not in self.configs.connectors:
            await self._config_log.read_to_end()
        return self._known(name, message)

    async def connectors(self) -> list[str]:
        return sorted(self.configs.connectors)

    async def connector_info(self, name: str) -> ConnectorInfo:
        await self._existing(name, "Connector {} not found")
        return answers.connector_info(name, self.configs, self.statuses, self._plugins)

    async def connector_config(self, name: str) -> dict[str, str]:
        return dict(await self._existing(name, "Connector {} not found"))

    async def create(
        self, name: str, config: Mapping[str, str], initial_state: TargetState | None = None
    ) -> ConnectorInfo:
        return (await self._store(name, config, initial_state, replace=False)).info

    async def put_config(self, name: str, config: Mapping[str, str]) -> Created:
        return await self._store(name, config, None, replace=True)

    async def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Created:
        await self._settled()
        self._require_leader(ONLY_LEADER)
        config = await self._existing(name, "Connector {} not found")
        return await self._store(name, answers.patched(config, patch), None, replace=True)

    async def _store(
        self, name: str, config: Mapping[str, str], initial_state: TargetState | None, *, replace: bool
    ) -> Created:
        await self._settled()
        self._require_leader(ONLY_LEADER)
        answers.require_valid(await self.validate(config))
        known = False

        def decide() -> Records:
            nonlocal known
            known = name in self.configs.connectors
            if known and not replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            return config_store.connector_entries(name, config, initial_state)

        await self._change(ONLY_LEADER, decide)
        return Created(not known, answers.connector_info(name, self.configs, self.statuses, self._plugins))

    async def delete(self, name: str) -> None:
        def decide() -> Records:
            self._known(name, "Connector {} not found")
            return config_store.removal_entries(name)

        await self._change("Only the leader can delete connector configs.", decide)

    async def validate(self, config: Mapping[str, str | None]) -> ValidationResult:
        return await self._validate(config)

    # -- states -------------------------------------------------------------------------------------------------------

    async def status(self, name: str) -> ConnectorStateInfo:
        return answers.state_info(name, self.configs, self.statuses, self._plugins)

    async def progress(self, name: str) -> ConnectorProgress | None:
        await self._existing(name, "Connector {} not found")
        self._require_owner(name, "The progress of a connector is known to the worker that runs it")
        report = self._engine.state(name)
        return None if report is None else report.progress

    async def pause(self, name: str) -> None:
        await self._set_target(name, TargetState.PAUSED)

    async def resume(self, name: str) -> None:
        await self._set_target(name, TargetState.STARTED)

    async def _set_target(self, name: str, target: TargetState) -> None:
        def decide() -> Records:
            self._known(name, "Unknown connector {}")
            return [config_store.target_state_entry(name, target)]

        await self._change("Only the leader can set the target state of connectors.", decide)

    async def stop(self, name: str) -> None:
        def decide() -> Records:
            self._known(name, "Unknown connector {}")
            stopped = config_store.target_state_entry(name, TargetState.STOPPED)
            return [*config_store.task_entries(name, []), stopped]

        await self._change("Only the leader can transition connectors to the STOPPED state.", decide)

    async def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStateInfo | None:
        await self._settled(owners=True)
        await self._existing(name, "Unknown connector: {}")
        request = RestartRequest(name, include_tasks, only_failed)
        if not include_tasks and not only_failed:
            self._require_owner(name, "Cannot restart connector since it is not assigned to this member")
            self._runner.restart(request)
            return None
        self._require_leader("Only the leader can process restart requests.")
        if name not in self.statuses.connectors:
            raise NotFoundError(f"Status for connector {name} not found")
        expected = answers.restart_plan(await self.status(name), request)
        await self._change(
            "Only the leader can process restart requests.", lambda: [config_store.restart_entry(request)]
        )
        return expected

    # -- tasks --------------------------------------------------------------------------------------------------------

    async def tasks(self, name: str) -> list[TaskInfo]:
        await self._existing(name, "Connector {} not found")
        return answers.task_infos(name, self.configs, self.statuses, self._plugins)

    async def task_status(self, task: TaskId) -> TaskStateInfo:
        return answers.task_state_info(task, self.statuses)

    async def restart_task(self, task: TaskId) -> None:
        await self._settled(owners=True)
        await self._existing(task.connector, "Unknown connector: {}")
        if not 0 <= task.task < len(await self.tasks(task.connector)):
            raise NotFoundError(f"Unknown task: {task}")
        self._require_owner(task.connector, "Cannot restart task since it is not assigned to this member")
        self._runner.restart(RestartRequest(task.connector, include_tasks=True))

    # -- topics -------------------------------------------------------------------------------------------------------

    async def active_topics(self, name: str) -> ActiveTopics:
        return ActiveTopics(name, sorted(self.statuses.topics(name)))

    async def reset_active_topics(self, name: str) -> None:
        keys = [status_store.topic_key(topic, name) for topic in self.statuses.topics(name)]
        await self._status_log.write_all([(key, None) for key in keys])

    # -- offsets ------------------------------------------------------------------------------------------------------

    async def offsets(self, name: str) -> ConnectorOffsets:
        config = await self._existing(name, "Connector {} not found")
        return await self._offsets.read(name, config, self._plugins.type(config))

    async def alter_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        config, kind = await self._stopped_connector(name)
        if not offsets:
            raise BadRequestError("The offsets to be altered may not be null or empty")
        problem = self._plugins.offset_problem(config, offsets)
        if problem is not None:
            raise BadRequestError(problem)
        return await self._offsets.alter(name, config, kind, offsets, self._change_offsets)

    async def reset_offsets(self, name: str) -> str:
        config, kind = await self._stopped_connector(name)
        return await self._offsets.reset(name, config, kind, self._change_offsets)

    async def _change_offsets(self, name: str, config: Mapping[str, str], offsets: NewOffsets | None) -> None:
        await asyncio.wrap_future(self._engine.change_offsets(name, config, offsets))

    async def _stopped_connector(self, name: str) -> tuple[Mapping[str, str], ConnectorType]:
        """A connector whose offsets may be changed now: it is STOPPED, and its last micro-batch has ended."""
        await self._settled()
        self._require_leader("Only the leader can process external offsets modification requests")
        config = await self._existing(name, "Connector {} not found")
        if self.configs.target(name) is not TargetState.STOPPED:
            raise BadRequestError(
                "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for "
                f"the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
            )
        if not await self._reached_stopped(name):
            raise RequestTimedOutError(
                f"Request timed out. Connector {name} has not finished its current work; try again, or see its status"
            )
        return config, self._plugins.type(config)

    async def _reached_stopped(self, name: str) -> bool:
        """Wait until the worker of a connector reports that it is STOPPED. Without any state it has never run."""
        deadline = asyncio.get_running_loop().time() + STOPPED_WAIT_S
        while True:
            status = self.statuses.connectors.get(name)
            if status is None or status.state is State.STOPPED:
                return True
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(STOPPED_POLL_S)

    # -- loggers ------------------------------------------------------------------------------------------------------

    async def loggers(self) -> dict[str, LoggerLevel]:
        return self._loggers.levels()

    async def logger(self, name: str) -> LoggerLevel:
        return self._loggers.level(name)

    async def set_logger(self, name: str, level: str) -> list[str]:
        return self._loggers.set(name, level)

    async def set_cluster_logger(self, name: str, level: str) -> None:
        entry = config_store.logger_entry(name, level.upper())
        await self._change("Only the leader can set log levels of all workers.", lambda: [entry])
