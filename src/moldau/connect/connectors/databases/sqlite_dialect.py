"""SQLite: read and written with Python's own module.

adbc-driver-sqlite is several times faster, but guesses the type of a column from its first rows and fails at a later
row that has another one; a column that begins with nulls is enough.

A column's type follows from its declaration, as SQLite's own affinity does. A value of another type is an error that
names the column. Dates and times are ISO texts, or milliseconds since 1970.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.connect.connectors.databases.dialect import (
    ROWS_PER_CHUNK,
    Column,
    DatabaseSession,
    Dialect,
    InsertMode,
    ReadOptions,
    TableName,
    WritePlan,
    date_schema,
    local_nanoseconds,
    name_parts,
    numeric_schema,
    primitive,
    time_schema,
    timestamp_schema,
)
from moldau.connect.connectors.databases.errors import MISSING_TABLE_HINT, conflict, refused, refused_row, unreachable
from moldau.connect.connectors.databases.value_columns import columns_of_rows
from moldau.connect.schemas import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType

BUSY_TIMEOUT_S: Final = 30.0
"""How long a statement waits for another writer."""

_LOOK_ROWS: Final = 1000
"""The rows that decide the type of a column without declaration, such as the result of a function."""

_NUMERIC: Final = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)
_BY_PYTHON_TYPE: Final = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}


def schema_of_declaration(declared: str, optional: bool, options: ReadOptions) -> Schema:
    """The schema of a column from its declared type, with SQLite's rules of affinity."""
    name = declared.upper()
    numeric = _NUMERIC.search(name)
    if numeric:
        return numeric_schema(int(numeric[1]), int(numeric[2] or 0), optional, options.numeric_mapping)
    if "BOOL" in name:
        return primitive(SchemaType.BOOLEAN, optional)
    if "INT" in name and "POINT" not in name:
        return primitive(SchemaType.INT64, optional)
    if any(part in name for part in ("CHAR", "CLOB", "TEXT", "JSON", "UUID")):
        return primitive(SchemaType.STRING, optional)
    if name == "DATE":
        return date_schema(optional)
    if name == "TIME":
        return time_schema(optional)
    if "TIMESTAMP" in name or "DATETIME" in name:
        return timestamp_schema(optional)
    if not name or "BLOB" in name or "BINARY" in name:
        return primitive(SchemaType.BYTES, optional)
    return primitive(SchemaType.FLOAT64, optional)


class SQLiteSession(DatabaseSession):
    """A connection to a file."""

    def __init__(self, dialect: SQLiteDialect, connection: sqlite3.Connection) -> None:
        super().__init__(dialect)
        self._connection = connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        address = self.dialect.address
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.DataError) as error:
            raise refused_row(address, str(error)) from None
        except sqlite3.OperationalError as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                raise conflict(address, text) from None
            raise refused(address, text, MISSING_TABLE_HINT if "no such table" in text else "") from None
        except sqlite3.Error as error:
            raise refused(address, str(error)) from None

    def execute(self, sql: str) -> None:
        with self._translated():
            self._connection.execute(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._translated():
            return self._connection.execute(sql).fetchall()

    def tables(self, kinds: Sequence[str]) -> list[TableName]:
        wanted = ", ".join(f"'{kind.lower()}'" for kind in kinds if kind in ("TABLE", "VIEW"))
        found = self.rows(
            f"SELECT name FROM sqlite_master WHERE type IN ({wanted}) AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
            "ORDER BY name"
        )
        return [TableName(name) for (name,) in found]

    def columns(self, table: TableName, options: ReadOptions) -> list[Column]:
        found = self.rows(f"PRAGMA table_info({self.dialect.quote(table.name)})")
        keys = [row for row in found if row[5]]
        return [self._column(row, options, rowid=len(keys) == 1 and row[2].upper() == "INTEGER") for row in found]

    def _column(self, row: tuple[Any, ...], options: ReadOptions, *, rowid: bool) -> Column:
        _, name, declared, not_null, default, key = row
        alias = bool(key) and rowid
        return Column(
            name,
            declared,
            schema_of_declaration(declared, not (not_null or alias), options),
            self.dialect.quote(name),
            key=bool(key),
            has_default=default is not None or alias,
            auto_increment=alias,
        )

    def query_columns(self, query: str, options: ReadOptions) -> list[Column]:
        view = "moldau_query"
        try:
            self.execute(f"CREATE TEMP VIEW {view} AS {query}")
            found = self.rows(f"PRAGMA temp.table_info({view})")
        finally:
            self.execute(f"DROP VIEW IF EXISTS temp.{view}")
        if any(not row[2] for row in found):
            with self._translated():
                looked = self._connection.execute(f"SELECT * FROM ({query}) LIMIT {_LOOK_ROWS}").fetchall()
            found = [row if row[2] else (*row[:2], _guessed(looked, row[0]), *row[3:]) for row in found]
        return [
            Column(name, declared, schema_of_declaration(declared, True, options), self.dialect.quote(name))
            for _, name, declared, *_ in found
        ]

    def read(self, sql: str, columns: Sequence[Column], options: ReadOptions) -> Iterator[pa.RecordBatch]:
        with self._translated():
            cursor = self._connection.execute(sql)
        while True:
            with self._translated():
                rows = cursor.fetchmany(ROWS_PER_CHUNK)
            if not rows:
                return
            yield columns_of_rows(rows, columns, options.zone)

    def begin(self) -> None:
        # Immediate: a transaction that reads first and writes later could not get the lock that another one holds.
        self.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.rollback()
        except sqlite3.Error:
            pass

    def write(self, plan: WritePlan, rows: pa.Table) -> None:
        quote = self.dialect.quote
        table = self.dialect.quoted(plan.table)
        names = plan.columns
        if plan.mode is InsertMode.UPDATE:
            names = (*plan.others, *plan.keys)
            changes = ", ".join(f"{quote(name)} = ?" for name in plan.others)
            matches = " AND ".join(f"{quote(name)} = ?" for name in plan.keys)
            sql = f"UPDATE {table} SET {changes} WHERE {matches}"
        else:
            marks = ", ".join("?" * len(names))
            sql = f"INSERT INTO {table} ({', '.join(map(quote, names))}) VALUES ({marks})"
        if plan.mode is InsertMode.UPSERT:
            changes = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in plan.others)
            action = f"UPDATE SET {changes}" if changes else "NOTHING"
            sql += f" ON CONFLICT ({', '.join(map(quote, plan.keys))}) DO {action}"
        self._many(sql, rows.select(names))

    def delete(self, plan: WritePlan, keys: pa.Table) -> None:
        matches = " AND ".join(f"{self.dialect.quote(name)} = ?" for name in plan.keys)
        self._many(f"DELETE FROM {self.dialect.quoted(plan.table)} WHERE {matches}", keys.select(plan.keys))

    def _many(self, sql: str, rows: pa.Table) -> None:
        values = [plain_values(column) for column in rows.columns]
        with self._translated():
            self._connection.executemany(sql, zip(*values, strict=True))

    def close(self) -> None:
        self._connection.close()


