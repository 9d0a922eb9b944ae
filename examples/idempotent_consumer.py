"""Idempotent consumer: stores the ids of processed messages, so that it processes no message twice.

    python examples/idempotent_consumer.py localhost:9092 --topic orders --database orders.db

With at-least-once delivery a message may arrive twice: the consumer crashed between its work and its commit, or the
sender did not know whether the message was written and sent it again, as another record with the same id. So each
message has an id (the header `message-id`), and the result of a message and its id are stored in one transaction. If
the id is already stored, the result is, too.
"""

from __future__ import annotations

import argparse
import sqlite3
from pathlib import Path

from moldau import Consumer
from moldau.client.consumer.decode import Record

TABLES = """
create table if not exists processed (message_id text primary key);
create table if not exists orders (customer text, item text);
"""
ID_HEADER = "message-id"


def message_id(record: Record) -> str:
    """The id from the header; without this header, topic, partition and offset of the record."""
    for name, value in record.headers:
        if name == ID_HEADER and value is not None:
            return value.decode()
    return f"{record.topic}-{record.partition}-{record.offset}"


class Orders:
    """The database of orders, and of the ids of their messages."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, isolation_level=None, timeout=30)
        self.database.execute("pragma journal_mode=wal")
        self.database.executescript(TABLES)

    def take(self, record: Record) -> bool:
        """Store the order, unless this message was processed before. Returns whether it was new."""
        self.database.execute("begin immediate")
        with self.database:
            new = self.database.execute("insert or ignore into processed values (?)", [message_id(record)]).rowcount
            if new:
                order = [record.key.decode(), record.value.decode()]
                self.database.execute("insert into orders values (?, ?)", order)
        return bool(new)


def run(bootstrap_servers: str, topic: str, database: Path, group: str, stop_at_the_end: bool) -> None:
    orders = Orders(database)
    # A static member: after a crash, the restarted process gets its partitions back immediately. Otherwise the group
    # would wait for the session timeout of the dead member. Each concurrent process needs its own group.instance.id.
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": group, "group.instance.id": f"{group}-1"}
    with Consumer(settings, topic, enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        while True:
            records = consumer.poll(timeout=0.5)
            if records:
                new = sum(orders.take(record) for record in records)
                consumer.commit()  # after the work: a message that arrives again is recognised by its id
                print(f"{new} of {len(records)} messages were new", flush=True)
            elif stop_at_the_end and consumer.assignment() and not any(consumer.lag().values()):
                return


def main() -> None:
    parser = argparse.ArgumentParser(description="Store orders, each one once, even if its message arrives twice.")
    parser.add_argument("bootstrap_servers", help="for example localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--database", type=Path, default=Path("orders.db"))
    parser.add_argument("--group", default="orders")
    parser.add_argument("--stop-at-the-end", action="store_true", help="stop when all records have been read")
    given = parser.parse_args()
    run(given.bootstrap_servers, given.topic, given.database, given.group, given.stop_at_the_end)


if __name__ == "__main__":
    main()
