"""Bodies of answers: the herder's results as Kafka Connect's JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from moldau.connect.herder.results import (
    ConnectorInfo,
    ConnectorOffsets,
    ConnectorStateInfo,
    LoggerLevel,
    StateInfo,
    TaskId,
    TaskInfo,
    TaskStateInfo,
)
from moldau.connect.plugins import UNDEFINED, Plugin

if TYPE_CHECKING:
    from moldau.connect.engine import ConnectorProgress

Body = dict[str, Any]


def task_id_body(task: TaskId) -> Body:
    return {"connector": task.connector, "task": task.task}


def info_body(info: ConnectorInfo) -> Body:
    return {
        "name": info.name,
        "config": dict(info.config),
        "tasks": [task_id_body(task) for task in info.tasks],
        "type": info.type.value,
    }


def task_body(task: TaskInfo) -> Body:
    return {"id": task_id_body(task.id), "config": dict(task.config)}


def state_body(state: StateInfo | TaskStateInfo) -> Body:
    """A connector's or task's state. The trace is left out where there is none, as in Kafka Connect."""
    body: Body = {"id": state.id} if isinstance(state, TaskStateInfo) else {}
    body |= {"state": state.state.value, "worker_id": state.worker_id, "version": state.version}
    return body | ({"trace": state.trace} if state.trace else {})


def status_body(status: ConnectorStateInfo) -> Body:
    return {
        "name": status.name,
        "connector": state_body(status.connector),
        "tasks": [state_body(task) for task in status.tasks],
        "type": status.type.value,
    }


def progress_body(progress: ConnectorProgress) -> Body:
    """What Kafka Connect does not have: counts and rates since the connector was started on its worker."""
    return asdict(progress) | {"topics": sorted(progress.topics)}


def offsets_body(offsets: ConnectorOffsets) -> Body:
    return {
        "offsets": [
            {"partition": dict(one.partition), "offset": None if one.offset is None else dict(one.offset)}
            for one in offsets.offsets
        ]
    }


def logger_body(level: LoggerLevel) -> Body:
    return {"level": level.level, "last_modified": level.last_modified}


def plugins_body(plugins: Iterable[Plugin]) -> list[Body]:
    """Classes by kind. One without a version has no such field, as in Kafka Connect."""
    found: list[Body] = []
    for one in plugins:
        version = one.version
        found.append({"class": one.name, "type": one.kind.value})
        if version != UNDEFINED:
            found[-1]["version"] = version
    return found
