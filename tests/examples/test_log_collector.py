"""The log collector of the study of web activity: each line once, whatever ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau import Producer
from moldau.errors import BrokerError, ProducerFenced
from moldau.examples import study as studies
from moldau.examples.place import Place, read_topic
from moldau.examples.run import create_topics
from moldau.examples.study import StudyError
from moldau.examples.web_activity.log_collector import (
    COLLECTOR,
    HOST_LOGS,
    LogCollector,
    collect,
    committed_positions,
    new_lines,
)


@pytest.fixture
def web(place: Place) -> Place:
    place.directory.mkdir()
    create_topics(studies.find("web_activity"), place, fresh=False)
    return place


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = tmp_path / "logs"
    directory.mkdir()
    return directory


@pytest.fixture
def producer(web: Place) -> Iterator[Producer]:
    """The producer of a collector that is not in a `with` block: it can die."""
    producer = Producer(dict(web.client), transactional_id=COLLECTOR)
    producer.init_transactions()
    yield producer
    producer.close()


def add_lines(logs: Path, host: str, lines: range) -> None:
    with (logs / f"{host}.log").open("a") as file:
        file.writelines(f"line {number}\n" for number in lines)


def collected(web: Place) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for record in read_topic(web, HOST_LOGS):
        lines.setdefault(record.key, []).append((record.value or {})["line"])
    return lines


def all_lines(logs: Path) -> dict[str, list[str]]:
    return {path.stem: path.read_text().splitlines() for path in logs.iterdir()}


def test_a_collector_continues_where_the_last_commit_was(web: Place, logs: Path, producer: Producer) -> None:
    add_lines(logs, "web-1", range(100))
    add_lines(logs, "web-2", range(50))
    positions: dict[str, int] = {}
    assert collect(producer, logs, positions) == 150
    assert committed_positions(web) == positions
    # A transaction that is open when the collector dies: its lines are in the topic, but nobody reads them.
    add_lines(logs, "web-1", range(100, 200))
    producer.begin_transaction()
    for number in range(100, 150):
        producer.send(HOST_LOGS, b'{"host": "web-1", "line": "line %d"}' % number, key=b"web-1")
    producer.flush()
    add_lines(logs, "web-3", range(10))
    with LogCollector(web, logs):
        pass
    assert collected(web) == all_lines(logs)
    # The old collector was only slow. It cannot commit any more.
    with pytest.raises((ProducerFenced, BrokerError)):
        producer.commit_transaction()
    assert collected(web) == all_lines(logs)


def test_a_line_without_its_end_waits(web: Place, logs: Path, producer: Producer) -> None:
    path = logs / "web-1.log"
    path.write_text("one\ntw")
    positions: dict[str, int] = {}
    assert collect(producer, logs, positions) == 1
    assert collect(producer, logs, positions) == 0
    with path.open("a") as file:
        file.write("o\n")
    assert collect(producer, logs, positions) == 1
    assert collected(web) == {"web-1": ["one", "two"]}


def test_a_line_may_have_any_bytes_but_a_line_end(web: Place, logs: Path, producer: Producer) -> None:
    (logs / "web-1.log").write_bytes("a\u2028b\x0bc\n\n".encode() + b"\xff\n")
    assert collect(producer, logs, {}) == 3
    assert collected(web) == {"web-1": ["a\u2028b\x0bc", "", "\ufffd"]}


def test_a_line_that_is_too_long_ends_the_collector_with_its_place(
    web: Place, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.examples.web_activity.log_collector.MAX_BYTES", 20)
    (logs / "web-1.log").write_text("short\n" + 30 * "x" + "\n")
    with (
        pytest.raises(StudyError, match=r"web-1.log has a line of more than 20 bytes at position 6"),
        LogCollector(web, logs),
    ):
        pass
    assert collected(web) == {"web-1": ["short"]}


def test_a_long_file_is_collected_in_parts(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.examples.web_activity.log_collector.MAX_BYTES", 20)
    add_lines(logs, "web-1", range(10))
    parts, position = [], 0
    while part := new_lines(logs / "web-1.log", position):
        parts.append(part)
        position += len(part)
    assert len(parts) > 1 and all(part.endswith(b"\n") for part in parts)
    assert b"".join(parts) == (logs / "web-1.log").read_bytes()
