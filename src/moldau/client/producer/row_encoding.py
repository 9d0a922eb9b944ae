"""Row encoding: columns of a table as serialized keys and values of `send_batch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.client.errors import SerializationError
from moldau.client.row_formats import FormatColumns, RowFormat
from moldau.client.settings import ClientSettings
from moldau.records.arrow import require_pyarrow
from moldau.records.arrow_encode import ColumnNames, Tabular

PartColumns = str | Sequence[str] | None
"""A column, or several that become one record."""


class RowEncoding:
    """Encodes the rows of one producer."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._columns = FormatColumns(settings)

    def close(self) -> None:
        self._columns.close()

    def encoded(
        self, topic: str, data: Tabular, names: Mapping[str, Any], wanted: RowFormat
    ) -> tuple[Tabular, ColumnNames]:
        """The table with serialized keys and values, and the names of its columns. Raises SerializationError."""
        pa = require_pyarrow()
        table: Any = data
        if not isinstance(table, pa.Table | pa.RecordBatch):
            table = pa.Table.from_pandas(table, preserve_index=False)
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        columns = {part: name for part, name in names.items() if part not in ("key", "value")}
        found = {name: table.column(name) for name in columns.values() if name in table.column_names}
        for part in ("key", "value"):
            name = names[part]
            columns[part] = None if name is None else f"serialized {part}"
            if name is not None:
                found[f"serialized {part}"] = self._cells(topic, _column(table, name, part), part, wanted)
        return pa.table(found), ColumnNames(**columns)

    def _cells(self, topic: str, array: Any, part: str, wanted: RowFormat) -> Any:
        from moldau.schemas.errors import SchemaError

        settings = self._settings
        schema = getattr(wanted, f"{part}_schema") or settings[f"{part}.schema"] or None
        columns = self._columns.of(
            wanted._replace(**{f"{part}_schema": schema}),
            part,
            subject_name=settings[f"{part}.subject.name.strategy"],
            auto_register=settings["auto.register.schemas"],
            normalize=settings["normalize.schemas"],
        )
        if columns is None:
            return array
        try:
            values, bad = columns.encode(array, topic)
        except SchemaError as error:
            raise SerializationError(f"send_batch to topic {topic!r}: the {part} cannot be written: {error}") from error
        if bad:
            row = min(bad)
            raise SerializationError(
                f"send_batch to topic {topic!r}: row {row}: the {part} cannot be written: {bad[row]}"
            )
        return values


def _column(table: Any, name: PartColumns, part: str) -> Any:
    """A column as one array; several columns become a struct."""
    pa = require_pyarrow()
    for one in [name] if isinstance(name, str) else name or ():
        if one not in table.column_names:
            there = ", ".join(table.column_names) or "none"
            raise SerializationError(f"{part}: there is no column {one!r}; there are {there}")
    if isinstance(name, str):
        return _whole(table.column(name))
    assert name is not None
    return pa.StructArray.from_arrays([_whole(table.column(one)) for one in name], list(name))


def _whole(column: Any) -> Any:
    pa = require_pyarrow()
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
