"""INSERT INTO … VALUES: Spark evaluates the rows, and this process writes them as records.

A row goes through the same formats as the rows of a continuous query. In a TABLE, a row whose value columns are all
NULL deletes its key. A topic without a declaration takes its inferred columns, or `value` as text, and `key` as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from moldau.client.blocking.producer import Producer
from moldau.sql.declarations import ColumnDeclaration, Declaration, RelationKind
from moldau.sql.errors import SqlError
from moldau.sql.relation_names import did_you_mean, quoted
from moldau.sql.results import Notice
from moldau.sql.session_context import SessionContext
from moldau.sql.spark_errors import in_sql_terms
from moldau.sql.statements import InsertValuesStatement, QueryText
from moldau.sql.tables.frames import encoded
from moldau.sql.tables.record_columns import DELETED
from moldau.sql.tables.topic_lookup import producer_settings
from moldau.sql.text_positions import TextPiece

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
DELIVERY_TIMEOUT_S: Final = 60.0


def insert(context: SessionContext, statement: InsertValuesStatement) -> Notice:
    """Run INSERT INTO … VALUES."""
    found = context.relations.find(statement.target)
    if found.query is not None and found.query in context.catalogue.queries:
        raise SqlError(
            f"{found.kind.lower()} {quoted(found.name)} is written by query {quoted(found.query)}",
            hint=f"insert into one of its sources, or first: TERMINATE {quoted(found.query)};",
        )
    target = _writable(found)
    columns = _columns(target, statement.columns)
    if not found.text:
        target = _only(target, columns)
    text = _query(statement, len(columns))
    with in_sql_terms(text, context.spark):
        rows = context.spark.sql(text.text)
        _check_width(rows, columns, found)
        frame = _cast(rows, columns)
        _check_values(frame.collect(), columns, target)
        if target.kind is RelationKind.TABLE:
            frame = _with_deletes(frame, target, columns)
        records = encoded(frame, target).collect()
    topic = context.relations.topic_of(target)
    _send(context, topic.name, records)
    return Notice(f"{len(records)} record{'' if len(records) == 1 else 's'} written to topic {topic.name}")


def _writable(declaration: Declaration) -> Declaration:
    """The declaration with the columns that can be written. Without declared columns these include key and value."""
    if declaration.text and declaration.columns:
        return declaration
    names = {column.name.lower() for column in declaration.columns}
    columns = declaration.columns
    if not declaration.key_columns and "key" not in names:
        columns = (ColumnDeclaration("key", "STRING", is_key=True), *columns)
    if not declaration.value_columns and "value" not in names:
        declaration = replace(declaration, value_format="string")
        columns = (*columns, ColumnDeclaration("value", "STRING"))
    return replace(declaration, columns=columns)


def _only(target: Declaration, columns: Sequence[ColumnDeclaration]) -> Declaration:
    """Of a topic without a declaration only the columns that the user names: other columns are of other records."""
    named = {column.name for column in columns}
    return replace(target, columns=tuple(one for one in target.columns if one.name in named or one.is_key))


def _columns(target: Declaration, names: Sequence[str]) -> list[ColumnDeclaration]:
    """The columns of the rows, in the order of the statement."""
    if not names:
        return list(target.columns)
    known = {column.name.lower(): column for column in target.columns}
    if not target.text and "value" not in known and "value" in {name.lower() for name in names}:
        raise SqlError(
            f"topic {target.name} has JSON objects: name their fields, not value",
            hint=f"the columns are {', '.join(column.name for column in target.columns)}",
        )
    chosen: dict[str, ColumnDeclaration] = {}
    for name in names:
        column = known.get(name.lower())
        if column is None:
            raise SqlError(
                f"{quoted(target.name)} has no column {name}",
                hint=did_you_mean(name, [one.name for one in target.columns])
                or f"the columns are {', '.join(one.name for one in target.columns)}",
            )
        if name.lower() in chosen:
            raise SqlError(f"column {name} is named twice")
        chosen[name.lower()] = column
    return list(chosen.values())


def _query(statement: InsertValuesStatement, width: int) -> QueryText:
    """`SELECT * FROM VALUES …`, with the positions of the rows in the user's text."""
    rows = statement.rows
    before = "SELECT * FROM VALUES "
    at = max(statement.text.rfind(rows), 0)
    begin = statement.position.after(statement.text[:at])
    pieces = (
        TextPiece(0, begin, inserted=True),
        TextPiece(len(before), begin),
    )
    return QueryText(before + rows, position=statement.position, pieces=pieces)


def _check_width(rows: DataFrame, columns: Sequence[ColumnDeclaration], target: Declaration) -> None:
    if len(rows.columns) != len(columns):
        raise SqlError(
            f"the rows have {len(rows.columns)} values, but {quoted(target.name)} takes {len(columns)}: "
            f"{', '.join(column.name for column in columns)}",
            hint=f"INSERT INTO {quoted(target.name)} (column, …) VALUES … names the columns",
        )


def _given(column: ColumnDeclaration) -> str:
    return f"_given_{column.name}"


def _cast(rows: DataFrame, columns: Sequence[ColumnDeclaration]) -> DataFrame:
    """The values cast to the declared types, each beside the value as it was given."""
    from pyspark.sql import functions as f

    selected = []
    for name, column in zip(rows.columns, columns, strict=True):
        value = f.col(quoted(name))
        selected += [value.cast(column.type).alias(column.name), value.alias(_given(column))]
    return rows.select(*selected)


def _check_values(rows: Sequence[Any], columns: Sequence[ColumnDeclaration], target: Declaration) -> None:
    """Refuse numbers that lose their fraction (CAST(1.5 AS INT) is 1), and rows of a table without a key."""
    whole = [column for column in columns if column.type.lower() in INTEGERS]
    keys = target.key_columns if target.kind is RelationKind.TABLE else ()
    for row in (one.asDict() for one in rows):
        for column in whole:
            given, stored = row[_given(column)], row[column.name]
            if isinstance(given, float | Decimal) and given != stored:
                raise SqlError(f"{given} is not a value of type {column.type}, which column {column.name} has")
        for column in keys:
            if row.get(column.name) is None:
                raise SqlError(f"key column {column.name} of table {quoted(target.name)} cannot be NULL")


def _with_deletes(frame: DataFrame, target: Declaration, columns: Sequence[ColumnDeclaration]) -> DataFrame:
    """The column DELETED for rows of a table that have a key and nothing else."""
    from pyspark.sql import functions as f

    named = {column.name for column in columns}
    empty = f.lit(bool(target.value_columns))
    for column in target.value_columns:
        if column.name in named:
            empty = empty & f.col(quoted(column.name)).isNull()
    return frame.withColumn(DELETED, empty)


def _send(context: SessionContext, topic: str, records: Sequence[Any]) -> None:
    settings = {"client.id": "moldau-sql", **producer_settings(context.client_settings)}
    with Producer({**settings, "enable.idempotence": True}) as producer:
        sent = [
            producer.send(topic, _bytes(one["value"]), _bytes(one["key"]), timestamp=_timestamp(one)) for one in records
        ]
        for future in sent:
            future.result(DELIVERY_TIMEOUT_S)


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else bytes(value)


def _timestamp(record: Any) -> datetime | None:
    """The event time. PySpark gives it in the local time zone, without saying so."""
    found = record.asDict().get("timestamp")
    return None if found is None else found.astimezone(UTC)
