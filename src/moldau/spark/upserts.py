"""Upserts of micro-batches into a database or a Delta table: `upsert_batch`, for `foreachBatch`.

    writer = totals.writeStream.outputMode("update").foreachBatch(
        upsert_batch("postgresql://app@localhost/shop", "totals", key="customer"))
    writer.option("checkpointLocation", "/var/checkpoints/totals").start()

The rows of a batch and its number change in one transaction of the target. A batch that Spark runs again after a crash
finds its number, and changes nothing. So does a batch of a driver that was replaced, and wakes up later.

The rows of a batch pass through the driver: it is for results, not for bulk data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from moldau.client.errors import ConfigurationError
from moldau.spark.plain_errors import plain_errors
from moldau.spark.writer import QUERY_PROPERTY

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_LAST = "_moldau_last"


@dataclass(frozen=True)
class UpsertPlan:
    """What is to be changed: the table, its key, and the column that marks deleted rows."""

    table: str
    key: tuple[str, ...]
    deleted: str | None


class UpsertTarget(Protocol):
    """A place that stores rows by key, and the last batch of each query, in one transaction."""

    def apply(self, plan: UpsertPlan, query: str, batch: int, rows: pa.Table) -> bool:
        """Change the rows, unless the batch was applied before (False)."""
        ...


def upsert_batch(
    target: str,
    table: str = "",
    *,
    key: str | Iterable[str],
    order_by: str | None = None,
    deleted: str | None = None,
    query: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that inserts rows, or replaces rows with the same key.

    `target` is one of `sqlite:///PATH`, `postgresql://USER@HOST/DATABASE` and `delta:///PATH`; a table that does not
    exist is created (Delta has no table name). `order_by` names a column: the row with its largest value counts if a
    batch has several rows with the same key, which is an error without it. `deleted` names a BOOLEAN column: rows in
    which it is true are deleted. `query` names the query in the target; without it, it is the id in the checkpoint.
    """
    plan = UpsertPlan(table, (key,) if isinstance(key, str) else tuple(key), deleted)
    place = _target(target)
    if not table and not target.startswith("delta:"):
        raise ConfigurationError("upsert_batch needs the name of a table")

    @plain_errors
    def upsert(frame: DataFrame, batch: int) -> None:
        name = query or frame.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
        if not name:
            raise ConfigurationError("the query has no id here; name it with query=…")
        rows = _latest(frame, plan, order_by).toArrow()
        if order_by is None:
            _check_unique(rows, plan.key)
        place.apply(plan, name, batch, rows)

    return upsert


def _target(address: str) -> UpsertTarget:
    """The address itself is in no message: it may contain a password."""
    from moldau.spark.upsert_targets import DeltaTarget, PostgresTarget, SqliteTarget

    parts = urlsplit(address)
    if parts.scheme == "sqlite":
        return SqliteTarget(unquote(parts.path))
    if parts.scheme in ("postgresql", "postgres"):
        return PostgresTarget(address)
    if parts.scheme == "delta":
        return DeltaTarget(unquote(parts.path))
    raise ConfigurationError(
        f"upserts into {parts.scheme or 'a path'!r} are not supported; write sqlite:///PATH, "
        "postgresql://USER@HOST/DATABASE or delta:///PATH"
    )


def _latest(frame: DataFrame, plan: UpsertPlan, order_by: str | None) -> DataFrame:
    from pyspark.sql import functions as f

    named = [*plan.key, *(name for name in (order_by, plan.deleted) if name is not None)]
    missing = [name for name in named if name not in frame.columns]
    if missing:
        raise ConfigurationError(f"the frame has no column {', '.join(missing)}; it has {', '.join(frame.columns)}")
    if order_by is None:
        return frame
    last: Any = f.max_by(f.struct("*"), order_by).alias(_LAST)
    return frame.groupBy(*plan.key).agg(last).select(f"{_LAST}.*")


def _check_unique(rows: pa.Table, key: tuple[str, ...]) -> None:
    counts = rows.select(list(key)).group_by(list(key)).aggregate([([], "count_all")])
    import pyarrow.compute as pc

    several = counts.filter(pc.greater(counts.column("count_all"), 1))
    if several.num_rows:
        first = {name: several.column(name)[0].as_py() for name in key}
        raise ConfigurationError(
            f"the batch has several rows with the key {first}; name the column that orders them with order_by=…"
        )
