"""Answers of the REST API from the stored configurations and states. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from moldau.connect.herder.errors import BadConfigError, NotFoundError
from moldau.connect.herder.plugin_facts import PluginFacts
from moldau.connect.herder.results import (
    ConnectorInfo,
    ConnectorStateInfo,
    StateInfo,
    TaskInfo,
    TaskStateInfo,
    ValidationResult,
)
from moldau.connect.herder.status_reports import wanted_task_count
from moldau.connect.herder.task_configs import task_configs
from moldau.connect.states import State, TaskId
from moldau.connect.stores.config_store import ConfigState, RestartRequest
from moldau.connect.stores.status_store import Status, StatusState


def connector_info(name: str, configs: ConfigState, statuses: StatusState, plugins: PluginFacts) -> ConnectorInfo:
    config = configs.connectors[name]
    tasks = [one.id for one in task_infos(name, configs, statuses, plugins)]
    return ConnectorInfo(name, dict(config), tasks, plugins.type(config))


def task_infos(name: str, configs: ConfigState, statuses: StatusState, plugins: PluginFacts) -> list[TaskInfo]:
    """The tasks that there are.

    The worker of a connector stores the states of its tasks a moment before the leader stores their configurations. A
    task whose state is shown is listed here, too.
    """
    config = configs.connectors[name]
    count = wanted_task_count(name, configs.target(name), statuses)
    if count is None:
        found = configs.task_configs(name)
    else:
        found = task_configs(config, plugins.full_class(config), count)
    return [TaskInfo(TaskId(name, task), dict(one)) for task, one in enumerate(found)]


def state_info(name: str, configs: ConfigState, statuses: StatusState, plugins: PluginFacts) -> ConnectorStateInfo:
    """The states of a connector and its tasks. NotFoundError if no worker has stored any."""
    status = statuses.connectors.get(name)
    if status is None:
        raise NotFoundError(f"No status found for connector {name}")
    whole = StateInfo(status.state, status.worker_id, status.trace, status.version)
    tasks = [_task_state(number, one) for number, one in statuses.tasks(name).items()]
    return ConnectorStateInfo(name, whole, tasks, plugins.type(configs.connectors.get(name, {})))


def task_state_info(task: TaskId, statuses: StatusState) -> TaskStateInfo:
    status = statuses.task(task)
    if status is None:
        raise NotFoundError(f"No status found for task {task}")
    return _task_state(task.task, status)


def _task_state(number: int, status: Status) -> TaskStateInfo:
    return TaskStateInfo(number, status.state, status.worker_id, status.trace, status.version)


def restart_plan(info: ConnectorStateInfo, request: RestartRequest) -> ConnectorStateInfo:
    """The states as they will be when a restart has begun: RESTARTING, with the trace of an earlier failure."""

    def restarted(state: State) -> bool:
        return not request.only_failed or state is State.FAILED

    whole = info.connector
    if restarted(whole.state):
        whole = replace(whole, state=State.RESTARTING)
    tasks = [
        replace(one, state=State.RESTARTING) if request.include_tasks and restarted(one.state) else one
        for one in info.tasks
    ]
    return replace(info, connector=whole, tasks=tasks)


def patched(config: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    """The configuration with these settings changed; None removes one."""
    merged: dict[str, str | None] = {**config, **patch}
    return {name: value for name, value in merged.items() if value is not None}


def require_valid(result: ValidationResult) -> None:
    """Raise BadConfigError, with Kafka Connect's words, if the validation has found mistakes."""
    if not result.error_count:
        return
    problems = [problem for errors in result.errors.values() for problem in errors]
    lines = "".join(f"\n{problem}" for problem in problems)
    raise BadConfigError(
        f"Connector configuration is invalid and contains the following {result.error_count} error(s):{lines}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )
