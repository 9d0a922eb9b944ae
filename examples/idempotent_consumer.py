"""An idempotent consumer: it keeps the ids of the messages that it has processed, and does nothing twice.

    python examples/idempotent_consumer.py localhost:9092 --topic orders --database orders.db

At least once means that a message may come again: the consumer crashed between its work and its commit, or whoever
sent the message was not sure and sent it again, as another record with the same id. So each message carries an id (the
header `message-id`), and the work of a message and its id are stored in one transaction. An id that is there already
means that the work is, too.
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
    """What the sender calls this message; without a name of its own it has that of its place."""
    for name, value in record.headers:
        if name == ID_HEADER and value is not None:
            return value.decode()
    return f"{record.topic}-{record.partition}-{record.offset}"


class Orders:
    """Orders, and the ids of the messages that they came from."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, isolation_level=None, timeout=30)
        self.database.execute("pragma journal_mode=wal")
        self.database.executescript(TABLES)

    def take(self, record: Record) -> bool:
        """Enter the order, unless this message was entered before; whether it was new."""
        self.database.execute("begin immediate")
        with self.database:
            new = self.database.execute("insert or ignore into processed values (?)", [message_id(record)]).rowcount
            if new:
                order = [record.key.decode(), record.value.decode()]
                self.database.execute("insert into orders values (?, ?)", order)
        return bool(new)


def run(bootstrap_servers: str, topic: str, database: Path, group: str, stop_at_the_end: bool) -> None:
    orders = Orders(database)
    # A static member: started again after a crash it takes its partitions back at once, where the group would else wait
    # for the session of the one that died to end. More than one at a time need names of their own.
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": group, "group.instance.id": f"{group}-1"}
    with Consumer(settings, topic, enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        while True:
            records = consumer.poll(timeout=0.5)
            if records:
                new = sum(orders.take(record) for record in records)
                consumer.commit()  # after the work: what comes again is known by its id
                print(f"{new} of {len(records)} messages were new", flush=True)
            elif stop_at_the_end and consumer.assignment() and not any(consumer.lag().values()):
                return


def main() -> None:
    parser = argparse.ArgumentParser(description="Take orders, each once, whatever comes twice.")
    parser.add_argument("bootstrap_servers", help="for example localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--database", type=Path, default=Path("orders.db"))
    parser.add_argument("--group", default="orders")
    parser.add_argument("--stop-at-the-end", action="store_true", help="stop when all there is has been read")
    given = parser.parse_args()
    run(given.bootstrap_servers, given.topic, given.database, given.group, given.stop_at_the_end)


if __name__ == "__main__":
    main()
