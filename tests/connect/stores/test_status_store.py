"""Status topic: the bytes of Kafka Connect 4.3, and the rule for slow workers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from moldau.connect.states import State, TaskId
from moldau.connect.stores import status_store
from moldau.connect.stores.status_store import Entry, Status, StatusState, TopicUse, may_replace
from moldau.service.state_topic import StateRecord

RUNNING = Status(State.RUNNING, "127.0.0.1:8083", 4, version="4.3.0")


def read(state: StatusState, entries: Iterable[Entry]) -> None:
    for offset, (key, value) in enumerate(entries):
        state.apply(StateRecord(0, offset, 0, key, value))


def test_what_we_write_has_the_bytes_of_kafka_connect() -> None:
    assert status_store.connector_entry("src", RUNNING) == (
        b"status-connector-src",
        b'{"state":"RUNNING","trace":null,"worker_id":"127.0.0.1:8083","generation":4,"version":"4.3.0"}',
    )
    assert status_store.task_entry(TaskId("src", 0), Status(State.UNASSIGNED, "127.0.0.1:8083", 5)) == (
        b"status-task-src-0",
        b'{"state":"UNASSIGNED","trace":null,"worker_id":"127.0.0.1:8083","generation":5,"version":null}',
    )
    assert status_store.topic_entry(TopicUse("lines", "src", 0, 1794991488719)) == (
        b"status-topic-lines:connector-src",
        b'{"topic":{"name":"lines","connector":"src","task":0,"discoverTimestamp":1794991488719}}',
    )
    destroyed = Status(State.DESTROYED, "127.0.0.1:8083", 5)
    assert status_store.connector_entry("src", destroyed) == (b"status-connector-src", None)


def test_states_of_older_workers_without_a_version_are_read() -> None:
    state = StatusState()
    value = b'{"state":"FAILED","trace":"boom","worker_id":"w:1","generation":2}'
    read(state, [(b"status-connector-a", value), (b"status-task-a-b-11", value)])
    assert state.connectors == {"a": Status(State.FAILED, "w:1", 2, "boom")}
    assert state.tasks("a-b") == {11: Status(State.FAILED, "w:1", 2, "boom")}


def test_topics_are_kept_by_connector_until_their_tombstone() -> None:
    state = StatusState()
    use = TopicUse("a:b", "c", 0, 7)
    read(state, [status_store.topic_entry(use)])
    assert state.topics("c") == {"a:b": use}
    read(state, [(status_store.topic_key("a:b", "c"), None)])
    assert state.topics("c") == {}
    assert state.names() == set()


def test_everything_of_a_connector_can_be_removed() -> None:
    state = StatusState()
    entries = [
        status_store.connector_entry("a", RUNNING),
        status_store.task_entry(TaskId("a", 0), RUNNING),
        status_store.task_entry(TaskId("a", 1), RUNNING),
        status_store.topic_entry(TopicUse("t", "a", 0, 1)),
        status_store.connector_entry("b", RUNNING),
    ]
    read(state, entries)
    assert state.removal_entries("a") == [(key, None) for key, _ in entries[:4]]
    read(state, state.removal_entries("a"))
    assert state.names() == {"b"}


@pytest.mark.parametrize(
    ("stored", "new", "allowed"),
    [
        (None, RUNNING, True),
        (Status(State.RUNNING, "other:1", 4), RUNNING, True),
        (Status(State.RUNNING, "other:1", 3), RUNNING, True),
        (Status(State.RUNNING, "other:1", 5), RUNNING, False),
        (Status(State.RUNNING, "127.0.0.1:8083", 5), RUNNING, True),
    ],
)
def test_a_worker_never_replaces_the_state_that_another_one_wrote_in_a_later_generation(
    stored: Status | None, new: Status, allowed: bool
) -> None:
    assert may_replace(stored, new) is allowed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b"status-connector-a", b"no json"),
        (b"status-connector-a", b'{"state":"FLYING","worker_id":"w","generation":1}'),
        (b"status-connector-a", b'{"state":"FAILED","generation":1}'),
        (b"status-connector-a", b'{"state":"FAILED","worker_id":"w","generation":"1"}'),
        (b"status-connector-", b'{"state":"FAILED","worker_id":"w","generation":1}'),
        (b"status-task-a", b'{"state":"FAILED","worker_id":"w","generation":1}'),
        (b"status-task-a-x", b'{"state":"FAILED","worker_id":"w","generation":1}'),
        (b"status-topic-a", b'{"topic":{"name":"a","connector":"a","task":0,"discoverTimestamp":1}}'),
        (b"status-topic-:connector-a", b'{"topic":{"name":"a","connector":"a","task":0,"discoverTimestamp":1}}'),
        (b"status-topic-t:connector-a", b'{"topic":{"name":"t"}}'),
        (b"status-topic-t:connector-a", b'{"topic":"t"}'),
        (b"else", b"{}"),
    ],
)
def test_a_record_of_a_wrong_format_changes_nothing(key: bytes | None, value: bytes) -> None:
    state = StatusState()
    read(state, [status_store.connector_entry("a", RUNNING)])
    state.apply(StateRecord(0, 1, 0, key, value))
    assert state.connectors == {"a": RUNNING}
    assert state.names() == {"a"}
