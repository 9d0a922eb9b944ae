"""Database sink: records to rows of tables, as Confluent's JDBC sink connector does, exactly once.

Rows and the offsets after them are one transaction in the database (`sink_offsets.py`). A repeated task begins after
what is written, and a process that slept while another one took over cannot write. Within a transaction, the last
record of a key wins; transactions of a partition are in the order of its offsets.

Without table of offsets (`offsets.table.name` empty), records may be written twice after a failure.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.client.data_types import TopicPartition
from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigDef
from moldau.connect.connector import SinkCommit, SinkConnector, SinkSlice, SinkTask
from moldau.connect.connectors.databases import sink_settings
from moldau.connect.connectors.databases.connection_settings import check_login, dialect_for, open_session
from moldau.connect.connectors.databases.dialect import DatabaseSession, Dialect, InsertMode, TableName, WritePlan
from moldau.connect.connectors.databases.errors import ConflictError, DatabaseError, RefusedRowError
from moldau.connect.connectors.databases.mariadb_dialect import MariaDBDialect
from moldau.connect.connectors.databases.postgresql_dialect import PostgreSQLDialect
from moldau.connect.connectors.databases.sink_offsets import OffsetsInDatabase
from moldau.connect.connectors.databases.sink_rows import (
    SinkRows,
    halves,
    last_per_key,
    merged,
    next_offset,
    one_topic,
    rows_of,
    runs,
)
from moldau.connect.connectors.databases.sink_settings import SINK
from moldau.connect.connectors.databases.sink_tables import SinkTables
from moldau.connect.connectors.databases.sqlite_dialect import SQLiteDialect
from moldau.connect.errors import DataError
from moldau.connect.record_batch import ConnectBatch

LOCK_TIMEOUT_S: Final = 20
"""How long a statement waits for the locks of others, and how long the server waits for the next statement of a
transaction: a process that stands still must not keep its locks."""


def sink_dialect(config: Mapping[str, Any]) -> Dialect:
    """The dialect of a sink, whose transactions cannot stand still."""
    dialect = dialect_for(config)
    if isinstance(dialect, SQLiteDialect):
        dialect.create_missing = True
    elif isinstance(dialect, PostgreSQLDialect):
        limit = f"{LOCK_TIMEOUT_S}s"
        dialect.settings |= {"lock_timeout": limit, "idle_in_transaction_session_timeout": limit}
        dialect.settings["timezone"] = config["db.timezone"]
    return dialect


def sink_session(dialect: Dialect, config: Mapping[str, Any]) -> DatabaseSession:
    session = open_session(dialect, config)
    if isinstance(dialect, MariaDBDialect):
        try:
            session.execute(f"SET idle_transaction_timeout = {LOCK_TIMEOUT_S}")
        except DatabaseError:
            pass  # MySQL has no such limit: there, the connection ends a little later
        session.execute(f"SET innodb_lock_wait_timeout = {LOCK_TIMEOUT_S}, wait_timeout = {3 * LOCK_TIMEOUT_S}")
    return session


class DatabaseSink(SinkConnector):
    """The class of the name `JdbcSinkConnector`."""

    config_def: ClassVar[ConfigDef] = SINK

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._dialect = sink_dialect(config)
        self._epoch: int | None = None
        self._session: DatabaseSession | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        return sink_settings.problems(config) or check_login(config, sink_dialect(config))

    @property
    def _offsets(self) -> OffsetsInDatabase | None:
        table = self.config["offsets.table.name"]
        return OffsetsInDatabase(self._dialect, table, self.name) if table else None

    def start(self) -> None:
        session = self._driver_session()
        if self._offsets is not None:
            self._offsets.create(session)
            self._epoch = self._offsets.take_epoch(session)

    def _driver_session(self) -> DatabaseSession:
        if self._session is None:
            self._session = sink_session(self._dialect, self.config)
        return self._session

    def written_offsets(self) -> Mapping[TopicPartition, int] | None:
        return None if self._offsets is None else self._offsets.all(self._driver_session())

    def change_offsets(self, offsets: Mapping[TopicPartition, int | None] | None) -> None:
        self.start()
        if self._offsets is not None and self._epoch is not None:
            self._offsets.change(self._driver_session(), self._epoch, offsets)

    def write(self, part: SinkSlice, batches: Iterator[ConnectBatch], task: SinkTask) -> int:
        if self._offsets is not None and self._epoch is None:
            raise MoldauError("DatabaseSink.write was called before start: it has no epoch")
        writer = _Writer(self, part, task)
        try:
            return writer.write(batches)
        finally:
            writer.close()

    def commit(self, commit: SinkCommit) -> None:
        """The rows are visible already; a process that lost its connector must not commit the group's offsets."""
        if self._offsets is None or self._epoch is None:
            return
        try:
            self._offsets.check_epoch(self._driver_session(), self._epoch, lock=False)
        except MoldauError:
            self.close()
            raise

    def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            session.close()


