"""Translation of the engine's reports into the states of a connector and its tasks. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moldau.connect.engine import ConnectorState, FailedPart, StatusReport
from moldau.connect.states import State, TargetState, TaskId
from moldau.connect.stores import status_store
from moldau.connect.stores.status_store import Entry, Status, StatusState


@dataclass(frozen=True)
class ReportingWorker:
    """The worker in whose name states are stored."""

    worker_id: str
    generation: int
    version: str | None = None
    """The version of the connector's class."""

    def status(self, state: State, trace: str | None = None) -> Status:
        return Status(state, self.worker_id, self.generation, trace, self.version)


@dataclass(frozen=True)
class ReportedStates:
    """The states that one report stands for."""

    connector: Status
    tasks: Mapping[int, Status] = field(default_factory=dict)


def reported_states(report: StatusReport, worker: ReportingWorker) -> ReportedStates:
    """The states of a connector and of each of its tasks.

    A connector that failed before it had tasks is FAILED itself. If the work failed, the tasks are FAILED and the
    connector is RUNNING, as in Kafka Connect, where a restart of the failed tasks is enough.
    """
    state = State(report.state.value)
    troubled = report.state in (ConnectorState.FAILED, ConnectorState.RESTARTING)
    if report.state is ConnectorState.STOPPED or (troubled and report.failed is FailedPart.CONNECTOR):
        return ReportedStates(worker.status(state, report.trace))
    whole = worker.status(State.RUNNING if troubled else state)
    return ReportedStates(whole, dict.fromkeys(range(report.tasks), worker.status(state, report.trace)))


def assigned_nowhere(name: str, stored: StatusState, worker: ReportingWorker) -> ReportedStates:
    """The states of a connector that this worker no longer runs."""
    gone = worker.status(State.UNASSIGNED)
    return ReportedStates(gone, dict.fromkeys(stored.tasks(name), gone))


def restarting(name: str, stored: StatusState, worker: ReportingWorker) -> ReportedStates:
    again = worker.status(State.RESTARTING)
    return ReportedStates(again, dict.fromkeys(stored.tasks(name), again))


def status_entries(name: str, states: ReportedStates, stored: StatusState) -> list[Entry]:
    """The records to write: states that differ from the stored ones, and tombstones of tasks that are no more.

    None replaces the state of a later owner.
    """
    before = stored.connectors.get(name)
    if before is not None and not status_store.may_replace(before, states.connector):
        return []
    entries = [] if before == states.connector else [status_store.connector_entry(name, states.connector)]
    tasks = stored.tasks(name)
    for number in sorted({*tasks, *states.tasks}):
        now, old = states.tasks.get(number), tasks.get(number)
        if now != old and (now is None or status_store.may_replace(old, now)):
            entries.append(status_store.task_entry(TaskId(name, number), now))
    return entries


def wanted_task_count(name: str, target: TargetState, stored: StatusState) -> int | None:
    """How many tasks the config topic should say that a connector has; None: what it says now.

    The worker of the connector stores a state for each task that there is: so the leader learns their number.
    """
    if target is TargetState.STOPPED:
        return 0
    status, tasks = stored.connectors.get(name), stored.tasks(name)
    if status is None or status.state in (State.UNASSIGNED, State.STOPPED) or not tasks:
        return None
    return len(tasks)
