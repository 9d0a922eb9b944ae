"""Continuous queries: a SELECT over streams and tables that never ends, on Spark Structured Streaming.

`plan` checks a query and prepares it, `changes` gives its rows to a shell, `start` writes them to a topic exactly once.
docs/sql-continuous.md says what the results mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moldau.sql.continuous.plans import ContinuousPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from moldau.sql.declarations import Declaration
    from moldau.sql.errors import SqlError
    from moldau.sql.results import ResultChanges
    from moldau.sql.statements import QueryText
    from moldau.sql.tables.relations import Relations

__all__ = ["ContinuousPlan", "changes", "failure", "plan", "progress_facts", "start"]


def plan(spark: SparkSession, query: QueryText, relations: Relations) -> ContinuousPlan:
    """Prepare a continuous query. Raises SqlError, with the position, if it cannot be run continuously."""
    from moldau.sql.continuous import planner

    return planner.plan(spark, query, relations)


def changes(plan: ContinuousPlan) -> ResultChanges:
    """Start the query for a shell; its rows come as they change. Nothing is left behind after `stop`."""
    from moldau.sql.continuous.live_changes import LiveChanges

    return LiveChanges(plan)


def start(
    plan: ContinuousPlan,
    target: Declaration,
    client_settings: Mapping[str, str],
    checkpoint: str,
    query_name: str,
    *,
    trigger_ms: int | None = None,
) -> StreamingQuery:
    """Start the query on a server: writes the topic of `target` exactly once, as stored in `checkpoint`.

    A run that another run of the same checkpoint has replaced makes nothing visible any more: its query fails.
    `trigger_ms` is the shortest time between the starts of two micro-batches; without it the next one starts at once.
    """
    from moldau.sql.continuous.writing import write

    return write(plan, target, client_settings, checkpoint, query_name, trigger_ms)


def failure(error: BaseException, query: QueryText) -> SqlError:
    """Why a query has failed (`query.exception()`, or what `start` raised), in SQL's terms."""
    from moldau.sql.continuous.failures import failure as in_words

    return in_words(error, query)


def progress_facts(progress: Any) -> tuple[int, float, int | None, dict[str, int]]:
    """Of a progress report of the query (`lastProgress`): rows of the batch, rows per second, lag (None: unknown), and
    dropped records of the batch by reason (bad_records, late_records)."""
    from moldau.sql.continuous.progress import progress_facts as facts

    return facts(progress)
