"""Tables and queries of a database source: columns, SQL, and offsets in Confluent's format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from moldau.connect.connector import Offset, RetriableError
from moldau.connect.connectors.databases.dialect import (
    Column,
    DatabaseSession,
    Dialect,
    NumericMapping,
    ReadOptions,
    TableName,
    utc_nanoseconds,
)
from moldau.connect.connectors.databases.errors import DatabaseError
from moldau.connect.connectors.databases.source_settings import BOTH, INCREMENTING, TIMESTAMP
from moldau.connect.record_batch import ConnectBatch, ValueColumn, source_batch
from moldau.connect.schemas import DECIMAL, SCALE, Field, Schema, SchemaType
from moldau.connect.schemas import TIMESTAMP as TIMESTAMP_NAME

NANOSECONDS: Final = 1_000_000_000
_INTEGERS: Final = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64)
MOMENT: Final = "\0moment"
"""The hidden column with the microseconds of the timestamp column: records have milliseconds only."""


def read_options(config: Mapping[str, Any]) -> ReadOptions:
    return ReadOptions(NumericMapping(config["numeric.mapping"]), config["db.timezone"])


@dataclass(frozen=True)
class SourceTable:
    """A table or a query with everything that is needed to read it. Picklable."""

    topic: str
    partition: Mapping[str, Any]
    relation: str
    """What stands after FROM."""
    columns: tuple[Column, ...]
    schema_name: str | None = None
    incrementing: Column | None = None
    timestamps: tuple[Column, ...] = ()

    @property
    def schema(self) -> Schema:
        fields = tuple(Field(one.name, one.schema) for one in self.columns)
        return Schema(SchemaType.STRUCT, name=self.schema_name, fields=fields)

    def batch(self, rows: pa.RecordBatch) -> ConnectBatch:
        """Rows as records: one struct per row."""
        arrays = [rows.column(index) for index in range(len(self.columns))]
        fields = [rows.schema.field(index) for index in range(len(self.columns))]
        return source_batch(self.topic, ValueColumn(pa.StructArray.from_arrays(arrays, fields=fields), self.schema))


# -- which tables ------------------------------------------------------------------------------------------------------


def chosen_tables(session: DatabaseSession, config: Mapping[str, Any]) -> list[TableName]:
    """The tables that the lists choose. RetriableError: a table that is named does not exist."""
    kinds = [kind.upper() for kind in config["table.types"]]
    existing = [table for table in session.tables(kinds) if _schema_fits(table, config["schema.pattern"])]
    if config["table.whitelist"]:
        return [_named(existing, name, session, config) for name in config["table.whitelist"]]
    hidden = {session.dialect.table_name(name).text for name in config["table.blacklist"]}
    include = [re.compile(one) for one in config["table.include.list"]]
    exclude = [re.compile(one) for one in config["table.exclude.list"]]
    return [
        table
        for table in existing
        if table.text not in hidden
        and (not include or any(_matches(pattern, table) for pattern in include))
        and not any(_matches(pattern, table) for pattern in exclude)
    ]


def _named(existing: Sequence[TableName], text: str, session: DatabaseSession, config: Mapping[str, Any]) -> TableName:
    wanted = session.dialect.table_name(text)
    for table in existing:
        if table == wanted:
            return table
    others = [table for table in existing if table.name == wanted.name] if "." not in text else []
    if len(others) == 1:
        return others[0]
    kind = "/".join(config["table.types"])
    raise RetriableError(
        f"table {text} of table.whitelist does not exist in {session.dialect.address.shown} (looked for {wanted.text}, "
        f"{kind}). Create it, correct table.whitelist, or grant the user of connection.user the right to see it"
    )


def _matches(pattern: re.Pattern[str], table: TableName) -> bool:
    return bool(pattern.fullmatch(table.text) or pattern.fullmatch(table.name))


def _schema_fits(table: TableName, pattern: str | None) -> bool:
    if pattern is None or table.schema is None:
        return True
    expression = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in pattern)
    return re.fullmatch(expression, table.schema) is not None


def source_table(session: DatabaseSession, table: TableName, config: Mapping[str, Any]) -> SourceTable:
    """A table with its columns as they are now."""
    columns = session.columns(table, read_options(config))
    if not columns:
        raise RetriableError(f"table {table.text} no longer exists in {session.dialect.address.shown}")
    partition = {"protocol": "1", "table": table.text}
    topic = config["topic.prefix"] + table.name
    relation = session.dialect.quoted(table)
    return _with_mode(SourceTable(topic, partition, relation, tuple(columns), table.name), config)


def source_query(session: DatabaseSession, config: Mapping[str, Any]) -> SourceTable:
    """The query of the settings with its columns as they are now."""
    query = config["query"].strip().rstrip(";")
    columns = session.query_columns(query, read_options(config))
    relation = f"({query}) AS moldau_query"
    return _with_mode(SourceTable(config["topic.prefix"], {"query": "query"}, relation, tuple(columns)), config)


def _with_mode(table: SourceTable, config: Mapping[str, Any]) -> SourceTable:
    mode = config["mode"]
    incrementing = _incrementing(table, config) if mode in (INCREMENTING, BOTH) else None
    timestamps: tuple[Column, ...] = ()
    if mode in (TIMESTAMP, BOTH):
        timestamps = tuple(_timestamp(table, name) for name in config["timestamp.column.name"])
    if config["validate.non.null"] and not config["query"]:
        _check_not_null(table, incrementing, timestamps)
    return SourceTable(
        table.topic, table.partition, table.relation, table.columns, table.schema_name, incrementing, timestamps
    )


def _column(table: SourceTable, name: str, setting: str) -> Column:
    found = next((one for one in table.columns if one.name == name), None)
    found = found or next((one for one in table.columns if one.name.lower() == name.lower()), None)
    if found is None:
        known = ", ".join(one.name for one in table.columns)
        raise DatabaseError(f"{table.relation} has no column {name} ({setting}); its columns are: {known}")
    return found


def _incrementing(table: SourceTable, config: Mapping[str, Any]) -> Column:
    name = config["incrementing.column.name"]
    if name:
        column = _column(table, name, "incrementing.column.name")
    else:
        found = [one for one in table.columns if one.auto_increment]
        if len(found) != 1:
            raise DatabaseError(
                f"{table.relation} has no column that the database numbers itself; name one in incrementing.column.name"
            )
        column = found[0]
    whole = column.schema.name == DECIMAL and column.schema.parameters.get(SCALE) == "0"
    if not whole and (column.schema.name is not None or column.schema.type not in _INTEGERS):
        raise DatabaseError(
            f"column {column.name} of {table.relation} is {column.declared}; incrementing.column.name needs integers"
        )
    return column


def _timestamp(table: SourceTable, name: str) -> Column:
    column = _column(table, name, "timestamp.column.name")
    if column.schema.name != TIMESTAMP_NAME:
        raise DatabaseError(
            f"column {column.name} of {table.relation} is {column.declared}; "
            "timestamp.column.name needs dates with time"
        )
    return column


def _check_not_null(table: SourceTable, incrementing: Column | None, timestamps: Sequence[Column]) -> None:
    needed = [incrementing] if incrementing else []
    # Of several timestamp columns, one that is never null is enough.
    if timestamps and all(one.nullable for one in timestamps):
        needed.append(timestamps[0])
    for column in needed:
        if column.nullable:
            raise DatabaseError(
                f"column {column.name} of {table.relation} may be null, and rows with null would never be read; "
                "declare it NOT NULL, or set validate.non.null=false"
            )


# -- SQL ---------------------------------------------------------------------------------------------------------------


def select(table: SourceTable, dialect: Dialect, conditions: Sequence[str], order: Sequence[str], suffix: str) -> str:
    """The statement that reads a table or query, with the hidden column of its timestamp."""
    wanted = [f"{one.select} AS {dialect.quote(one.name)}" for one in table.columns]
    if table.timestamps:
        wanted.append(dialect.moment(timestamp_expression(table, dialect)))
    sql = f"SELECT {', '.join(wanted)} FROM {table.relation}"
    if conditions:
        sql += f" WHERE {' AND '.join(conditions)}"
    if order:
        sql += f" ORDER BY {', '.join(order)}"
    return f"{sql} {suffix}".rstrip()


def timestamp_expression(table: SourceTable, dialect: Dialect) -> str:
    names = [dialect.quote(one.name) for one in table.timestamps]
    return names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"


def changed_since(
    table: SourceTable, dialect: Dialect, zone: str, start: Position, end: int
) -> tuple[list[str], list[str]]:
    """The conditions and the order of the rows after a position, whose time is before `end` (nanoseconds)."""
    expression, column = timestamp_expression(table, dialect), table.timestamps[0]

    def compare(operator: str, nanoseconds: int) -> str:
        return dialect.compare_time(expression, operator, nanoseconds, column, zone)

    conditions = [compare("<", end)]
    if table.incrementing is None:
        if start.nanoseconds is not None:
            conditions.append(compare(">", start.nanoseconds))
        return conditions, [expression]
    number = dialect.quote(table.incrementing.name)
    if start.nanoseconds is not None:
        same = f"{compare('=', start.nanoseconds)} AND {number} > {start.number}"
        conditions.append(f"(({same}) OR {compare('>', start.nanoseconds)})")
    return conditions, [expression, number]


# -- offsets -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Position:
    """How far a table was read."""

    number: int = -1
    nanoseconds: int | None = None
    """Since 1970; None: from the beginning."""

    def offset(self, table: SourceTable) -> dict[str, Any]:
        """The offset in Confluent's format: milliseconds, and the nanoseconds of the second."""
        found: dict[str, Any] = {}
        if table.incrementing is not None:
            found["incrementing"] = self.number
        if table.timestamps and self.nanoseconds is not None:
            found["timestamp"] = self.nanoseconds // 1_000_000
            found["timestamp_nanos"] = self.nanoseconds % NANOSECONDS
        return found


