"""Database source: rows of tables and queries to topics, as Confluent's JDBC source connector does.

Mode incrementing over tables reads ranges of ids. A table that only grows gives the same rows for the same range: Spark
tasks read the ranges, and a repeated task reads the same records. A row whose transaction commits after a larger id was
read is lost, as with every connector of this kind; `incrementing.delay.interval.ms` waits for such transactions.

All other modes cannot read the same rows again (a changed row has left its old place): the driver polls them, and rows
and offsets land in one transaction. Mode bulk has no offsets: it reads everything again after a restart.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau.client.errors import MoldauError
from moldau.connect.config_def import ConfigDef
from moldau.connect.connector import (
    Connector,
    Polled,
    PolledSourceConnector,
    Slice,
    SourceConnector,
    SourceOffsets,
)
from moldau.connect.connectors.databases import source_settings
from moldau.connect.connectors.databases.connection_settings import check_login, dialect_for, open_session
from moldau.connect.connectors.databases.dialect import DatabaseSession, TableName
from moldau.connect.connectors.databases.source_settings import BULK, INCREMENTING, SOURCE
from moldau.connect.connectors.databases.source_tables import (
    MOMENT_COLUMN,
    Position,
    SourceTable,
    changed_since,
    chosen_tables,
    position_of,
    position_of_row,
    read_options,
    select,
    source_query,
    source_table,
)
from moldau.connect.record_batch import ConnectBatch

SLICE_ROWS: Final = 1_000_000
"""The most rows of one slice, which is one transaction."""


class _Database:
    """The driver's connection to the source, opened when it is needed, and its list of tables."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.dialect = dialect_for(config)
        self._session: DatabaseSession | None = None
        self._tables: list[TableName] = []
        self._next_look = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self.config, "dialect": self.dialect, "_session": None, "_tables": [], "_next_look": 0.0}

    @property
    def session(self) -> DatabaseSession:
        if self._session is None:
            self._session = open_session(self.dialect, self.config)
        return self._session

    def tables(self) -> list[TableName]:
        """The tables to read; new ones are looked for every table.poll.interval.ms."""
        now = time.monotonic()
        if now >= self._next_look:
            self._tables = chosen_tables(self.session, self.config)
            self._next_look = now + self.config["table.poll.interval.ms"] / 1000
        return self._tables

    def forget(self) -> None:
        """Close the connection, and look for tables again: after an error neither is trusted."""
        self._next_look = 0.0
        if self._session is not None:
            session, self._session = self._session, None
            session.close()


class DatabaseSource(Connector):
    """The class of the name `JdbcSourceConnector`: it creates the connector that belongs to the mode."""

    config_def: ClassVar[ConfigDef] = SOURCE

    def __new__(cls, config: Mapping[str, Any]) -> Any:
        if config["mode"] == INCREMENTING and not config["query"]:
            return GrowingTables(config)
        return PolledTables(config)

    @classmethod
    def check(cls, config: Mapping[str, Any]) -> dict[str, list[str]]:
        return source_settings.problems(config) or check_login(config, dialect_for(config)) or _check_tables(config)


