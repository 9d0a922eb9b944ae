"""Status topic: the state of each connector and task, and the topics that each connector has used.

Keys and values are those of Kafka Connect 4.3 (KafkaStatusBackingStore). Every worker writes the states of what it
runs, with its worker id and the generation of its group. `may_replace` keeps a worker that was too slow from replacing
the state that a later owner has written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from moldau.connect.states import State, TaskId
from moldau.connect.stores.json_bytes import decode_object, encode
from moldau.service.state_topic import StateRecord

CONNECTOR_PREFIX: Final = "status-connector-"
TASK_PREFIX: Final = "status-task-"
TOPIC_PREFIX: Final = "status-topic-"
TOPIC_SEPARATOR: Final = ":connector-"

Entry = tuple[bytes, bytes | None]


@dataclass(frozen=True)
class Status:
    """The state of a connector or task, as one worker reports it."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class TopicUse:
    """A topic that a connector has read or written."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


def may_replace(stored: Status | None, new: Status) -> bool:
    """Whether a worker may write this state over the stored one (Kafka Connect's putSafe).

    Not if another worker wrote the stored one in a later generation: that one owns the connector now.
    """
    return stored is None or stored.worker_id == new.worker_id or stored.generation <= new.generation


# -- records to write ------------------------------------------------------------------------------------------------


def connector_entry(name: str, status: Status | None) -> Entry:
    """The record of a connector's state; None or DESTROYED: a tombstone."""
    return (CONNECTOR_PREFIX + name).encode(), _value(status)


def task_entry(task: TaskId, status: Status | None) -> Entry:
    return f"{TASK_PREFIX}{task.connector}-{task.task}".encode(), _value(status)


def topic_entry(use: TopicUse) -> Entry:
    value = {
        "topic": {
            "name": use.topic,
            "connector": use.connector,
            "task": use.task,
            "discoverTimestamp": use.discovered_ms,
        }
    }
    return topic_key(use.topic, use.connector), encode(value)


def topic_key(topic: str, connector: str) -> bytes:
    return f"{TOPIC_PREFIX}{topic}{TOPIC_SEPARATOR}{connector}".encode()


def _value(status: Status | None) -> bytes | None:
    if status is None or status.state is State.DESTROYED:
        return None
    return encode(
        {
            "state": status.state.value,
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
        }
    )


# -- table -----------------------------------------------------------------------------------------------------------


class StatusState:
    """What the status topic says."""

    def __init__(self) -> None:
        self.connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, dict[str, TopicUse]] = {}

    def task(self, task: TaskId) -> Status | None:
        return self._tasks.get(task.connector, {}).get(task.task)

    def tasks(self, connector: str) -> dict[int, Status]:
        """The states of all tasks of a connector, by number."""
        return dict(sorted(self._tasks.get(connector, {}).items()))

    def topics(self, connector: str) -> dict[str, TopicUse]:
        return dict(self._topics.get(connector, {}))

    def names(self) -> set[str]:
        """Every connector of which something is stored."""
        return {*self.connectors, *self._tasks, *self._topics}

    def removal_entries(self, connector: str) -> list[Entry]:
        """The tombstones of everything that is stored for a connector."""
        entries = [connector_entry(connector, None)] if connector in self.connectors else []
        entries += [task_entry(TaskId(connector, task), None) for task in self._tasks.get(connector, {})]
        return entries + [(topic_key(topic, connector), None) for topic in self._topics.get(connector, {})]

    def apply(self, record: StateRecord) -> str | None:
        """Take over one record. Returns the connector that it is about.

        Records of a wrong format are passed over, as in Kafka Connect.
        """
        try:
            key = (record.key or b"").decode()
        except UnicodeDecodeError:
            return None
        value = decode_object(record.value)
        if record.value is not None and value is None:
            return None
        if key.startswith(CONNECTOR_PREFIX):
            return self._apply_connector(key.removeprefix(CONNECTOR_PREFIX), value)
        if key.startswith(TASK_PREFIX):
            return self._apply_task(key.removeprefix(TASK_PREFIX), value)
        if key.startswith(TOPIC_PREFIX):
            return self._apply_topic(key.removeprefix(TOPIC_PREFIX), value)
        return None

    def _apply_connector(self, name: str, value: dict[str, Any] | None) -> str | None:
        if value is None:
            self.connectors.pop(name, None)
        elif (status := _status(value)) is not None and name:
            self.connectors[name] = status
        return name or None

    def _apply_task(self, text: str, value: dict[str, Any] | None) -> str | None:
        name, _, number = text.rpartition("-")
        if not name or not number.isascii() or not number.isdigit():
            return None
        tasks = self._tasks.setdefault(name, {})
        if value is None:
            tasks.pop(int(number), None)
        elif (status := _status(value)) is not None:
            tasks[int(number)] = status
        if not tasks:
            del self._tasks[name]
        return name

    def _apply_topic(self, text: str, value: dict[str, Any] | None) -> str | None:
        topic, _, connector = text.partition(TOPIC_SEPARATOR)
        if not topic or not connector:
            return None
        topics = self._topics.setdefault(connector, {})
        if value is None:
            topics.pop(topic, None)
        elif (use := _topic_use(value)) is not None:
            topics[topic] = replace(use, topic=topic, connector=connector)
        if not topics:
            del self._topics[connector]
        return connector


def _status(value: dict[str, Any]) -> Status | None:
    try:
        state = State(value.get("state"))
    except ValueError:
        return None
    worker_id, generation = value.get("worker_id"), value.get("generation")
    if not isinstance(worker_id, str) or not isinstance(generation, int):
        return None
    trace, version = value.get("trace"), value.get("version")
    return Status(
        state,
        worker_id,
        generation,
        trace if isinstance(trace, str) else None,
        version if isinstance(version, str) else None,
    )


def _topic_use(value: dict[str, Any]) -> TopicUse | None:
    found = value.get("topic")
    if not isinstance(found, dict):
        return None
    name, connector = found.get("name"), found.get("connector")
    task, discovered = found.get("task"), found.get("discoverTimestamp")
    if not (isinstance(name, str) and isinstance(connector, str)):
        return None
    if not (isinstance(task, int) and isinstance(discovered, int)):
        return None
    return TopicUse(name, connector, task, discovered)
