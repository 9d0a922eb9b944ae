"""Config topic: the bytes of Kafka Connect 4.3, and what a worker knows after reading them."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from moldau.connect.states import TargetState
from moldau.connect.stores import config_store
from moldau.connect.stores.config_store import (
    ConfigState,
    ConnectorChanged,
    ConnectorRemoved,
    Entry,
    Event,
    LoggerChanged,
    RestartRequest,
    SessionKey,
    TargetChanged,
    TasksChanged,
)
from moldau.service.state_topic import StateRecord

CONFIG = {
    "connector.class": "FileStreamSource",
    "tasks.max": "1",
    "file": "/tmp/in.txt",
    "topic": "lines",
    "name": "src",
}

# Written by Apache Kafka Connect 4.3.0 into its config topic, in this order.
BY_KAFKA = """\
session-key => {"key":"gdLCvCjkMtUKO2t8mo4HVyuFTySAvuHR4QWkjRdVLUA=","algorithm":"HmacSHA256","creation-timestamp":1794991488478}
connector-src => {"properties":{"connector.class":"FileStreamSource","tasks.max":"1","file":"/tmp/in.txt","topic":"lines","name":"src"}}
target-state-snk => {"state":"PAUSED","state.v2":"PAUSED"}
connector-snk => {"properties":{"connector.class":"FileStreamSink","topics":"lines","name":"snk"}}
task-src-0 => {"properties":{"task.class":"org.apache.kafka.connect.file.FileStreamSourceTask","name":"src"}}
commit-src => {"tasks":1}
target-state-snk => {"state":"STARTED","state.v2":"STARTED"}
commit-src => {"tasks":0}
target-state-src => {"state":"PAUSED","state.v2":"STOPPED"}
restart-connector-snk => {"include-tasks":true,"only-failed":false}
logger-cluster-org.apache.kafka => {"level":"DEBUG"}
connector-snk =>
target-state-snk =>
"""  # noqa: E501


def entries_by_kafka() -> list[Entry]:
    found = []
    for line in BY_KAFKA.splitlines():
        key, _, value = line.partition(" =>")
        found.append((key.encode(), value.strip().encode() or None))
    return found


def read(state: ConfigState, entries: Iterable[Entry], first: int = 0) -> list[Event | None]:
    return [
        state.apply(StateRecord(0, offset, 0, key, value)) for offset, (key, value) in enumerate(entries, start=first)
    ]


def test_what_we_write_has_the_bytes_of_kafka_connect() -> None:
    session = SessionKey("gdLCvCjkMtUKO2t8mo4HVyuFTySAvuHR4QWkjRdVLUA=", "HmacSHA256", 1794991488478)
    sink = {"connector.class": "FileStreamSink", "topics": "lines", "name": "snk"}
    task = {"task.class": "org.apache.kafka.connect.file.FileStreamSourceTask", "name": "src"}
    assert [
        config_store.session_key_entry(session),
        *config_store.connector_entries("src", CONFIG),
        *config_store.connector_entries("snk", sink, TargetState.PAUSED),
        *config_store.task_entries("src", [task]),
        config_store.target_state_entry("snk", TargetState.STARTED),
        *config_store.task_entries("src", []),
        config_store.target_state_entry("src", TargetState.STOPPED),
        config_store.restart_entry(RestartRequest("snk", include_tasks=True, only_failed=False)),
        config_store.logger_entry("org.apache.kafka", "DEBUG"),
        *config_store.removal_entries("snk"),
    ] == entries_by_kafka()


def test_each_record_of_kafka_connect_says_what_has_changed() -> None:
    state = ConfigState()
    events = read(state, entries_by_kafka())
    assert events[1:] == [
        ConnectorChanged("src"),
        None,
        ConnectorChanged("snk"),
        None,
        TasksChanged("src"),
        TargetChanged("snk"),
        TasksChanged("src"),
        TargetChanged("src"),
        RestartRequest("snk", include_tasks=True),
        LoggerChanged("org.apache.kafka", "DEBUG"),
        ConnectorRemoved("snk"),
        None,
    ]
    assert state.connectors == {"src": CONFIG}
    assert state.target("src") is TargetState.STOPPED
    assert state.session_key is not None
    assert state.offset == len(events) - 1


def test_the_key_of_the_session_is_not_shown() -> None:
    assert "secret" not in repr(SessionKey("secret", "HmacSHA256", 1))


def test_tasks_take_effect_with_their_commit_record() -> None:
    state = ConfigState()
    entries = config_store.task_entries("a", [{"n": "0"}, {"n": "1"}])
    read(state, [*config_store.connector_entries("a", {}), *entries[:-1]])
    assert state.task_configs("a") == []
    read(state, entries[-1:])
    assert state.task_configs("a") == [{"n": "0"}, {"n": "1"}]


def test_a_set_of_tasks_with_a_gap_counts_as_no_tasks() -> None:
    state = ConfigState()
    entries = config_store.task_entries("a", [{"n": "0"}, {"n": "1"}])
    read(state, [*config_store.connector_entries("a", {}), *entries[1:]])
    assert state.task_configs("a") == []
    read(state, config_store.task_entries("a", [{"n": "new"}]))
    assert state.task_configs("a") == [{"n": "new"}]


def test_tasks_of_a_connector_that_was_deleted_and_compacted_away_do_not_come_back() -> None:
    state = ConfigState()
    assert read(state, config_store.task_entries("a", [{"n": "0"}])) == [None, None]
    read(state, config_store.connector_entries("a", {}))
    assert state.task_configs("a") == []


def test_a_deleted_connector_leaves_no_tasks_to_its_successor() -> None:
    state = ConfigState()
    read(state, [*config_store.connector_entries("a", {}), *config_store.task_entries("a", [{}])])
    read(state, [*config_store.removal_entries("a"), *config_store.connector_entries("a", {"b": "c"})])
    assert state.task_configs("a") == []
    assert state.target("a") is TargetState.STARTED


def test_names_with_hyphens_and_numbers_are_told_from_task_numbers() -> None:
    state = ConfigState()
    read(state, [*config_store.connector_entries("a-1", {}), *config_store.task_entries("a-1", [{"x": "y"}])])
    assert state.task_configs("a-1") == [{"x": "y"}]
    assert state.task_configs("a") == []


def test_older_workers_know_no_stopped_state() -> None:
    state = ConfigState()
    read(state, [*config_store.connector_entries("a", {}), (b"target-state-a", b'{"state":"PAUSED"}')])
    assert state.target("a") is TargetState.PAUSED


def test_the_target_state_stored_before_the_connector_counts() -> None:
    state = ConfigState()
    events = read(state, config_store.connector_entries("a", {}, TargetState.STOPPED))
    assert events == [None, ConnectorChanged("a")]
    assert state.target("a") is TargetState.STOPPED


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff\xfe", b"{}"),
        (b"connector-a", b"not json"),
        (b"connector-a", b"[]"),
        (b"connector-a", b'{"properties":[]}'),
        (b"connector-a", b"{}"),
        (b"task-a-x", b'{"properties":{}}'),
        (b"task-0", b'{"properties":{}}'),
        (b"commit-a", b'{"tasks":"1"}'),
        (b"commit-a", b'{"tasks":-1}'),
        (b"commit-a", b'{"tasks":true}'),
        (b"target-state-a", b'{"state":"FLYING"}'),
        (b"target-state-a", b'{"state":"STARTED","state.v2":7}'),
        (b"session-key", b'{"key":1}'),
        (b"session-key", None),
        (b"logger-cluster-x", b'{"level":5}'),
        (b"something-else", b"{}"),
    ],
)
def test_a_record_of_a_wrong_format_changes_nothing(key: bytes | None, value: bytes | None) -> None:
    state = ConfigState()
    read(state, [*config_store.connector_entries("a", CONFIG), *config_store.task_entries("a", [{"n": "0"}])])
    assert state.apply(StateRecord(0, 9, 0, key, value)) is None
    assert state.connectors == {"a": CONFIG}
    assert state.task_configs("a") == [{"n": "0"}]
    assert state.target("a") is TargetState.STARTED
    assert state.session_key is None


def test_a_restart_request_with_wrong_types_restarts_the_connector_alone() -> None:
    value = json.dumps({"include-tasks": "yes", "only-failed": 1}).encode()
    assert ConfigState().apply(StateRecord(0, 0, 0, b"restart-connector-a", value)) == RestartRequest("a")
