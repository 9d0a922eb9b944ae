"""Engine: runs the connectors of one Connect process as Spark micro-batches.

The herder decides which connectors run here and calls `Engine` from its event loop. No method of `Engine` waits: each
one records what is wanted and returns. What happens is told by `StatusReport`s, on the event loop that was running when
the engine was created (without one: in a thread of the engine).

This module holds the interface only. Nothing of Spark is imported before the first batch of records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from moldau.connect.connector import Connector, Offset

__all__ = [
    "ConnectorEngine",
    "ConnectorProgress",
    "ConnectorState",
    "FailedPart",
    "LoadConnector",
    "Report",
    "StatusReport",
]


class ConnectorState(Enum):
    """The states of a connector, with Kafka Connect's names."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    """An error that may go away by itself: the connector waits for its back-off and tries again."""


class FailedPart(Enum):
    """What has failed, as REST shows it."""

    CONNECTOR = "connector"
    """The connector could not be created or started: it has no tasks."""
    TASKS = "tasks"
    """Reading, converting, writing or committing failed: the connector is RUNNING, its tasks are FAILED."""


@dataclass(frozen=True)
class ConnectorProgress:
    """What a connector has done since it was started here."""

    batches: int = 0
    records: int = 0
    """Records written to topics (source) or given to the target (sink)."""
    bytes: int = 0
    """Their keys and values, as they are in the topic."""
    records_per_s: float = 0.0
    """Over about the last ten seconds."""
    bytes_per_s: float = 0.0
    lag: int | None = None
    """Records that a sink has not written yet; None for a source, and before the first look at the topics."""
    last_batch_ms: float | None = None
    """The time from the start of the last batch until it was committed."""
    skipped: int = 0
    """Records that were tolerated as errors (errors.tolerance=all)."""
    dead_letters: int = 0
    retries: int = 0
    failures: int = 0
    """Failed attempts, including those that were tried again."""
    topics: frozenset[str] = frozenset()
    """The topics that were read or written."""


@dataclass(frozen=True)
class StatusReport:
    """The state of one connector. Reported at every change of state, and about once per second while it works."""

    name: str
    state: ConnectorState
    tasks: int = 0
    """The number of tasks that run in parallel at most, between 1 and tasks.max; 0 if the connector did not start."""
    trace: str | None = None
    """Why it is FAILED or RESTARTING. Plain text without secrets."""
    failed: FailedPart | None = None
    progress: ConnectorProgress = field(default_factory=ConnectorProgress)


Report = Callable[[StatusReport], None]
LoadConnector = Callable[[str], "type[Connector]"]
"""The class of a connector for the value of `connector.class`."""


class ConnectorEngine(Protocol):
    """What the herder needs of the engine: `moldau.connect.engine.engine.Engine`.

        Engine(settings, spark_settings, report)

    `settings` are the worker's, with Kafka Connect's names (bootstrap.servers, group.id, offset.storage.topic,
    key.converter, producer.*, consumer.*, admin.*, exactly.once.source.support, config.providers …).
    `spark_settings` are Spark's own (`spark.master` is local[16] if it is not given).
    """

    def start(self, name: str, config: Mapping[str, Any], target: ConnectorState = ConnectorState.RUNNING) -> None:
        """Run a connector, or give a running one another configuration. `target` may be PAUSED or STOPPED.

        `config` is as it is stored, with references to config providers: they are resolved here.
        """

    def stop(self, name: str) -> Future[None]:
        """End a connector: it no longer belongs to this process. The future is done when nothing of it runs here.

        Running tasks are cancelled and leave nothing behind. For an asyncio loop: `asyncio.wrap_future`.
        """

    def pause(self, name: str) -> None:
        """Finish the current batch and begin no other. PAUSED is reported when the batch is finished."""

    def suspend(self, name: str) -> None:
        """REST's stop: as `pause`, and free everything that the connector holds. STOPPED is reported after that."""

    def resume(self, name: str) -> None:
        """Continue after `pause` or `suspend`. No effect on a connector that is FAILED."""

    def restart(self, name: str, *, only_failed: bool = False) -> None:
        """Begin again from the stored offsets, also after FAILED; with `only_failed`, only after FAILED."""

    def state(self, name: str) -> StatusReport | None:
        """The last status; None if the connector does not belong to this process."""

    def change_offsets(
        self, name: str, config: Mapping[str, Any], offsets: Sequence[tuple[Offset, Offset | None]] | None
    ) -> Future[None]:
        """Fence every worker that ran this connector, then store these source offsets; None removes one, or all.

        For a connector that is stopped everywhere; it need not belong to this process. A sink is fenced only: its
        offsets are those of its consumer group.
        """

    def close(self) -> Future[None]:
        """Stop all connectors and the Spark session."""
