"""Results of statements, for the shell, for `-e` and `-f`, and for the REST API of a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class ResultColumn:
    name: str
    type: str
    """Spark's simple name of the type, for example bigint or struct<a:int>."""


@dataclass(frozen=True)
class Notice:
    """What a statement did, in words."""

    text: str
    warnings: tuple[str, ...] = ()
    """Facts that the user should know, for example that no server runs the query yet."""


@dataclass(frozen=True)
class ResultRows:
    """A bounded result. Rows are tuples of Python values as PySpark returns them."""

    columns: Sequence[ResultColumn]
    rows: Iterator[tuple[Any, ...]]
    notes: Sequence[str] = field(default=())
    """For example: "12 records do not fit the columns of orders". Complete when all rows have been taken."""


@dataclass(frozen=True)
class RowChange:
    """One row of a continuous result. A deleted row of a table has its key columns, and None in all others."""

    row: tuple[Any, ...]
    deleted: bool = False


class ResultChanges(Protocol):
    """A continuous result: rows as they come, until `stop` (from any thread), the LIMIT, or an error (SqlError)."""

    @property
    def columns(self) -> Sequence[ResultColumn]: ...

    @property
    def key(self) -> tuple[int, ...]:
        """The columns that identify a row which later changes replace; empty: rows are only ever added."""
        ...

    def __iter__(self) -> Iterator[RowChange]: ...

    def stop(self) -> None: ...


Result = Notice | ResultRows | ResultChanges