def position_of(offset: Offset | None, config: Mapping[str, Any]) -> Position:
    """The position of a stored offset, or the initial one of the settings."""
    initial_ms = config["timestamp.initial"]
    if offset is None:
        return Position(int(config["incrementing.initial"]), None if initial_ms is None else initial_ms * 1_000_000)
    number = int(offset.get("incrementing", config["incrementing.initial"]))
    if "timestamp" not in offset:
        return Position(number)
    milliseconds = int(offset["timestamp"])
    nanos = offset.get("timestamp_nanos")
    seconds = milliseconds // 1000
    whole = milliseconds * 1_000_000 if nanos is None else seconds * NANOSECONDS + int(nanos)
    return Position(number, whole)


def position_of_row(table: SourceTable, rows: pa.RecordBatch, index: int, dialect: Dialect, zone: str) -> Position:
    """The position after a row of the result of `select`."""
    number = -1
    if table.incrementing is not None:
        number = int(rows.column(table.columns.index(table.incrementing))[index].as_py())
    if not table.timestamps:
        return Position(number)
    local = rows.column(len(table.columns))[index].as_py() * 1000
    is_moment = dialect.has_zone(table.timestamps[0])
    return Position(number, local if is_moment else utc_nanoseconds(local, zone))


MOMENT_COLUMN: Final = Column(MOMENT, "microseconds", Schema(SchemaType.INT64, optional=True), "")
