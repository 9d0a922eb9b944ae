"""Continuous queries: a SELECT over streams and tables that never ends, on Spark Structured Streaming.

`plan` checks a query and prepares it, `changes` gives its rows to a shell, `start` writes them to a topic exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.sql.continuous.plans import ContinuousPlan, Relations
from moldau.sql.errors import SqlError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from moldau.sql.declarations import Declaration
    from moldau.sql.results import ResultChanges
    from moldau.sql.statements import QueryText

__all__ = ["ContinuousPlan", "Relations", "changes", "plan", "progress_facts", "start"]


def plan(spark: SparkSession, query: QueryText, relations: Relations) -> ContinuousPlan:
    """Prepare a continuous query. Raises SqlError, with the position, if it cannot be run continuously."""
    raise SqlError("continuous queries do not run in this version")


def changes(plan: ContinuousPlan) -> ResultChanges:
    """Start the query for a shell; its rows come as they change. Nothing is left behind after `stop`."""
    raise SqlError("continuous queries do not run in this version")


def start(
    plan: ContinuousPlan,
    target: Declaration,
    client_settings: Mapping[str, str],
    checkpoint: str,
    query_name: str,
) -> StreamingQuery:
    """Start the query on a server: writes the topic of `target` exactly once, as stored in `checkpoint`.

    A run that another run of the same checkpoint has replaced makes nothing visible any more: its query fails.
    """
    raise SqlError("continuous queries do not run in this version")


def progress_facts(progress: object) -> tuple[int, float, int | None, dict[str, int]]:
    """Of a progress report of the query (`lastProgress`): rows of the batch, rows per second, lag, and dropped records
    of the batch by reason (bad_records, late_records)."""
    raise SqlError("continuous queries do not run in this version")