def _check_tables(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Missing tables and columns, found by looking at them."""
    session = open_session(dialect_for(config), config)
    setting = "query" if config["query"] else "table.whitelist"
    try:
        if config["query"]:
            source_query(session, config)
        else:
            for table in chosen_tables(session, config):
                setting = "mode"
                source_table(session, table, config)
    except MoldauError as error:
        return {setting: [str(error)]}
    finally:
        session.close()
    return {}


class GrowingTables(SourceConnector):
    """Mode incrementing: ranges of ids, read by Spark tasks."""

    config_def: ClassVar[ConfigDef] = SOURCE

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._database = _Database(config)
        self._next_poll: dict[str, float] = {}
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def slices(self, offsets: SourceOffsets) -> list[Slice]:
        try:
            found = [self._slice(table, offsets) for table in self._database.tables()]
        except Exception:
            self._database.forget()
            raise
        return [part for part in found if part is not None]

    def _slice(self, name: TableName, offsets: SourceOffsets) -> Slice | None:
        now = time.monotonic()
        if now < self._next_poll.get(name.text, 0.0):
            return None
        session, dialect = self._database.session, self._database.dialect
        table = source_table(session, name, self.config)
        assert table.incrementing is not None
        stored = offsets[table.partition]
        low = position_of(stored, self.config).number
        column = dialect.quote(table.incrementing.name)
        rest = f"FROM {table.relation} WHERE {column} > {low}"
        ((largest,),) = session.rows(f"SELECT MAX({column}) {rest}")
        high = self._settled(name.text, now, None if largest is None else int(largest))
        if high is None or high <= low:
            self._next_poll[name.text] = now + self.config["poll.interval.ms"] / 1000
            return None
        limited = session.rows(f"SELECT {column} {rest} ORDER BY {column} LIMIT 1 OFFSET {SLICE_ROWS - 1}")
        if limited:
            high = min(high, int(limited[0][0]))
        return Slice(table.partition, {"incrementing": high}, stored, (table, low, high))

    def _settled(self, name: str, now: float, largest: int | None) -> int | None:
        """The largest id that was seen at least the delay ago."""
        delay_s = self.config["incrementing.delay.interval.ms"] / 1000
        if not delay_s or largest is None:
            return largest
        seen = self._seen.setdefault(name, deque())
        if not seen or seen[-1][1] != largest:
            seen.append((now, largest))
        settled = None
        while seen and seen[0][0] + delay_s <= now:
            settled = seen[0][1]
            if len(seen) == 1:
                break
            seen.popleft()
        return settled

    def read(self, part: Slice) -> Iterator[ConnectBatch]:
        table, low, high = part.detail
        dialect = self._database.dialect
        column = dialect.quote(table.incrementing.name)
        sql = select(table, dialect, [f"{column} > {low}", f"{column} <= {high}"], [column], "")
        session = open_session(dialect, self.config)
        try:
            for rows in session.read(sql, table.columns, read_options(self.config)):
                yield from _batches(table, rows, self.config)
        finally:
            session.close()

    def close(self) -> None:
        self._database.forget()


class PolledTables(PolledSourceConnector):
    """Modes bulk, timestamp and timestamp+incrementing, and every query."""

    config_def: ClassVar[ConfigDef] = SOURCE

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self.poll_interval_s = config["poll.interval.ms"] / 1000
        self._database = _Database(config)

    def poll(self, offsets: SourceOffsets) -> Iterator[Polled]:
        try:
            for table in self._tables():
                if self.config["mode"] == BULK:
                    yield from self._bulk(table)
                elif table.timestamps:
                    yield from self._changed(table, offsets)
                else:
                    yield from self._numbered(table, offsets)
        except GeneratorExit:
            self._database.forget()
            raise
        except Exception:
            self._database.forget()
            raise

    def _tables(self) -> Iterator[SourceTable]:
        if self.config["query"]:
            yield source_query(self._database.session, self.config)
            return
        for name in self._database.tables():
            yield source_table(self._database.session, name, self.config)

    def _rows(self, table: SourceTable, conditions: list[str], order: list[str]) -> Iterator[pa.RecordBatch]:
        database = self._database
        sql = select(table, database.dialect, conditions, order, self.config["query.suffix"])
        columns = (*table.columns, MOMENT_COLUMN) if table.timestamps else table.columns
        yield from database.session.read(sql, columns, read_options(self.config))

    def _bulk(self, table: SourceTable) -> Iterator[Polled]:
        for rows in self._rows(table, [], []):
            for batch in _batches(table, rows, self.config):
                yield Polled(batch)

    def _numbered(self, table: SourceTable, offsets: SourceOffsets) -> Iterator[Polled]:
        """Mode incrementing with a query."""
        assert table.incrementing is not None
        start = position_of(offsets[table.partition], self.config)
        column = self._database.dialect.quote(table.incrementing.name)
        for rows in self._rows(table, [f"{column} > {start.number}"], [column]):
            end = self._position(table, rows, rows.num_rows - 1)
            yield _polled(table, rows, end)

    def _changed(self, table: SourceTable, offsets: SourceOffsets) -> Iterator[Polled]:
        database = self._database
        now = database.dialect.current_time(database.session)
        start = position_of(offsets[table.partition], self.config)
        if start.nanoseconds is not None and start.nanoseconds < 0:  # timestamp.initial=-1: from now on
            start = Position(start.number, now)
        end = now - self.config["timestamp.delay.interval.ms"] * 1_000_000
        conditions, order = changed_since(table, database.dialect, self.config["db.timezone"], start, end)
        rows = self._rows(table, conditions, order)
        if table.incrementing is not None:
            for one in rows:
                yield _polled(table, one, self._position(table, one, one.num_rows - 1))
            return
        yield from self._whole_moments(table, rows, start)

    def _whole_moments(self, table: SourceTable, rows: Iterator[pa.RecordBatch], reached: Position) -> Iterator[Polled]:
        """Batches that end where the time changes: an offset between two rows of the same time would skip the second.

        The last rows of a batch wait for the next one. A time with more rows than a batch is stored without its offset
        until its last row: after a crash in between, these rows are read again.
        """
        waiting: pa.RecordBatch | None = None
        for one in rows:
            if waiting is not None:
                one = pa.concat_batches([waiting, one])
            moments = one.column(one.num_columns - 1)
            last = moments[one.num_rows - 1].as_py()
            cut = one.num_rows
            while cut and moments[cut - 1].as_py() == last:
                cut -= 1
            if cut == 0:
                cut = one.num_rows - 1
            else:
                reached = self._position(table, one, cut - 1)
            if cut:
                yield _polled(table, one.slice(0, cut), reached)
            waiting = one.slice(cut)
        if waiting is not None:
            yield _polled(table, waiting, self._position(table, waiting, waiting.num_rows - 1))

    def _position(self, table: SourceTable, rows: pa.RecordBatch, index: int) -> Position:
        return position_of_row(table, rows, index, self._database.dialect, self.config["db.timezone"])

    def close(self) -> None:
        self._database.forget()


def _polled(table: SourceTable, rows: pa.RecordBatch, end: Position) -> Polled:
    """Rows with the offset after them: they are never divided, because only the last row has this offset."""
    offset = end.offset(table)
    return Polled(table.batch(rows), [(table.partition, offset)] if offset else [])


def _batches(table: SourceTable, rows: pa.RecordBatch, config: Mapping[str, Any]) -> Iterator[ConnectBatch]:
    size = config["batch.max.rows"]
    for first in range(0, rows.num_rows, size):
        yield table.batch(rows.slice(first, size))
