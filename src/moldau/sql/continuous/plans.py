"""Plan of a continuous query: the streaming frame, the key of its rows, and what happens to each micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.sql.declarations import Declaration, RelationKind
from moldau.sql.results import ResultColumn
from moldau.sql.statements import QueryText
from moldau.sql.tables.record_columns import DELETED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DELETED", "ContinuousPlan", "Step"]

Step = Callable[["DataFrame"], "DataFrame"]
"""What happens to the rows of a micro-batch, as a batch query: returns the columns of the result, and DELETED."""


@dataclass(frozen=True)
class ContinuousPlan:
    """A continuous query that Spark can run. It reads nothing before `changes` or `start`."""

    spark: SparkSession
    query: QueryText
    frame: DataFrame
    """The streaming frame. With `step`, its rows are the input of the step; otherwise they are the result."""
    columns: tuple[ResultColumn, ...]
    """The columns of the result."""
    kind: RelationKind
    """TABLE: rows of `key` replace each other. STREAM: rows are only added."""
    key: tuple[str, ...]
    """The columns that identify a row of a TABLE: the grouping columns, or the key of the source. Empty for a STREAM,
    and for a TABLE of one row (an aggregate without GROUP BY)."""
    record_key: tuple[str, ...]
    """The columns that the key of a record is made of, unless the target's declaration says otherwise: `key`, or for a
    STREAM the columns of the result that are the key of its source."""
    output_mode: str
    """Spark's: append or update."""
    sources: tuple[Declaration, ...]
    step: Step | None = None
    needs_rocksdb: bool = False
    """Whether the frame has operators of ours with state (`group_state.py`)."""
    warnings: tuple[str, ...] = ()
    """Facts that the user should know, for example the default of GRACE PERIOD."""
