"""Exactly-once delivery into a database: results and offsets are written in one transaction.

    python examples/offsets_in_sqlite.py localhost:9092 --topic payments --database totals.db

The program adds up payments (the key of a record is the account, the value is the amount). It stores the offsets in its
own database, not in Kafka, in the same SQLite transaction as the totals. After a crash at any point, either both are
stored or neither is, so no payment is missed or counted twice. The group only assigns the partitions. A member reads
the start offset of each assigned partition from the database.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from moldau import Consumer, TopicPartition

TABLES = """
create table if not exists totals (account text primary key, total integer not null, payments integer not null);
create table if not exists offsets (topic text, part integer, next integer not null, primary key (topic, part));
"""


class Totals:
    """The database of totals per account, and of the offsets up to which payments are included."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite3.connect(path, isolation_level=None, timeout=30)
        self.database.execute("pragma journal_mode=wal")
        self.database.executescript(TABLES)

    def next_offset(self, partition: TopicPartition) -> int | None:
        query = "select next from offsets where topic = ? and part = ?"
        found = self.database.execute(query, partition).fetchone()
        return None if found is None else int(found[0])

    def add(self, payments: Sequence[tuple[str, int]], offsets: dict[TopicPartition, int]) -> None:
        """Store these payments and the next offsets in one transaction."""
        self.database.execute("begin immediate")
        with self.database:
            self.database.executemany(
                "insert into totals values (?, ?, 1) on conflict do update set "
                "total = total + excluded.total, payments = payments + 1",
                payments,
            )
            self.database.executemany(
                "insert into offsets values (?, ?, ?) on conflict do update set next = excluded.next",
                [(*partition, offset) for partition, offset in offsets.items()],
            )


class SeekToStoredOffsets:
    """Rebalance listener: starts each assigned partition at the offset in the database. Called inside poll."""

    def __init__(self, consumer: Consumer, totals: Totals) -> None:
        self.consumer = consumer
        self.totals = totals

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            offset = self.totals.next_offset(partition)
            if offset is None:
                self.consumer.seek_to_beginning(partition)
            else:
                self.consumer.seek(partition, offset)

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing: the database already has everything that was read."""


def run(bootstrap_servers: str, topic: str, database: Path, group: str, stop_at_the_end: bool) -> None:
    totals = Totals(database)
    # A static member: after a crash, the restarted process gets its partitions back immediately. Otherwise the group
    # would wait for the session timeout of the dead member. Each concurrent process needs its own group.instance.id.
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": group, "group.instance.id": f"{group}-1"}
    with Consumer(settings, enable_auto_commit=False, auto_offset_reset="none") as consumer:
        consumer.subscribe([topic], listener=SeekToStoredOffsets(consumer, totals))
        while True:
            records = consumer.poll(timeout=0.5)
            if records:
                offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                totals.add([(one.key.decode(), int(one.value)) for one in records], offsets)
                print(f"{len(records)} payments", flush=True)
            elif stop_at_the_end and consumer.assignment() and not any(consumer.lag().values()):
                return


def main() -> None:
    parser = argparse.ArgumentParser(description="Add up payments, exactly once, with the offsets in SQLite.")
    parser.add_argument("bootstrap_servers", help="for example localhost:9092")
    parser.add_argument("--topic", default="payments")
    parser.add_argument("--database", type=Path, default=Path("totals.db"))
    parser.add_argument("--group", default="totals")
    parser.add_argument("--stop-at-the-end", action="store_true", help="stop when all records have been read")
    given = parser.parse_args()
    run(given.bootstrap_servers, given.topic, given.database, given.group, given.stop_at_the_end)


if __name__ == "__main__":
    main()
