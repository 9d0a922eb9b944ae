"""Dialects of databases: the interface by which source and sink use SQLite, PostgreSQL and MariaDB.

A `Dialect` knows how a database writes names, values and types. A `DatabaseSession` is one open connection,
used by one thread at a time. Rows leave a session as Arrow record batches with the types of
`arrow_type(column.schema)`, and enter it as Arrow tables.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final

import pyarrow as pa

from moldau.connect.connectors.databases.errors import DatabaseError
from moldau.connect.connectors.databases.jdbc_url import MARIADB, DatabaseAddress
from moldau.connect.schemas import DATE, DECIMAL, PRECISION, SCALE, TIME, TIMESTAMP, Schema, SchemaType

ROWS_PER_CHUNK: Final = 10_000
"""Rows that are in memory at once while a table is read, and the most of one batch."""


@dataclass(frozen=True)
class TableName:
    """A table, with its schema (PostgreSQL) or database (MariaDB)."""

    name: str
    schema: str | None = None

    @property
    def text(self) -> str:
        """The name without quotes, as it is in offsets and messages."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Column:
    """A column of a table or of the result of a query."""

    name: str
    declared: str
    """The type in the words of the database."""
    schema: Schema
    select: str
    """The SQL expression that reads it."""
    key: bool = False
    has_default: bool = False
    """True also for columns that the database fills itself."""
    auto_increment: bool = False

    @property
    def nullable(self) -> bool:
        return self.schema.optional


class NumericMapping(Enum):
    """How NUMERIC columns appear in records: Confluent's numeric.mapping."""

    NONE = "none"
    PRECISION_ONLY = "precision_only"
    BEST_FIT = "best_fit"
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"


@dataclass(frozen=True)
class ReadOptions:
    """How values become records."""

    numeric_mapping: NumericMapping = NumericMapping.NONE
    zone: str = "UTC"
    """The time zone of dates with time that have none in the database."""


class InsertMode(Enum):
    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


@dataclass(frozen=True)
class WritePlan:
    """What to do with rows: the table, its columns that are written, and the columns of the key."""

    table: TableName
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    mode: InsertMode
    types: tuple[str, ...]
    """The declared types of `columns`."""

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name not in self.keys)


class DatabaseSession(ABC):
    """One open connection. Outside of `begin` and `commit`, every statement is a transaction of its own."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    @abstractmethod
    def execute(self, sql: str) -> None: ...

    @abstractmethod
    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The result of a query with few rows."""

    @abstractmethod
    def tables(self, kinds: Sequence[str]) -> list[TableName]:
        """The tables that are found without naming them; `kinds` are TABLE and VIEW."""

    @abstractmethod
    def columns(self, table: TableName, options: ReadOptions) -> list[Column]:
        """The columns of a table. Empty: there is no such table."""

    @abstractmethod
    def query_columns(self, query: str, options: ReadOptions) -> list[Column]:
        """The columns of the result of a query."""

    @abstractmethod
    def read(self, sql: str, columns: Sequence[Column], options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """The rows of a query that selects exactly these columns, at most ROWS_PER_CHUNK at once."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def rollback(self) -> None:
        """End the transaction without effect. Never raises: the connection may be lost already."""

    @abstractmethod
    def write(self, plan: WritePlan, rows: pa.Table) -> None:
        """Insert, upsert or update rows; their columns are those of the plan, in its order."""

    @abstractmethod
    def delete(self, plan: WritePlan, keys: pa.Table) -> None:
        """Delete the rows with these keys; the columns are `plan.keys`."""

    @abstractmethod
    def close(self) -> None: ...


class Dialect(ABC):
    """A kind of database, at one address."""

    name: ClassVar[str]
    quote_mark: ClassVar[str] = '"'
    lock_row: ClassVar[str] = "FOR UPDATE"
    """Ends a SELECT that keeps others from changing the row until the transaction ends."""
    share_row: ClassVar[str] = "FOR SHARE"
    offsets_types: ClassVar[tuple[str, str]] = ("VARCHAR(249)", "BIGINT")
    """The types of texts and numbers in the table of offsets."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address

    @abstractmethod
    def open(self) -> DatabaseSession:
        """A new connection. RetriableError: the database does not answer; DatabaseError: it refused the login."""

    @abstractmethod
    def table_name(self, text: str) -> TableName:
        """The table that a user has named, with or without a schema."""

    @abstractmethod
    def declared_type(self, schema: Schema, *, key: bool) -> str:
        """The type of a new column for values of this schema."""

    @abstractmethod
    def current_time(self, session: DatabaseSession) -> int:
        """The clock of the database, in nanoseconds since 1970."""

    def quote(self, name: str) -> str:
        mark = self.quote_mark
        return f"{mark}{name.replace(mark, mark * 2)}{mark}"

    def quoted(self, table: TableName) -> str:
        return (
            self.quote(table.name) if table.schema is None else f"{self.quote(table.schema)}.{self.quote(table.name)}"
        )

    def text(self, value: str) -> str:
        """A text as an SQL literal."""
        return "'" + value.replace("'", "''") + "'"

    def time_literal(self, nanoseconds: int, column: Column, zone: str) -> str:
        """A point in time as a literal that is compared with a column."""
        return f"'{time_text(nanoseconds, zone)}'"

    @abstractmethod
    def moment(self, expression: str) -> str:
        """SQL for a date with time as microseconds since 1970; one without time zone is taken as UTC."""

    def has_zone(self, column: Column) -> bool:
        """True if the values of a column are points in time, whatever the time zone."""
        return False

    def compare_time(self, expression: str, operator: str, nanoseconds: int, column: Column, zone: str) -> str:
        """A condition on a column of dates with time."""
        return f"{expression} {operator} {self.time_literal(nanoseconds, column, zone)}"

    def default_literal(self, schema: Schema) -> str | None:
        """The default of a schema as an SQL literal; None: it has none that SQL can express."""
        value = schema.default
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, (int, float)) and schema.name is None:
            return repr(value)
        if isinstance(value, str) and schema.name is None:
            return self.text(value)
        return None

    def unwritable(self, schema: Schema) -> DatabaseError:
        kind = schema.name or schema.type.value
        return DatabaseError(
            f"values of type {kind} have no column type in {self.name}; flatten or cast them with a transform "
            "(Flatten, ReplaceField, Cast)"
        )


