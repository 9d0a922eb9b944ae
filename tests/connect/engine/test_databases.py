"""Databases in the engine: from a table to a topic to a table, and changes to a topic, over restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.connect.connectors.databases.support import TestDatabase
from tests.connect.engine.conftest import Worker, all_records
from tests.support.databases import PASSWORD, USER, PostgreSQLServer
from tests.support.waiting import wait_until

JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}

Names = Callable[[], str]

LONG_S = 120.0
"""A Spark session, or a Java machine with Debezium, starts first."""


@pytest.fixture
def database(postgresql: PostgreSQLServer) -> Iterator[TestDatabase]:
    found = TestDatabase.on_server("postgresql", postgresql, "postgres")
    yield found
    found.execute("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")


def login(database: TestDatabase) -> dict[str, str]:
    return {"connection.url": database.url, **database.login}


def test_a_table_reaches_another_table_exactly_once_over_restarts(
    worker: Worker, database: TestDatabase, unused_name: Names
) -> None:
    source, sink, table = unused_name(), unused_name(), unused_name().replace("-", "_")[:60]
    database.execute(
        f'CREATE TABLE "{table}" (id BIGSERIAL PRIMARY KEY, name TEXT, price NUMERIC(9,2))',
        f"INSERT INTO \"{table}\" (name, price) SELECT 'n' || i, i / 100.0 FROM generate_series(1, 3000) i",
    )
    reading = {
        **JSON, **login(database), "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "mode": "incrementing", "table.whitelist": table, "topic.prefix": "", "poll.interval.ms": "100",
    }  # fmt: skip
    # Plain inserts without a key: a record that is written twice would be seen.
    writing = {
        **JSON, **login(database), "connector.class": "JdbcSink", "topics": table, "table.name.format": "copied",
        "auto.create": "true", "batch.size": "500",
    }  # fmt: skip

    def copied() -> int:
        if not database.rows("SELECT to_regclass('copied')::text")[0][0]:
            return 0
        return int(database.rows("SELECT count(*) FROM copied")[0][0])

    worker.engine.start(source, reading)
    worker.engine.start(sink, writing)
    wait_until(lambda: copied() >= 500, "the first rows", LONG_S)
    worker.stop(sink)
    worker.stop(source)
    database.execute(f"INSERT INTO \"{table}\" (name, price) SELECT 'later', 1 FROM generate_series(1, 500)")
    worker.engine.start(sink, writing)
    worker.engine.start(source, reading)
    wait_until(lambda: copied() >= 3500, "all rows", LONG_S)
    worker.stop(source, sink)
    same = f'SELECT count(*), count(DISTINCT c.id) FROM copied c JOIN "{table}" t USING (id, name, price)'
    assert database.rows(same) == [(3500, 3500)]
    assert copied() == 3500


def test_changed_rows_reach_a_topic_once(
    worker: Worker, database: TestDatabase, unused_name: Names, bootstrap: str, tmp_path: Path
) -> None:
    name, prefix = unused_name(), unused_name()
    files = TestDatabase.in_file(tmp_path / "events.db")
    files.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL, name TEXT)")
    files.execute("INSERT INTO events VALUES (1, '2024-05-01 10:00:00', 'a'), (2, '2024-05-01 10:00:00', 'b')")
    config = {
        **JSON, "connector.class": "DatabaseSource", "connection.url": files.url, "mode": "timestamp",
        "timestamp.column.name": "changed", "topic.prefix": f"{prefix}-", "poll.interval.ms": "50",
    }  # fmt: skip

    def seen() -> list[str]:
        records = all_records(bootstrap, f"{prefix}-events")
        return [json.loads(record.value)["payload"]["name"] for record in records]

    worker.engine.start(name, config)
    wait_until(lambda: worker.records(name) >= 2, "two records", LONG_S)
    worker.stop(name)
    files.execute("UPDATE events SET name = 'a2', changed = '2024-05-01 10:00:01' WHERE id = 1")
    worker.engine.start(name, config)
    wait_until(lambda: worker.records(name) >= 1)
    worker.stop(name)
    assert sorted(seen()) == ["a", "a2", "b"]


def test_captured_changes_reach_a_topic_once_over_a_restart(
    worker: Worker, database: TestDatabase, unused_name: Names, bootstrap: str
) -> None:
    name, prefix = unused_name(), unused_name().replace("-", "_")
    database.execute(
        "CREATE TABLE items (id INT PRIMARY KEY, name TEXT)", "INSERT INTO items VALUES (1, 'a'), (2, 'b')"
    )
    slot = f"slot_{prefix}"[:60].lower()
    config = {
        **JSON, "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1", "database.port": str(database.server.port), "database.user": USER,
        "database.password": PASSWORD, "database.dbname": "postgres", "topic.prefix": prefix,
        "table.include.list": "public.items", "slot.name": slot, "publication.name": slot,
        "publication.autocreate.mode": "filtered", "value.converter.schemas.enable": "false",
    }  # fmt: skip

    def events() -> list[Any]:
        return [json.loads(record.value) for record in all_records(bootstrap, f"{prefix}.public.items") if record.value]

    worker.engine.start(name, config)
    wait_until(lambda: worker.records(name) >= 2, "two records", LONG_S)
    database.execute("UPDATE items SET name = 'a2' WHERE id = 1")
    wait_until(lambda: worker.records(name) >= 3)
    worker.stop(name)
    database.execute("DELETE FROM items WHERE id = 2", "INSERT INTO items VALUES (3, 'c')")
    worker.engine.start(name, config)
    wait_until(lambda: worker.records(name) >= 3, "three records", LONG_S)  # the delete, its tombstone, and the insert
    worker.stop(name)
    found = events()
    assert [event["op"] for event in found] == ["r", "r", "u", "d", "c"]
    assert [event["after"] and event["after"]["name"] for event in found] == ["a", "b", "a2", None, "c"]
    assert found[0]["source"]["connector"] == "postgresql"
    database.execute(f"SELECT pg_drop_replication_slot('{slot}')", f"DROP PUBLICATION {slot}")