class _Writer:
    """The work of one task: transactions of up to batch.size records."""

    def __init__(self, sink: DatabaseSink, part: SinkSlice, task: SinkTask) -> None:
        self._config = sink.config
        self._dialect = sink._dialect
        self._offsets = sink._offsets
        self._epoch = sink._epoch or 0
        self._part = part
        self._session = sink_session(self._dialect, self._config)
        self._tables = SinkTables(self._session, self._config)
        self._mode = InsertMode(self._config["insert.mode"])
        self._size: int = self._config["batch.size"]
        self._written = 0
        self._reject = task.reject

    def close(self) -> None:
        self._session.close()

    def write(self, batches: Iterator[ConnectBatch]) -> int:
        pending: list[ConnectBatch] = []
        count = 0
        for batch in batches:
            for one in one_topic(batch, self._size):
                if count + one.num_rows > self._size and pending:
                    self._write_batches(pending, next_offset(pending[-1]))
                    pending, count = [], 0
                pending.append(one)
                count += one.num_rows
        # Also without rows: transforms may have dropped them, and their offsets are done.
        self._write_batches(pending, self._part.end)
        return self._written

    def _write_batches(self, batches: Sequence[ConnectBatch], end: int) -> None:
        """Write in one transaction. If the target refuses rows that may be rejected, find them by halving."""
        try:
            rows = [rows_of(one, self._table(one.topic[0].as_py()), self._config) for one in batches]
            self._transaction(rows, end)
        except (DataError, RefusedRowError) as error:
            if self._reject is None:
                raise
            first, second = halves(batches)
            if not second:
                (batch,) = first
                self._reject(batch, pa.array([True]), error)
                self._transaction([], end)
                return
            self._write_batches(first, next_offset(first[-1]))
            self._write_batches(second, end)

    def _table(self, topic: str) -> TableName:
        return self._dialect.table_name(self._config["table.name.format"].replace("${topic}", topic))

    def _transaction(self, pending: Sequence[SinkRows], end: int) -> None:
        """Write in one transaction; one that had to give way to another is repeated."""
        parts = [(one, self._plan(one)) for one in merged(pending)]
        for attempt in range(self._config["max.retries"] + 1):
            try:
                self._try_transaction(parts, end)
                return
            except ConflictError:
                if attempt == self._config["max.retries"]:
                    raise
                time.sleep(self._config["retry.backoff.ms"] / 1000)

    def _try_transaction(self, parts: Sequence[tuple[SinkRows, WritePlan | None]], end: int) -> None:
        session = self._session
        session.begin()
        try:
            done = None
            if self._offsets is not None:
                self._offsets.check_epoch(session, self._epoch, lock=True)
                done = self._offsets.next_offset(session, self._part.partition)
            if done is None or done < end:
                written = sum(self._write_part(part, plan, done) for part, plan in parts if plan is not None)
                if self._offsets is not None:
                    self._offsets.put(session, self._part.partition, end, self._epoch, exists=done is not None)
                session.commit()
                self._written += written
            else:
                session.rollback()
        except BaseException:
            session.rollback()
            raise

    def _plan(self, part: SinkRows) -> WritePlan | None:
        only_deletes = bool(part.deleted.true_count == len(part))
        columns = self._tables.prepare(part.table, part.fields, only_deletes=only_deletes)
        if columns is None:
            return None
        names = tuple(field.name for field in part.fields)
        types = tuple(columns[name].declared for name in names)
        return WritePlan(part.table, names, part.keys, self._mode, types)

    def _write_part(self, part: SinkRows, plan: WritePlan, done: int | None) -> int:
        if done is not None:
            part = part.after(done)
        count = len(part)
        if not count:
            return 0
        if self._mode is InsertMode.UPSERT:
            part = last_per_key(part)
            # The keys of both are different: the order does not matter, and two statements are enough.
            pairs = [(deletes, _chosen(part, deletes)) for deletes in (True, False)]
        else:
            pairs = list(runs(part))
        for deletes, rows in pairs:
            if not len(rows):
                continue
            if deletes:
                self._session.delete(plan, rows.rows.select(plan.keys))
            else:
                if self._mode is InsertMode.UPDATE:
                    rows = last_per_key(rows)
                self._session.write(plan, rows.rows)
        return count


def _chosen(part: SinkRows, deletes: bool) -> SinkRows:
    return part.filter(part.deleted if deletes else pc.invert(part.deleted))
