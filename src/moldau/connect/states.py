"""States and identities of connectors and tasks, with Kafka Connect's names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ConnectorType(Enum):
    SOURCE = "source"
    SINK = "sink"
    UNKNOWN = "unknown"
    """The class of the connector cannot be loaded on this worker."""


class TargetState(Enum):
    """The state in which the user wants a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(Enum):
    """The state that a worker reports for a connector or a task. DESTROYED only occurs on the way to a tombstone."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, order=True)
class TaskId:
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"
