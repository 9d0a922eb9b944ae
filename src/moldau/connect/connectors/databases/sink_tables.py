"""Tables of a database sink: creation from schemas, added columns, and clear refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.connect.connectors.databases.dialect import Column, DatabaseSession, Dialect, ReadOptions, TableName
from moldau.connect.connectors.databases.errors import DatabaseError
from moldau.connect.connectors.databases.sink_rows import SinkField


def create_table(dialect: Dialect, table: TableName, fields: Sequence[SinkField]) -> str:
    """The statement that creates a table for these fields."""
    lines = [column_definition(dialect, field) for field in fields]
    keys = [dialect.quote(field.name) for field in fields if field.key]
    if keys:
        lines.append(f"PRIMARY KEY ({', '.join(keys)})")
    return f"CREATE TABLE IF NOT EXISTS {dialect.quoted(table)} ({', '.join(lines)})"


def add_columns(dialect: Dialect, table: TableName, fields: Sequence[SinkField]) -> list[str]:
    """The statements that add columns. Existing rows must get a value: null, or a default."""
    for field in fields:
        if field.key:
            raise DatabaseError(
                f"table {table.text} has no column {field.name} for the primary key; a key cannot be added to a table: "
                "correct pk.mode and pk.fields, or change the table"
            )
        if not field.schema.optional and dialect.default_literal(field.schema) is None:
            raise DatabaseError(
                f"table {table.text} has no column {field.name}, and auto.evolve cannot add it: the field is required "
                "and has no default, and existing rows would have no value. Add the column by hand, or make the field "
                "optional"
            )
    prefix = f"ALTER TABLE {dialect.quoted(table)} ADD COLUMN"
    return [f"{prefix} {column_definition(dialect, field)}" for field in fields]


def column_definition(dialect: Dialect, field: SinkField) -> str:
    text = f"{dialect.quote(field.name)} {dialect.declared_type(field.schema, key=field.key)}"
    default = dialect.default_literal(field.schema)
    if default is not None and not field.key:
        text += f" DEFAULT {default}"
    return text if field.schema.optional and not field.key else f"{text} NOT NULL"


class SinkTables:
    """The columns of the tables that one task writes, as the database has them."""

    def __init__(self, session: DatabaseSession, config: Mapping[str, Any]) -> None:
        self._session = session
        self._config = config
        self._known: dict[TableName, dict[str, Column]] = {}

    def prepare(self, table: TableName, fields: Sequence[SinkField], *, only_deletes: bool) -> dict[str, Column] | None:
        """The columns of a table, after it was created or evolved; None: there is no table and nothing to delete.

        Called outside of transactions: MariaDB commits the current one with every change of a table.
        """
        known = self._known.get(table) or self._read(table)
        if not known:
            if only_deletes:
                return None
            known = self._create(table, fields)
        missing = [field for field in fields if field.name not in known]
        if missing:
            known = self._evolve(table, missing, known)
        if not only_deletes:
            self._check_required(table, fields, known)
        return known

    def forget(self, table: TableName) -> None:
        self._known.pop(table, None)

    def _read(self, table: TableName) -> dict[str, Column]:
        found = {column.name: column for column in self._session.columns(table, ReadOptions())}
        if found:
            self._known[table] = found
        return found

    def _create(self, table: TableName, fields: Sequence[SinkField]) -> dict[str, Column]:
        if not self._config["auto.create"]:
            raise DatabaseError(
                f"table {table.text} does not exist in {self._session.dialect.address.shown}; create it, set "
                "auto.create=true, or correct table.name.format"
            )
        try:
            self._session.execute(create_table(self._session.dialect, table, fields))
        except DatabaseError:
            if not self._read(table):  # PostgreSQL refuses the second of two that create the same table
                raise
        return self._read(table)

    def _evolve(self, table: TableName, missing: Sequence[SinkField], known: dict[str, Column]) -> dict[str, Column]:
        names = ", ".join(field.name for field in missing)
        near = {name.lower(): name for name in known}
        alike = [near[field.name.lower()] for field in missing if field.name.lower() in near]
        if alike:
            raise DatabaseError(
                f"table {table.text} has no column {names}; there is {', '.join(alike)} in other case: rename the "
                "field with the transform ReplaceField"
            )
        if not self._config["auto.evolve"]:
            raise DatabaseError(
                f"table {table.text} has no column {names}; add it, set auto.evolve=true, or leave the field out with "
                "fields.whitelist"
            )
        for statement in add_columns(self._session.dialect, table, missing):
            try:
                self._session.execute(statement)
            except DatabaseError:
                if any(field.name not in self._read(table) for field in missing):
                    raise
        return self._read(table)

    def _check_required(self, table: TableName, fields: Sequence[SinkField], known: Mapping[str, Column]) -> None:
        given = {field.name for field in fields}
        for column in known.values():
            if column.name not in given and not column.nullable and not column.has_default:
                raise DatabaseError(
                    f"column {column.name} of table {table.text} is NOT NULL without a default, and the records have "
                    "no such field; give the column a default, make it nullable, or add the field to the records "
                    "(transform InsertField)"
                )
