"""Offsets of a sink in the target database, written in the transaction of the rows, with an epoch that fences.

One row per topic partition has the next offset. One more row per connector (topic '', partition -1) has the epoch: a
process takes the next epoch when it starts. Every transaction reads the epoch first and keeps others from changing it
until the transaction ends. So either a transaction of the old process is complete before the new process starts, or it
sees the new epoch and is rolled back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.client.data_types import TopicPartition
from moldau.connect.connectors.databases.dialect import DatabaseSession, Dialect
from moldau.connect.connectors.databases.errors import DatabaseError, FencedError

_EPOCH_TOPIC: Final = ""
_EPOCH_PARTITION: Final = -1


class OffsetsInDatabase:
    """The table of offsets, as one connector uses it."""

    def __init__(self, dialect: Dialect, table: str, connector: str) -> None:
        self._dialect = dialect
        self._table = dialect.table_name(table)
        self._quoted = dialect.quoted(self._table)
        self._connector = dialect.text(connector)
        self._name = connector

    def create(self, session: DatabaseSession) -> None:
        """Create the table if it is missing."""
        quote = self._dialect.quote
        text, number = self._dialect.offsets_types
        try:
            session.execute(
                f"CREATE TABLE IF NOT EXISTS {self._quoted} ({quote('connector')} {text} NOT NULL, "
                f"{quote('topic')} {text} NOT NULL, {quote('partition')} {number} NOT NULL, "
                f"{quote('next_offset')} {number} NOT NULL, {quote('epoch')} {number} NOT NULL, "
                f"PRIMARY KEY ({quote('connector')}, {quote('topic')}, {quote('partition')}))"
            )
        except DatabaseError as error:
            try:
                session.rows(f"SELECT 1 FROM {self._quoted} LIMIT 1")
            except DatabaseError:
                raise DatabaseError(
                    f"the table of offsets {self._table.text} cannot be created: {error}. Create it, grant the right, "
                    "or set offsets.table.name to nothing (records may then be written twice after a failure)"
                ) from None

    def take_epoch(self, session: DatabaseSession) -> int:
        """Become the owner: every transaction of an earlier epoch fails from now on."""
        session.begin()
        try:
            found = session.rows(self._select("epoch", _EPOCH_TOPIC, _EPOCH_PARTITION, self._dialect.lock_row))
            epoch = int(found[0][0]) + 1 if found else 1
            self._put(session, _EPOCH_TOPIC, _EPOCH_PARTITION, 0, epoch, exists=bool(found))
            session.commit()
        except BaseException:
            session.rollback()
            raise
        return epoch

    def check_epoch(self, session: DatabaseSession, epoch: int, *, lock: bool) -> None:
        """Raise FencedError if another process is the owner; with `lock`, nobody becomes it in this transaction."""
        suffix = self._dialect.share_row if lock else ""
        found = session.rows(self._select("epoch", _EPOCH_TOPIC, _EPOCH_PARTITION, suffix))
        now = int(found[0][0]) if found else None
        if now != epoch:
            raise FencedError(
                f"connector {self._name} was taken over by another process (epoch {now}, this process has {epoch}); "
                "nothing was written"
            )

    def next_offset(self, session: DatabaseSession, partition: TopicPartition) -> int | None:
        """The next offset of a partition, locked until the end of the transaction."""
        found = session.rows(self._select("next_offset", partition.topic, partition.partition, self._dialect.lock_row))
        return int(found[0][0]) if found else None

    def put(
        self, session: DatabaseSession, partition: TopicPartition, offset: int, epoch: int, *, exists: bool
    ) -> None:
        self._put(session, partition.topic, partition.partition, offset, epoch, exists=exists)

    def change(self, session: DatabaseSession, epoch: int, offsets: Mapping[TopicPartition, int | None] | None) -> None:
        """Set the offsets of some partitions, or remove them (None); without `offsets`, remove all of the connector."""
        session.begin()
        try:
            self.check_epoch(session, epoch, lock=True)
            for partition, offset in (dict.fromkeys(self.all(session)) if offsets is None else offsets).items():
                session.execute(f"DELETE FROM {self._quoted} {self._where(partition.topic, partition.partition)}")
                if offset is not None:
                    self.put(session, partition, offset, epoch, exists=False)
            session.commit()
        except BaseException:
            session.rollback()
            raise

    def all(self, session: DatabaseSession) -> dict[TopicPartition, int]:
        quote = self._dialect.quote
        found = session.rows(
            f"SELECT {quote('topic')}, {quote('partition')}, {quote('next_offset')} FROM {self._quoted} "
            f"WHERE {quote('connector')} = {self._connector} AND {quote('partition')} >= 0"
        )
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in found}

    def _where(self, topic: str, partition: int) -> str:
        quote = self._dialect.quote
        return (
            f"WHERE {quote('connector')} = {self._connector} AND {quote('topic')} = {self._dialect.text(topic)} "
            f"AND {quote('partition')} = {partition}"
        )

    def _select(self, column: str, topic: str, partition: int, suffix: str) -> str:
        quoted = self._dialect.quote(column)
        return f"SELECT {quoted} FROM {self._quoted} {self._where(topic, partition)} {suffix}".rstrip()

    def _put(
        self, session: DatabaseSession, topic: str, partition: int, offset: int, epoch: int, *, exists: bool
    ) -> None:
        quote = self._dialect.quote
        if exists:
            session.execute(
                f"UPDATE {self._quoted} SET {quote('next_offset')} = {offset}, {quote('epoch')} = {epoch} "
                f"{self._where(topic, partition)}"
            )
            return
        names = ", ".join(map(quote, ("connector", "topic", "partition", "next_offset", "epoch")))
        session.execute(
            f"INSERT INTO {self._quoted} ({names}) "
            f"VALUES ({self._connector}, {self._dialect.text(topic)}, {partition}, {offset}, {epoch})"
        )
