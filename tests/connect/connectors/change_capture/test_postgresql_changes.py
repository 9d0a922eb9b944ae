"""Change capture from PostgreSQL: the replayed topic equals the table, whatever happens in between."""

from __future__ import annotations

import os
import random
import signal
from contextlib import closing

import pytest

from moldau.connect.connectors.change_capture.capture_process import CaptureProcess
from moldau.connect.connectors.change_capture.source import ChangeCaptureError, PostgreSQLChanges
from tests.connect.connectors.change_capture.support import ChangeTopics, config_of
from tests.support.databases import PASSWORD, USER, PostgreSQLServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(400)]

TOPIC = "shop.public.items"


@pytest.fixture
def server(postgresql: PostgreSQLServer) -> PostgreSQLServer:
    return postgresql


def settings(server: PostgreSQLServer) -> dict[str, object]:
    return {
        "name": "changes",
        "database.hostname": "127.0.0.1",
        "database.port": server.port,
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": "postgres",
        "topic.prefix": "shop",
        "table.include.list": "public.items",
        "slot.name": "changes",
        "publication.name": "changes",
        "publication.autocreate.mode": "filtered",
    }


class Load:
    """Changes of one row each, in transactions of several."""

    def __init__(self, server: PostgreSQLServer, seed: int) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self._next = 1000
        self.operations = {"c": 0, "u": 0, "d": 0}
        self.wide = False

    def run(self, transactions: int) -> None:
        with self._server.connect(autocommit=False) as connection, connection.cursor() as cursor:
            for _ in range(transactions):
                for _ in range(self._chance.randrange(1, 6)):
                    cursor.execute(self._statement(cursor))
                connection.commit()

    def _statement(self, cursor: object) -> str:
        choice = self._chance.random()
        cursor.execute("SELECT id FROM items ORDER BY id")  # type: ignore[attr-defined]
        known = [row[0] for row in cursor.fetchall()]  # type: ignore[attr-defined]
        if choice < 0.4 or len(known) < 3:
            self._next += 1
            self.operations["c"] += 1
            names, values = (
                ("id, name, size", f"{self._next}, 'n{self._next}', 7")
                if self.wide
                else ("id, name", f"{self._next}, 'n'")
            )
            return f"INSERT INTO items ({names}) VALUES ({values})"
        chosen = self._chance.choice(known)
        if choice < 0.75:
            self.operations["u"] += 1
            return f"UPDATE items SET name = 'u{self._chance.randrange(10**6)}' WHERE id = {chosen}"
        self.operations["d"] += 1
        return f"DELETE FROM items WHERE id = {chosen}"


def test_the_replayed_topic_equals_the_table(server: PostgreSQLServer, seed: int) -> None:
    server.execute(
        "postgres",
        "CREATE TABLE items (id INT PRIMARY KEY, name TEXT, price NUMERIC(10,2) DEFAULT 1.50)",
        "INSERT INTO items (id, name) SELECT i, 'n' || i FROM generate_series(1, 20) i",
    )
    load = Load(server, seed)
    with closing(ChangeTopics(PostgreSQLChanges, settings(server))) as topics:
        topics.poll_until(lambda: topics.operations(TOPIC).get("r") == 20, "the snapshot")
        snapshot = {**topics.operations(TOPIC)}

        def caught_up() -> bool:
            found = topics.operations(TOPIC)
            return all(found.get(kind, 0) >= count for kind, count in load.operations.items())

        load.run(30)
        topics.poll_until(caught_up, "the first changes")
        slot = "SELECT (pg_current_wal_lsn() - confirmed_flush_lsn)::int8 FROM pg_replication_slots"
        topics.poll_until(lambda: server.rows("postgres", slot)[0][0] < 20_000, "the slot follows what is stored")

        # The connector's process is killed with changes on their way.
        load.run(30)
        assert topics.connector._capture is not None
        os.kill(topics.connector._capture.pid, signal.SIGKILL)
        load.run(10)
        topics.poll_until(caught_up, "the changes after a kill")
        assert topics.failures

        # The table changes its shape, and another worker takes over.
        server.execute("postgres", "ALTER TABLE items ADD COLUMN size INT", "ALTER TABLE items DROP COLUMN price")
        load.wide = True
        load.run(20)
        topics.take_over()
        load.run(10)
        topics.poll_until(caught_up, "the changes after a takeover")

        # The database is restarted under the connector.
        server.kill()
        topics.poll()
        server.start()
        load.run(20)
        topics.poll_until(caught_up, "the changes after the restart of the database")

        table = {row[0]: (row[1], row[2]) for row in server.rows("postgres", "SELECT id, name, size FROM items")}
        replayed = topics.replayed(TOPIC)
        assert {key: (row["name"], row.get("size")) for key, row in replayed.items()} == table
        # Nothing lost and nothing doubled: one event per change.
        assert topics.operations(TOPIC) == {**snapshot, **load.operations}
        ((partition, offset),) = topics.offsets
        assert partition == {"server": "shop"} and offset["lsn"] > 0
    server.execute(
        "postgres", "SELECT pg_drop_replication_slot('changes')", "DROP TABLE items", "DROP PUBLICATION changes"
    )


def test_a_refused_login_is_a_final_error_without_the_password(server: PostgreSQLServer) -> None:
    wrong = {**settings(server), "database.password": "not-the-secret"}
    with closing(ChangeTopics(PostgreSQLChanges, wrong)) as topics:
        with pytest.raises(ChangeCaptureError, match="was refused") as caught:
            topics.poll_until(lambda: False, "an error")
        assert "not-the-secret" not in str(caught.value)


def test_validation_is_that_of_debezium(server: PostgreSQLServer) -> None:
    found = PostgreSQLChanges.check(config_of(PostgreSQLChanges, {**settings(server), "snapshot.mode": "sometimes"}))
    assert list(found) == ["snapshot.mode"]


def test_a_process_whose_connector_stands_still_ends_and_frees_the_slot(server: PostgreSQLServer) -> None:
    """A worker that is stopped (SIGSTOP) must not keep the slot from the worker that takes over."""
    server.execute("postgres", "CREATE TABLE items (id INT PRIMARY KEY)")
    properties = PostgreSQLChanges.properties(config_of(PostgreSQLChanges, settings(server)))
    with closing(CaptureProcess("changes", properties, [], ["-Xmx256m"], lease_s=6.0)) as process:
        active = "SELECT count(*) FROM pg_replication_slots WHERE active"
        wait_until(lambda: server.rows("postgres", active) == [(1,)], "the slot is in use", 90.0)
        process._over.set()  # no lease from now on, as from a process that stands still
        wait_until(lambda: process._process.poll() == 3, "the process has ended by itself", 90.0)
        wait_until(lambda: server.rows("postgres", active) == [(0,)], "the slot is free")
    server.execute(
        "postgres", "SELECT pg_drop_replication_slot('changes')", "DROP PUBLICATION changes", "DROP TABLE items"
    )
