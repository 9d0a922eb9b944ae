"""SQLite database of a shop. It writes down each change of its tables, in the same transaction as the change.

Triggers add a row to the table `outbox` for each inserted, updated or deleted row. So the outbox has exactly the
changes that were committed. The function `sender` of `generator.py` sends them to a topic.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TABLES = {
    "products": {"id": "INTEGER PRIMARY KEY", "name": "TEXT", "stock": "INTEGER", "cents": "INTEGER"},
    "orders": {"id": "INTEGER PRIMARY KEY", "product": "INTEGER", "amount": "INTEGER", "state": "TEXT"},
}

# What the application does, each in one transaction.
COMMANDS = {
    "offer": ["INSERT INTO products VALUES (:product, :name, 0, :cents)"],
    "deliver": ["UPDATE products SET stock = stock + :amount WHERE id = :product"],
    "price": ["UPDATE products SET cents = :cents WHERE id = :product"],
    "order": [
        "INSERT INTO orders VALUES (:order, :product, :amount, 'new')",
        "UPDATE products SET stock = stock - :amount WHERE id = :product",
    ],
    "ship": ["UPDATE orders SET state = 'shipped' WHERE id = :order"],
    "cancel": [
        "UPDATE products SET stock = stock + amount FROM orders WHERE orders.id = :order AND products.id = product",
        "DELETE FROM orders WHERE id = :order",
    ],
}

OUTBOX = """
    CREATE TABLE IF NOT EXISTS outbox (
        lsn INTEGER PRIMARY KEY AUTOINCREMENT, table_name TEXT, id INTEGER, row TEXT, at_ms INTEGER, last INTEGER
    )
"""


def create_tables(database: sqlite3.Connection) -> None:
    for table, columns in TABLES.items():
        definitions = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({definitions})")


def create_triggers(database: sqlite3.Connection) -> None:
    database.execute(OUTBOX)
    for table, columns in TABLES.items():
        row = ", ".join(f"'{name}', NEW.{name}" for name in columns)
        for event, identity, image in (
            ("INSERT", "NEW.id", f"json_object({row})"),
            ("UPDATE", "NEW.id", f"json_object({row})"),
            ("DELETE", "OLD.id", "NULL"),
        ):
            database.execute(
                f"CREATE TRIGGER IF NOT EXISTS {table}_{event} AFTER {event} ON {table} BEGIN "
                f"INSERT INTO outbox (table_name, id, row) VALUES ('{table}', {identity}, {image}); END"
            )


class ShopDatabase:
    """The database, as the application uses it."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode = WAL")  # readers do not wait for the application
        self._database.execute("PRAGMA synchronous = NORMAL")
        with self._database:
            create_tables(self._database)
            create_triggers(self._database)

    def do(self, command: Mapping[str, Any], at_ms: int) -> None:
        """Do what a command says, in one transaction that is committed at this time."""
        with self._database:
            for statement in COMMANDS[command["do"]]:
                self._database.execute(statement, dict(command))
            self._database.execute("UPDATE outbox SET at_ms = ? WHERE at_ms IS NULL", (at_ms,))
            self._database.execute("UPDATE outbox SET last = 1 WHERE lsn = (SELECT max(lsn) FROM outbox)")

    def changes_after(self, lsn: int) -> list[dict[str, Any]]:
        """Committed changes, in order. The last change of each transaction is marked."""
        found = self._database.execute(
            "SELECT lsn, table_name, id, row, at_ms, last FROM outbox WHERE lsn > ? ORDER BY lsn", (lsn,)
        )
        return [
            {
                "lsn": lsn,
                "table": table,
                "id": identity,
                "row": None if row is None else json.loads(row),
                "at_ms": at_ms,
                "last": last is not None,
            }
            for lsn, table, identity, row, at_ms, last in found
        ]

    def close(self) -> None:
        self._database.close()


def rows_of(path: Path) -> dict[str, Any]:
    """All rows of a database's tables, by table and id."""
    if not path.exists():
        return {}
    database = sqlite3.connect(path)
    try:
        create_tables(database)
        return {
            f"{table}/{row[0]}": dict(zip(columns, row, strict=True))
            for table, columns in TABLES.items()
            for row in database.execute(f"SELECT * FROM {table} ORDER BY id")
        }
    finally:
        database.close()
