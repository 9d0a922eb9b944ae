"""Translation of the engine's reports into states, and the records that store them."""

from __future__ import annotations

import pytest

from moldau.connect.engine import ConnectorState, FailedPart, StatusReport
from moldau.connect.herder.status_reports import (
    ReportedStates,
    ReportingWorker,
    assigned_nowhere,
    reported_states,
    restarting,
    status_entries,
    wanted_task_count,
)
from moldau.connect.states import State, TargetState, TaskId
from moldau.connect.stores import status_store
from moldau.connect.stores.status_store import Entry, Status, StatusState
from moldau.service.state_topic import StateRecord

WORKER = ReportingWorker("w:1", 3, "1.0")
RUNNING = Status(State.RUNNING, "w:1", 3, None, "1.0")


def stored(*entries: Entry) -> StatusState:
    state = StatusState()
    for offset, (key, value) in enumerate(entries):
        state.apply(StateRecord(0, offset, 0, key, value))
    return state


def names(states: ReportedStates) -> tuple[str, list[str]]:
    return states.connector.state.value, [one.state.value for one in states.tasks.values()]


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (StatusReport("a", ConnectorState.RUNNING, 2), ("RUNNING", ["RUNNING", "RUNNING"])),
        (StatusReport("a", ConnectorState.PAUSED, 1), ("PAUSED", ["PAUSED"])),
        (StatusReport("a", ConnectorState.STOPPED, 2), ("STOPPED", [])),
        (StatusReport("a", ConnectorState.FAILED, 0, "x", FailedPart.CONNECTOR), ("FAILED", [])),
        (StatusReport("a", ConnectorState.FAILED, 2, "x", FailedPart.TASKS), ("RUNNING", ["FAILED", "FAILED"])),
        (StatusReport("a", ConnectorState.RESTARTING, 1, "x", FailedPart.TASKS), ("RUNNING", ["RESTARTING"])),
        (StatusReport("a", ConnectorState.RESTARTING, 0, "x", FailedPart.CONNECTOR), ("RESTARTING", [])),
    ],
)
def test_states_of_connector_and_tasks(report: StatusReport, expected: tuple[str, list[str]]) -> None:
    assert names(reported_states(report, WORKER)) == expected


def test_the_trace_is_where_the_failure_is() -> None:
    of_tasks = reported_states(StatusReport("a", ConnectorState.FAILED, 1, "boom", FailedPart.TASKS), WORKER)
    assert (of_tasks.connector.trace, of_tasks.tasks[0].trace) == (None, "boom")
    whole = reported_states(StatusReport("a", ConnectorState.FAILED, 0, "boom", FailedPart.CONNECTOR), WORKER)
    assert whole.connector.trace == "boom"


def test_only_what_differs_is_written() -> None:
    before = stored(status_store.connector_entry("a", RUNNING), status_store.task_entry(TaskId("a", 0), RUNNING))
    same = ReportedStates(RUNNING, {0: RUNNING})
    assert status_entries("a", same, before) == []
    more = ReportedStates(RUNNING, {0: RUNNING, 1: RUNNING})
    assert status_entries("a", more, before) == [status_store.task_entry(TaskId("a", 1), RUNNING)]


def test_tasks_that_are_no_more_get_tombstones() -> None:
    before = stored(
        status_store.connector_entry("a", RUNNING),
        status_store.task_entry(TaskId("a", 0), RUNNING),
        status_store.task_entry(TaskId("a", 1), RUNNING),
    )
    fewer = ReportedStates(RUNNING, {0: RUNNING})
    assert status_entries("a", fewer, before) == [(b"status-task-a-1", None)]


def test_nothing_is_written_over_the_states_of_a_later_owner() -> None:
    later = Status(State.RUNNING, "other:1", 4)
    before = stored(status_store.connector_entry("a", later), status_store.task_entry(TaskId("a", 0), later))
    assert status_entries("a", assigned_nowhere("a", before, WORKER), before) == []
    assert status_entries("a", ReportedStates(RUNNING), before) == []


def test_a_connector_that_stops_or_restarts_takes_all_its_tasks_along() -> None:
    before = stored(
        status_store.connector_entry("a", RUNNING),
        status_store.task_entry(TaskId("a", 0), RUNNING),
        status_store.task_entry(TaskId("a", 1), RUNNING),
    )
    assert names(assigned_nowhere("a", before, WORKER)) == ("UNASSIGNED", ["UNASSIGNED", "UNASSIGNED"])
    assert names(restarting("a", before, WORKER)) == ("RESTARTING", ["RESTARTING", "RESTARTING"])


def test_the_number_of_tasks_is_that_of_their_states() -> None:
    two = [status_store.task_entry(TaskId("a", number), RUNNING) for number in range(2)]
    running = stored(status_store.connector_entry("a", RUNNING), *two)
    assert wanted_task_count("a", TargetState.STARTED, running) == 2
    assert wanted_task_count("a", TargetState.PAUSED, running) == 2
    assert wanted_task_count("a", TargetState.STOPPED, running) == 0


@pytest.mark.parametrize("state", [State.UNASSIGNED, State.STOPPED])
def test_states_of_a_connector_that_does_not_run_say_nothing_about_its_tasks(state: State) -> None:
    task = status_store.task_entry(TaskId("a", 0), RUNNING)
    idle = stored(status_store.connector_entry("a", Status(state, "w:1", 3)), task)
    assert wanted_task_count("a", TargetState.STARTED, idle) is None
    assert wanted_task_count("a", TargetState.STARTED, stored(task)) is None
    assert wanted_task_count("a", TargetState.STARTED, stored(status_store.connector_entry("a", RUNNING))) is None
