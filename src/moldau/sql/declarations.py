"""Declarations of streams and tables: how the records of a topic become rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class RelationKind(StrEnum):
    """What a relation is: every record, or the latest record of each key."""

    STREAM = "STREAM"
    TABLE = "TABLE"


@dataclass(frozen=True)
class ColumnDeclaration:
    """One column of a declaration. `type` is Spark's DDL, for example DOUBLE or STRUCT<a: INT>."""

    name: str
    type: str
    is_key: bool = False
    """Whether the column is in the record's key; all others are in its value."""


@dataclass(frozen=True)
class Declaration:
    """How the records of a topic become rows. A topic without one gets an inferred declaration, see `tables/`."""

    name: str
    kind: RelationKind
    topic: str
    columns: tuple[ColumnDeclaration, ...] = ()
    """Empty: inferred from a sample of the records."""
    value_format: str = "json"
    key_format: str = "string"
    timestamp: str | None = None
    """The column that is the event time; None: the timestamp of the record."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further settings of the WITH clause, in lower case: timestamp_format, value_delimiter …"""
    query: str | None = None
    """The name of the continuous query that writes the topic."""
    text: str = ""
    """The statement that declared it; empty if inferred."""

    @property
    def key_columns(self) -> tuple[ColumnDeclaration, ...]:
        return tuple(column for column in self.columns if column.is_key)

    @property
    def value_columns(self) -> tuple[ColumnDeclaration, ...]:
        return tuple(column for column in self.columns if not column.is_key)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Declaration:
        columns = tuple(ColumnDeclaration(**column) for column in found["columns"])
        return cls(
            **{**found, "kind": RelationKind(found["kind"]), "columns": columns, "options": dict(found["options"])}
        )
