"""Results of the herder: connectors, tasks, states, offsets and loggers as the REST API shows them.

The field names are those of Kafka Connect's JSON bodies. The bodies themselves are built by `connect/rest`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.connect.states import ConnectorType, State, TargetState, TaskId

__all__ = [
    "ActiveTopics",
    "ClusterInfo",
    "ConnectorInfo",
    "ConnectorOffset",
    "ConnectorOffsets",
    "ConnectorStateInfo",
    "ConnectorType",
    "Created",
    "Health",
    "LoggerLevel",
    "State",
    "StateInfo",
    "TargetState",
    "TaskId",
    "TaskInfo",
    "TaskStateInfo",
    "ValidationResult",
]


@dataclass(frozen=True)
class ConnectorInfo:
    """The answer of `GET /connectors/NAME`."""

    name: str
    config: Mapping[str, str]
    """As it was submitted: references of config providers are not resolved."""
    tasks: Sequence[TaskId]
    type: ConnectorType


@dataclass(frozen=True)
class Created:
    """The answer of a request that creates or replaces a configuration."""

    created: bool
    """False: the connector existed before."""
    info: ConnectorInfo


@dataclass(frozen=True)
class TaskInfo:
    """One element of `GET /connectors/NAME/tasks`."""

    id: TaskId
    config: Mapping[str, str]


@dataclass(frozen=True)
class StateInfo:
    """The state of a connector, without its tasks."""

    state: State
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class TaskStateInfo:
    """The state of one task."""

    id: int
    state: State
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class ConnectorStateInfo:
    """The answer of `GET /connectors/NAME/status`."""

    name: str
    connector: StateInfo
    tasks: Sequence[TaskStateInfo]
    type: ConnectorType


@dataclass(frozen=True)
class ActiveTopics:
    """The topics that a connector has used since it was created or its topics were reset."""

    connector: str
    topics: Sequence[str]


@dataclass(frozen=True)
class ConnectorOffset:
    """One source partition, or one topic partition of a sink, with its offset. Offset None: reset this partition."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None


@dataclass(frozen=True)
class ConnectorOffsets:
    """The answer of `GET /connectors/NAME/offsets`."""

    offsets: Sequence[ConnectorOffset]


@dataclass(frozen=True)
class LoggerLevel:
    level: str
    """Kafka's names: TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF."""
    last_modified: int | None = None
    """Milliseconds since 1970; None: not changed since the worker started."""


@dataclass(frozen=True)
class ClusterInfo:
    """The answer of `GET /`."""

    version: str
    commit: str
    kafka_cluster_id: str


@dataclass(frozen=True)
class Health:
    """The answer of `GET /health`; `status` is healthy, starting or unhealthy."""

    status: str
    message: str


@dataclass(frozen=True)
class ValidationResult:
    """What the herder needs to know of a validated configuration. `body` is for the REST API and opaque here."""

    error_count: int
    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The problems by setting, in the order of the settings."""
    body: Any = None
