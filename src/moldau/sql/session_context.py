"""Context of a statement: what the session gives to the code that runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.sql.results import ResultColumn, ResultRows
from moldau.sql.session_settings import SessionSettings
from moldau.sql.tables.relations import Relations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.sql.catalogue import Catalogue


@dataclass(frozen=True)
class SessionContext:
    """Spark, the relations, the catalogue and the settings of one session."""

    spark: SparkSession
    relations: Relations
    catalogue: Catalogue
    settings: SessionSettings
    client_settings: Mapping[str, Any]


def listed(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Any]], notes: Sequence[str] = ()) -> ResultRows:
    """A result that does not come from Spark. `columns` are names and types."""
    named = tuple(ResultColumn(name, kind) for name, kind in columns)
    return ResultRows(named, iter([tuple(row) for row in rows]), tuple(notes))
