"""Config topic: connector configurations, task configurations, target states and requests to all workers.

Keys and values are those of Kafka Connect 4.3 (KafkaConfigBackingStore), so that either product can take over the topic
of the other. `ConfigState` is the table: a record in, an event out. Reading and writing the topic is
`service/state_topic.py`.

Task configurations take effect together: `task-NAME-0` … are kept aside until `commit-NAME` says how many there are.
If compaction has removed some of them, the tasks of that connector are inconsistent, and it has none until they are
written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.connect.states import TargetState
from moldau.connect.stores.json_bytes import decode_object, encode
from moldau.service.state_topic import StateRecord

CONNECTOR_PREFIX: Final = "connector-"
TASK_PREFIX: Final = "task-"
COMMIT_PREFIX: Final = "commit-"
TARGET_STATE_PREFIX: Final = "target-state-"
TASK_COUNT_PREFIX: Final = "tasks-fencing-"
RESTART_PREFIX: Final = "restart-connector-"
LOGGER_PREFIX: Final = "logger-cluster-"
SESSION_KEY: Final = "session-key"

Entry = tuple[bytes, bytes | None]
"""A record to write: key and value."""
Config = dict[str, str]


# -- records to write ------------------------------------------------------------------------------------------------


def connector_entries(name: str, config: Mapping[str, str | None], target: TargetState | None = None) -> list[Entry]:
    """The records of a new configuration. The target state is first: a worker must not start what is to be STOPPED."""
    entry = (_key(CONNECTOR_PREFIX, name), encode({"properties": dict(config)}))
    return [entry] if target is None else [target_state_entry(name, target), entry]


def removal_entries(name: str) -> list[Entry]:
    return [(_key(CONNECTOR_PREFIX, name), None), (_key(TARGET_STATE_PREFIX, name), None)]


def target_state_entry(name: str, target: TargetState) -> Entry:
    # Workers before Kafka 3.5 read "state" only and do not know STOPPED: for them it is PAUSED.
    older = TargetState.PAUSED if target is TargetState.STOPPED else target
    return _key(TARGET_STATE_PREFIX, name), encode({"state": older.value, "state.v2": target.value})


def task_entries(name: str, configs: Sequence[Mapping[str, str]]) -> list[Entry]:
    """The records of all tasks of a connector, with the commit record that puts them into effect."""
    tasks = [
        (_key(TASK_PREFIX, f"{name}-{task}"), encode({"properties": dict(one)})) for task, one in enumerate(configs)
    ]
    return [*tasks, (_key(COMMIT_PREFIX, name), encode({"tasks": len(configs)}))]


def task_count_entry(name: str, count: int) -> Entry:
    """The number of tasks whose producers have been fenced, for exactly-once sources of Kafka Connect."""
    return _key(TASK_COUNT_PREFIX, name), encode({"task-count": count})


def restart_entry(request: RestartRequest) -> Entry:
    value = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return _key(RESTART_PREFIX, request.name), encode(value)


def logger_entry(namespace: str, level: str) -> Entry:
    return _key(LOGGER_PREFIX, namespace), encode({"level": level})


def session_key_entry(key: SessionKey) -> Entry:
    value = {"key": key.key, "algorithm": key.algorithm, "creation-timestamp": key.created_ms}
    return SESSION_KEY.encode(), encode(value)


def _key(prefix: str, name: str) -> bytes:
    return (prefix + name).encode()


# -- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConnectorChanged:
    """A connector has a new configuration."""

    name: str


@dataclass(frozen=True)
class ConnectorRemoved:
    name: str


@dataclass(frozen=True)
class TasksChanged:
    """The tasks of a connector were committed."""

    name: str


@dataclass(frozen=True)
class TargetChanged:
    name: str


@dataclass(frozen=True)
class RestartRequest:
    """A request to restart a connector; the worker that runs it follows it."""

    name: str
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True)
class LoggerChanged:
    """A request to all workers to set a log level."""

    namespace: str
    level: str


@dataclass(frozen=True)
class SessionKey:
    """The key with which Kafka Connect's workers sign internal requests. Ours only keep it."""

    key: str = field(repr=False)
    algorithm: str
    created_ms: int


Event = ConnectorChanged | ConnectorRemoved | TasksChanged | TargetChanged | RestartRequest | LoggerChanged | SessionKey


# -- table -----------------------------------------------------------------------------------------------------------


