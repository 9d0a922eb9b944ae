"""What goes wrong outside of Connect: a full disk, a deleted topic, a password that was changed. Each is a status."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, Producer
from moldau.connect.engine import ConnectorState
from tests.connect.connectors.databases.support import TestDatabase
from tests.connect.engine.conftest import Worker, all_records
from tests.support.databases import PASSWORD, PostgreSQLServer
from tests.support.waiting import wait_until

Names = Callable[[], str]

DISK_KB = 256


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, as large as DISK_KB."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.getuid() != 0:
        pytest.skip("only root can mount a small file system")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_KB}k", "tmpfs", str(path)], check=True)
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def lines_in(target: Path) -> list[str]:
    found = [path for path in target.rglob("*.txt") if not path.name.startswith((".", "_"))]
    return sorted(line for path in found for line in path.read_text().splitlines())


def test_a_sink_with_a_full_disk_says_so_and_writes_everything_once_when_there_is_room(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Names, small_disk: Path
) -> None:
    name, topic = unused_name(), new_topic(1)
    filler = small_disk / "filler"
    filler.write_bytes(bytes((DISK_KB - 32) * 1024))
    values = [f"{n:06d}" + "x" * 94 for n in range(1000)]
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            producer.send(topic, value.encode())
    target = small_disk / "lake"
    settings = {"path": str(target), "format": "text", "rotate.schedule.interval.ms": "0"}
    worker.engine.start(name, {"connector.class": "FileSink", "topics": topic, **settings})
    told = worker.wait_for_report(name, ConnectorState.RESTARTING)
    assert told.trace is not None
    assert f"no space left in {target}" in told.trace
    assert lines_in(target) == []
    filler.unlink()
    wait_until(lambda: worker.records(name) == len(values), "all records are written", 60)
    worker.stop(name)
    assert lines_in(target) == values


def test_a_sink_whose_topic_is_deleted_says_so_and_goes_on_when_it_is_back(
    worker: Worker, bootstrap: str, new_topic: Callable[..., str], unused_name: Names, tmp_path: Path
) -> None:
    name, topic = unused_name(), new_topic(1)
    target = tmp_path / "lake"
    settings = {"path": str(target), "format": "text", "rotate.schedule.interval.ms": "0"}
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"before")
    worker.engine.start(name, {"connector.class": "FileSink", "topics": topic, **settings})
    wait_until(lambda: lines_in(target) == ["before"], "the first record is written", 60)
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: f"these topics do not exist: {topic};" in (worker.trace(name) or ""), "the status says so")
        admin.create_topics([topic])
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send(topic, b"after")
    wait_until(lambda: lines_in(target) == ["after", "before"], "the new topic is read", 60)
    wait_until(lambda: worker.trace(name) is None, "the status is well again")
    worker.stop(name)


def test_a_changed_password_is_named_in_the_status_without_being_shown(
    worker: Worker, postgresql: PostgreSQLServer, bootstrap: str, unused_name: Names
) -> None:
    name, prefix = unused_name(), unused_name() + "-"
    database = TestDatabase.on_server("postgresql", postgresql, "postgres")
    user, table = "reader_of_faults", "faulty_rows"
    database.execute(
        f"CREATE TABLE {table} (id BIGSERIAL PRIMARY KEY, name TEXT)",
        f"INSERT INTO {table} (name) VALUES ('a')",
        f"CREATE USER {user} PASSWORD 'first secret'",
        f"GRANT SELECT ON {table} TO {user}",
        f"GRANT USAGE ON SCHEMA public TO {user}",  # other tests replace this schema, and its usual rights are lost
    )
    config: dict[str, Any] = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": database.url,
        "connection.user": user,
        "connection.password": "first secret",
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": table,
        "topic.prefix": prefix,
        "poll.interval.ms": "100",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    try:
        worker.engine.start(name, config)
        wait_until(lambda: worker.records(name) == 1, "the first row", 60)
        database.execute(
            f"ALTER USER {user} PASSWORD 'second secret'",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{user}'",
        )
        failed = worker.wait_for(name, ConnectorState.FAILED)
        assert failed.trace is not None
        assert "password authentication failed" in failed.trace and user in failed.trace
        assert "first secret" not in failed.trace and PASSWORD not in failed.trace
        database.execute(f"INSERT INTO {table} (name) VALUES ('b')")
        worker.engine.start(name, {**config, "connection.password": "second secret"})
        wait_until(lambda: len(all_records(bootstrap, prefix + table)) == 2, "both rows", 60)
        worker.stop(name)
    finally:
        database.execute(f"DROP TABLE {table}", f"DROP OWNED BY {user}", f"DROP USER {user}")
