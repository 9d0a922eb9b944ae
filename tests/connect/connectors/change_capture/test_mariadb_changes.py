"""Change capture from MariaDB with Debezium's MySQL connector: the replayed topic equals the table."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from moldau.connect.connectors.change_capture.source import MariaDBChanges
from tests.connect.connectors.change_capture.support import ChangeTopics
from tests.support.databases import PASSWORD, USER, MariaDBServer
from tests.support.process import BrokerProcess

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(400)]

TOPIC = "shop.inventory.items"


@pytest.fixture
def server(mariadb: MariaDBServer) -> MariaDBServer:
    return mariadb


def settings(server: MariaDBServer, bootstrap: str) -> dict[str, object]:
    return {
        "name": "changes",
        "database.hostname": "127.0.0.1",
        "database.port": server.port,
        "database.user": USER,
        "database.password": PASSWORD,
        "database.server.id": 4711,
        "topic.prefix": "shop",
        "database.include.list": "inventory",
        "include.schema.changes": "false",
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        "schema.history.internal.kafka.topic": "shop-history",
    }


def test_the_replayed_topic_equals_the_table(server: MariaDBServer, broker: BrokerProcess) -> None:
    server.execute(
        None,
        "CREATE DATABASE not_captured",
        "CREATE TABLE not_captured.ids (id uuid)",  # a type that the parser of Debezium's MySQL connector refuses
        "CREATE DATABASE inventory",
        "CREATE TABLE inventory.items (id INT PRIMARY KEY, name VARCHAR(50), price DECIMAL(10,2) DEFAULT 1.50)",
        "INSERT INTO inventory.items (id, name) VALUES " + ", ".join(f"({i}, 'n{i}')" for i in range(1, 21)),
    )
    done = {"c": 0, "u": 0, "d": 0}

    def change(first: int, *, wide: bool = False) -> None:
        columns, more = ("id, name, size", ", 7") if wide else ("id, name", "")
        for key in range(first, first + 10):
            server.execute("inventory", f"INSERT INTO items ({columns}) VALUES ({key}, 'n{key}'{more})")
            server.execute("inventory", f"UPDATE items SET name = 'u{key}' WHERE id = {key}")
        server.execute("inventory", f"DELETE FROM items WHERE id IN ({first}, {first + 5})")
        for kind, count in (("c", 10), ("u", 10), ("d", 2)):
            done[kind] += count

    with closing(ChangeTopics(MariaDBChanges, settings(server, broker.bootstrap))) as topics:
        topics.poll_until(lambda: topics.operations(TOPIC).get("r") == 20, "the snapshot")

        def caught_up() -> bool:
            found = topics.operations(TOPIC)
            return all(found.get(kind, 0) >= count for kind, count in done.items())

        change(100)
        topics.poll_until(caught_up, "the first changes")
        change(200)
        assert topics.connector._capture is not None
        os.kill(topics.connector._capture.pid, signal.SIGKILL)
        server.execute("inventory", "ALTER TABLE items ADD COLUMN size INT", "ALTER TABLE items DROP COLUMN price")
        change(300, wide=True)
        topics.poll_until(caught_up, "the changes after a kill")
        server.kill()
        topics.poll()
        server.start()
        change(400, wide=True)
        topics.take_over()
        topics.poll_until(caught_up, "the changes after the restart of the database")
        table = {row[0]: (row[1], row[2]) for row in server.rows("inventory", "SELECT id, name, size FROM items")}
        replayed = topics.replayed(TOPIC)
        assert {key: (row["name"], row.get("size")) for key, row in replayed.items()} == table
        assert topics.operations(TOPIC) == {"r": 20, **done}
