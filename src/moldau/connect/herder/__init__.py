"""Herder interface: everything that the REST API asks of a worker.

Two classes implement it: `DistributedHerder` (workers of a group, configurations in topics) and `StandaloneHerder` (one
worker, configurations in files). All methods are coroutines of the worker's loop and raise the errors of
`herder/errors.py`. A method that only the leader, or only the worker that runs the connector, can answer raises
`NotLeaderError` or `NotAssignedError` with that worker's URL: the REST server forwards the request there.

Plugins are not the herder's: see `connect/plugins.py`. Validation is `connect/validation.py`; the herder calls it
before it stores a configuration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from moldau.connect.engine import ConnectorProgress
from moldau.connect.herder.errors import (
    AlreadyExistsError,
    BadConfigError,
    BadRequestError,
    HerderError,
    NotAssignedError,
    NotFoundError,
    NotLeaderError,
    OtherWorkerError,
    RebalancingError,
    RequestTimedOutError,
)
from moldau.connect.herder.results import (
    ActiveTopics,
    ClusterInfo,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorOffsets,
    ConnectorStateInfo,
    ConnectorType,
    Created,
    Health,
    LoggerLevel,
    State,
    StateInfo,
    TargetState,
    TaskId,
    TaskInfo,
    TaskStateInfo,
    ValidationResult,
)

__all__ = [
    "ActiveTopics",
    "AlreadyExistsError",
    "BadConfigError",
    "BadRequestError",
    "ClusterInfo",
    "ConnectorInfo",
    "ConnectorOffset",
    "ConnectorOffsets",
    "ConnectorStateInfo",
    "ConnectorType",
    "Created",
    "Health",
    "Herder",
    "HerderError",
    "LoggerLevel",
    "NotAssignedError",
    "NotFoundError",
    "NotLeaderError",
    "OtherWorkerError",
    "RebalancingError",
    "RequestTimedOutError",
    "State",
    "StateInfo",
    "TargetState",
    "TaskId",
    "TaskInfo",
    "TaskStateInfo",
    "ValidationResult",
]


class Herder(ABC):
    """What the REST API calls. `start` and `close` are called by the worker process."""

    # -- life ---------------------------------------------------------------------------------------------------------

    @abstractmethod
    async def start(self) -> None:
        """Read the stored state and begin to run connectors. Returns when requests can be answered."""

    @abstractmethod
    async def close(self) -> None:
        """Stop all connectors of this worker and leave the group."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether `start` has finished: before, Kafka Connect answers most requests with 503."""

    @abstractmethod
    async def health(self) -> Health:
        """Whether the worker answers requests."""

    @abstractmethod
    async def cluster_info(self) -> ClusterInfo: ...

    # -- connectors ---------------------------------------------------------------------------------------------------

    @abstractmethod
    async def connectors(self) -> list[str]:
        """The names of all connectors of the group."""

    @abstractmethod
    async def connector_info(self, name: str) -> ConnectorInfo: ...

    @abstractmethod
    async def connector_config(self, name: str) -> dict[str, str]: ...

    @abstractmethod
    async def create(
        self, name: str, config: Mapping[str, str], initial_state: TargetState | None = None
    ) -> ConnectorInfo:
        """Create a connector. `AlreadyExistsError`, `BadConfigError`. Initial state None: STARTED."""

    @abstractmethod
    async def put_config(self, name: str, config: Mapping[str, str]) -> Created:
        """Create a connector or replace its configuration."""

    @abstractmethod
    async def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Created:
        """Change some settings of a connector that exists; a null removes the setting."""

    @abstractmethod
    async def delete(self, name: str) -> None: ...

    @abstractmethod
    async def validate(self, config: Mapping[str, str | None]) -> ValidationResult:
        """Validate a configuration without storing it."""

    # -- states -------------------------------------------------------------------------------------------------------

    @abstractmethod
    async def status(self, name: str) -> ConnectorStateInfo: ...

    async def progress(self, name: str) -> ConnectorProgress | None:
        """What the connector has done since it was started, from the worker that runs it (`NotAssignedError`).

        None: it has not been started.
        """
        return None

    @abstractmethod
    async def pause(self, name: str) -> None: ...

    @abstractmethod
    async def resume(self, name: str) -> None: ...

    @abstractmethod
    async def stop(self, name: str) -> None:
        """Stop a connector and its tasks; its configuration stays."""

    @abstractmethod
    async def restart(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStateInfo | None:
        """Restart a connector.

        With `include_tasks` or `only_failed`: the planned states (the REST API answers 202 with them). Without: None,
        when the connector has been restarted (204). `RebalancingError`, `NotAssignedError`, `NotFoundError`.
        """

    # -- tasks --------------------------------------------------------------------------------------------------------

    @abstractmethod
    async def tasks(self, name: str) -> list[TaskInfo]: ...

    @abstractmethod
    async def task_status(self, task: TaskId) -> TaskStateInfo: ...

    @abstractmethod
    async def restart_task(self, task: TaskId) -> None: ...

    # -- topics -------------------------------------------------------------------------------------------------------

    @abstractmethod
    async def active_topics(self, name: str) -> ActiveTopics: ...

    @abstractmethod
    async def reset_active_topics(self, name: str) -> None: ...

    # -- offsets ------------------------------------------------------------------------------------------------------

    @abstractmethod
    async def offsets(self, name: str) -> ConnectorOffsets: ...

    @abstractmethod
    async def alter_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Change offsets of a STOPPED connector. Returns the message that the REST API shows."""

    @abstractmethod
    async def reset_offsets(self, name: str) -> str:
        """Remove all offsets of a STOPPED connector. Returns the message that the REST API shows."""

    # -- loggers ------------------------------------------------------------------------------------------------------

    @abstractmethod
    async def loggers(self) -> dict[str, LoggerLevel]:
        """The loggers of this worker that have a level of their own, by name."""

    @abstractmethod
    async def logger(self, name: str) -> LoggerLevel: ...

    @abstractmethod
    async def set_logger(self, name: str, level: str) -> list[str]:
        """Set the level of a logger and its descendants on this worker; returns their names."""

    @abstractmethod
    async def set_cluster_logger(self, name: str, level: str) -> None:
        """Set the level on all workers of the group, through the config topic."""
