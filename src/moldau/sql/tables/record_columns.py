"""Record columns: the columns that every relation has besides those of its value, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moldau.sql.declarations import Declaration

RECORD_COLUMNS: Final = ("key", "value", "timestamp", "partition", "offset", "headers")
RECORD_TYPES: Final[Mapping[str, str]] = {
    "key": "string",
    "value": "string",
    "timestamp": "timestamp",
    "partition": "int",
    "offset": "bigint",
    "headers": "array<struct<key:string,value:binary>>",
}
DELETED: Final = "_deleted"
"""A change of a table that deletes the row."""


def record_names(columns: Iterable[str]) -> dict[str, str]:
    """The name of each record column beside columns with these names: a column of the user wins, and the record's own
    column gets underscores in front."""
    taken = {name.lower() for name in columns}
    names = {}
    for name in RECORD_COLUMNS:
        own = name
        while own in taken:
            own = "_" + own
        names[name] = own
        taken.add(own)
    return names


def hidden_columns(declaration: Declaration) -> tuple[str, ...]:
    """The record columns that `SELECT *` leaves out: all of them for a declared relation, none for an inferred one."""
    if not declaration.text or not declaration.columns:
        return ()
    return tuple(record_names(column.name for column in declaration.columns).values())


def event_time_column(declaration: Declaration) -> str:
    """The column with the event time, a TIMESTAMP: the record's timestamp, or the column of WITH (timestamp=…)."""
    return record_names(column.name for column in declaration.columns)["timestamp"]
