"""Database of the bank, and the Connect worker that captures its transactions.

The database is SQLite, so that nothing has to be installed. For PostgreSQL or MariaDB, another `connection.url` is all
that changes in the connector.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from moldau.examples.place import Place, read_topic
from moldau.examples.processes import STOP_TIMEOUT_S, environment
from moldau.examples.study import StudyError

TRANSACTIONS = "bank.transactions"
CAPTURE_TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.2

TABLE = """
    CREATE TABLE IF NOT EXISTS transactions (
        id INTEGER PRIMARY KEY, account TEXT NOT NULL, cents INTEGER NOT NULL, at TIMESTAMP NOT NULL
    )
"""

WORKER = """
listeners=http://127.0.0.1:0
offset.storage.topic=bank.connect-offsets
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
"""

CONNECTOR = """
name=bank-transactions
connector.class=JdbcSource
connection.url=jdbc:sqlite:{database}
table.whitelist=transactions
topic.prefix=bank.
mode=timestamp+incrementing
timestamp.column.name=at
incrementing.column.name=id
poll.interval.ms=200
transforms=key,account
transforms.key.type=org.apache.kafka.connect.transforms.ValueToKey
transforms.key.fields=account
transforms.account.type=org.apache.kafka.connect.transforms.ExtractField$Key
transforms.account.field=account
"""


def open_database(place: Place) -> sqlite3.Connection:
    database = sqlite3.connect(_path(place))
    database.execute("PRAGMA journal_mode=WAL")  # the connector reads while we write
    database.execute("PRAGMA synchronous=OFF")
    database.execute(TABLE)
    return database


def insert(database: sqlite3.Connection, transaction: Mapping[str, Any]) -> None:
    at = datetime.fromtimestamp(transaction["at"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    row = (transaction["id"], transaction["account"], transaction["cents"], at)
    database.execute("INSERT INTO transactions VALUES (?, ?, ?, ?)", row)
    database.commit()


@contextmanager
def capturing(place: Place, database: sqlite3.Connection) -> Iterator[None]:
    """Run a Connect worker that writes each new row of the table to the topic; at the end wait for the last row."""
    worker, connector = place.directory / "worker.properties", place.directory / "connector.properties"
    settings = "".join(f"{name}={value}\n" for name, value in place.client.items())
    worker.write_text(settings + WORKER)
    connector.write_text(CONNECTOR.format(database=_path(place)))
    command = [sys.executable, "-m", "moldau", "connect", "standalone", str(worker), str(connector)]
    log = place.directory / "connect.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )
    try:
        yield
        (rows,) = database.execute("SELECT count(*) FROM transactions").fetchone()
        deadline = time.monotonic() + CAPTURE_TIMEOUT_S
        while sum(1 for _ in read_topic(place, TRANSACTIONS)) < rows:
            if process.poll() is not None or time.monotonic() > deadline:
                raise StudyError(f"Connect has not captured all {rows} transactions:\n{log.read_text()[-2000:]}")
            time.sleep(LOOK_EVERY_S)
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _path(place: Place) -> Path:
    return place.directory / "bank.sqlite"