_NAME: Final = re.compile(r'"((?:[^"]|"")*)"|`((?:[^`]|``)*)`|([^.]+)')


def name_parts(text: str) -> list[str]:
    """The parts of a name with dots; parts may be in quotes."""
    parts = []
    for match in _NAME.finditer(text.strip()):
        if match[1] is not None:
            parts.append(match[1].replace('""', '"'))
        elif match[2] is not None:
            parts.append(match[2].replace("``", "`"))
        else:
            parts.append(match[3])
    return parts


def time_text(nanoseconds: int, zone: str) -> str:
    """A point in time as SQL text in a time zone, to the microsecond."""
    from datetime import UTC, datetime, timedelta
    from zoneinfo import ZoneInfo

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)
    return moment.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S.%f")


def local_nanoseconds(nanoseconds: int, zone: str) -> int:
    """The time that a clock in the zone shows, as nanoseconds since 1970 as if it were in UTC."""
    from datetime import UTC, datetime, timedelta
    from zoneinfo import ZoneInfo

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanoseconds // 1000)
    offset = moment.astimezone(ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return nanoseconds + round(offset.total_seconds()) * 1_000_000_000


def utc_nanoseconds(local: int, zone: str) -> int:
    """The inverse of `local_nanoseconds`."""
    from datetime import UTC, datetime, timedelta
    from zoneinfo import ZoneInfo

    shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=local // 1000)
    offset = shown.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    assert offset is not None
    return local - round(offset.total_seconds()) * 1_000_000_000


# -- schemas ---------------------------------------------------------------------------------------------------------


def primitive(kind: SchemaType, optional: bool) -> Schema:
    return Schema(kind, optional)


def date_schema(optional: bool) -> Schema:
    return Schema(SchemaType.INT32, optional, name=DATE, version=1)


def time_schema(optional: bool) -> Schema:
    return Schema(SchemaType.INT32, optional, name=TIME, version=1)


def timestamp_schema(optional: bool) -> Schema:
    return Schema(SchemaType.INT64, optional, name=TIMESTAMP, version=1)


MAX_PRECISION: Final = 76
"""Digits of the largest decimals of Arrow."""


def numeric_schema(precision: int, scale: int, optional: bool, mapping: NumericMapping) -> Schema:
    """The schema of NUMERIC(precision, scale), as Confluent's numeric.mapping says."""
    integers = scale == 0 and mapping is not NumericMapping.NONE
    if integers and precision < 19:
        kinds = ((3, SchemaType.INT8), (5, SchemaType.INT16), (10, SchemaType.INT32), (19, SchemaType.INT64))
        return Schema(next(kind for below, kind in kinds if precision < below), optional)
    fits = precision < 19 or mapping is NumericMapping.BEST_FIT_EAGER_DOUBLE
    if scale > 0 and fits and mapping in (NumericMapping.BEST_FIT, NumericMapping.BEST_FIT_EAGER_DOUBLE):
        return Schema(SchemaType.FLOAT64, optional)
    parameters = {SCALE: str(scale), PRECISION: str(min(precision, MAX_PRECISION))}
    return Schema(SchemaType.BYTES, optional, name=DECIMAL, version=1, parameters=parameters)


def dialect_of(address: DatabaseAddress) -> Dialect:
    """The dialect of an address. Its driver is imported when a connection is opened."""
    if address.kind == "sqlite":
        from moldau.connect.connectors.databases.sqlite_dialect import SQLiteDialect

        return SQLiteDialect(address)
    if address.kind in MARIADB:
        from moldau.connect.connectors.databases.mariadb_dialect import MariaDBDialect

        return MariaDBDialect(address)
    from moldau.connect.connectors.databases.postgresql_dialect import PostgreSQLDialect

    return PostgreSQLDialect(address)