def _guessed(rows: Sequence[tuple[Any, ...]], index: int) -> str:
    kinds = {type(row[index]) for row in rows} - {type(None)}
    if kinds == {int, float}:
        return "REAL"
    return _BY_PYTHON_TYPE.get(kinds.pop(), "TEXT") if len(kinds) == 1 else "TEXT"


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column as Python's numbers, texts and bytes; dates, times and decimals are texts."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = pc.strftime(column, format="%Y-%m-%d %H:%M:%S")
    elif pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    values: list[Any] = column.to_pylist()
    return values


class SQLiteDialect(Dialect):
    """SQLite at a path."""

    name: ClassVar[str] = "SQLite"
    lock_row: ClassVar[str] = ""
    share_row: ClassVar[str] = ""

    create_missing: bool = False
    """True: a file that does not exist is created, for sinks."""

    def open(self) -> DatabaseSession:
        from urllib.parse import quote

        mode = "rwc" if self.create_missing else "rw"
        try:
            connection = sqlite3.connect(
                f"file:{quote(self.address.database)}?mode={mode}",
                uri=True,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,  # the driver's threads take turns
            )
        except sqlite3.Error as error:
            raise unreachable(self.address, str(error)) from None
        return SQLiteSession(self, connection)

    def table_name(self, text: str) -> TableName:
        return TableName(name_parts(text)[-1])

    def declared_type(self, schema: Schema, *, key: bool) -> str:
        logical = {DECIMAL: "NUMERIC", DATE: "DATE", TIME: "TIME", TIMESTAMP: "TIMESTAMP"}.get(schema.name or "")
        if logical:
            return logical
        if schema.type in (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64):
            return "INTEGER"
        found = {
            SchemaType.FLOAT32: "REAL",
            SchemaType.FLOAT64: "REAL",
            SchemaType.BOOLEAN: "BOOLEAN",
            SchemaType.STRING: "TEXT",
            SchemaType.BYTES: "BLOB",
        }.get(schema.type)
        if found is None:
            raise self.unwritable(schema)
        return found

    def current_time(self, session: DatabaseSession) -> int:
        ((now,),) = session.rows("SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)")
        return int(now) * 1_000_000

    def moment(self, expression: str) -> str:
        milliseconds = f"CAST(ROUND((julianday({expression}) - 2440587.5) * 86400000) AS INTEGER)"
        return f"CASE typeof({expression}) WHEN 'integer' THEN {expression} ELSE {milliseconds} END * 1000"

    def compare_time(self, expression: str, operator: str, nanoseconds: int, column: Column, zone: str) -> str:
        """Texts cannot be compared: they may have a fraction of a second, or none. The index is of no use here."""
        return f"{self.moment(expression)} {operator} {local_nanoseconds(nanoseconds, zone) // 1000}"