class ConfigState:
    """What the config topic says, up to the record that was applied last."""

    def __init__(self) -> None:
        self.connectors: dict[str, Config] = {}
        self.task_count_records: dict[str, int] = {}
        self.session_key: SessionKey | None = None
        self.offset = -1
        """The offset of the record that was applied last."""
        self._targets: dict[str, TargetState] = {}
        self._tasks: dict[str, dict[int, Config]] = {}
        self._deferred: dict[str, dict[int, Config]] = {}
        self._counts: dict[str, int] = {}
        self._inconsistent: set[str] = set()

    def target(self, name: str) -> TargetState:
        return self._targets.get(name, TargetState.STARTED)

    def task_configs(self, name: str) -> list[Config]:
        """The committed configurations of the tasks, in order; none if they are inconsistent."""
        if name in self._inconsistent:
            return []
        stored = self._tasks.get(name, {})
        return [stored[task] for task in range(self._counts.get(name, 0))]

    def apply(self, record: StateRecord) -> Event | None:
        """Take over one record. Returns what it changed; None if nothing, or if the record has a wrong format."""
        self.offset = record.offset
        if record.key is None:
            return None
        try:
            key = record.key.decode()
        except UnicodeDecodeError:
            return None
        value = decode_object(record.value)
        if record.value is not None and value is None:
            return None
        if key == SESSION_KEY:
            return self._apply_session_key(value)
        for prefix, apply in _APPLIED.items():
            if key.startswith(prefix):
                return apply(self, key.removeprefix(prefix), value)
        return None

    def _apply_connector(self, name: str, value: dict[str, Any] | None) -> Event | None:
        if value is None:
            for table in (self._tasks, self._deferred, self._counts):
                table.pop(name, None)
            self._inconsistent.discard(name)
            return ConnectorRemoved(name) if self.connectors.pop(name, None) is not None else None
        properties = _properties(value)
        if properties is None:
            return None
        self.connectors[name] = properties
        return ConnectorChanged(name)

    def _apply_task(self, text: str, value: dict[str, Any] | None) -> Event | None:
        name, _, number = text.rpartition("-")
        properties = None if value is None else _properties(value)
        if properties is not None and name and number.isascii() and number.isdigit():
            self._deferred.setdefault(name, {})[int(number)] = properties
        return None

    def _apply_commit(self, name: str, value: dict[str, Any] | None) -> Event | None:
        count = None if value is None else value.get("tasks")
        if not _is_count(count):
            return None
        assert isinstance(count, int)
        deferred = self._deferred.pop(name, {})
        if name not in self.connectors:
            # The connector was deleted, and compaction has removed its tombstone: these tasks belong to nothing.
            return None
        if deferred.keys() == set(range(count)):
            self._tasks[name] = deferred
            self._inconsistent.discard(name)
        else:
            self._inconsistent.add(name)
        self._counts[name] = count
        return TasksChanged(name)

    def _apply_target(self, name: str, value: dict[str, Any] | None) -> Event | None:
        if value is None:
            self._targets.pop(name, None)
            return TargetChanged(name) if name in self.connectors else None
        target = _target(value)
        if target is None:
            return None
        before = self._targets.get(name)
        self._targets[name] = target
        return TargetChanged(name) if name in self.connectors and before is not target else None

    def _apply_task_count(self, name: str, value: dict[str, Any] | None) -> Event | None:
        count = None if value is None else value.get("task-count")
        if _is_count(count):
            assert isinstance(count, int)
            self.task_count_records[name] = count
        return None

    def _apply_restart(self, name: str, value: dict[str, Any] | None) -> Event | None:
        if value is None or not name:
            return None
        # A wrong type counts as not given, as in Kafka Connect.
        return RestartRequest(name, value.get("include-tasks") is True, value.get("only-failed") is True)

    def _apply_logger(self, namespace: str, value: dict[str, Any] | None) -> Event | None:
        level = None if value is None else value.get("level")
        return LoggerChanged(namespace, level) if isinstance(level, str) else None

    def _apply_session_key(self, value: dict[str, Any] | None) -> Event | None:
        if value is None:
            return None
        key, algorithm, created = value.get("key"), value.get("algorithm"), value.get("creation-timestamp")
        if not isinstance(key, str) or not isinstance(algorithm, str) or not isinstance(created, int):
            return None
        self.session_key = SessionKey(key, algorithm, created)
        return self.session_key


_APPLIED: Final = {
    CONNECTOR_PREFIX: ConfigState._apply_connector,
    TASK_PREFIX: ConfigState._apply_task,
    COMMIT_PREFIX: ConfigState._apply_commit,
    TARGET_STATE_PREFIX: ConfigState._apply_target,
    TASK_COUNT_PREFIX: ConfigState._apply_task_count,
    RESTART_PREFIX: ConfigState._apply_restart,
    LOGGER_PREFIX: ConfigState._apply_logger,
}


def _properties(value: dict[str, Any]) -> Config | None:
    found = value.get("properties")
    if not isinstance(found, dict):
        return None
    return {name: text for name, text in found.items() if isinstance(text, str)}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _target(value: dict[str, Any]) -> TargetState | None:
    text = value.get("state") if value.get("state.v2") is None else value["state.v2"]
    try:
        return TargetState(text)
    except ValueError:
        return None
