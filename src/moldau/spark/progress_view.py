"""Progress of running streaming queries: a live table in a terminal, lines of text elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.spark.progress import lag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console
    from rich.table import Table

REFRESH_S: Final = 1.0
ID_CHARACTERS: Final = 8


@dataclass(frozen=True)
class QueryProgress:
    """What a query did in its last micro-batch."""

    name: str
    state: str
    """running, waiting (for new records), ended or failed."""
    batch: int | None = None
    rows: int = 0
    rows_per_s: float = 0.0
    duration_ms: int = 0
    lag: int = 0
    """Offsets that were not read at the start of the batch."""
    state_rows: int = 0
    watermark: str | None = None


def progress_of(query: StreamingQuery) -> QueryProgress:
    """The last progress of a query, as Spark has reported it."""
    name = query.name or str(query.id)[:ID_CHARACTERS]
    state = _state(query)
    last: Any = query.lastProgress
    if last is None:
        return QueryProgress(name, state)
    return QueryProgress(
        name,
        state,
        batch=last["batchId"],
        rows=last["numInputRows"],
        rows_per_s=float(last.get("processedRowsPerSecond") or 0.0),
        duration_ms=int((last.get("durationMs") or {}).get("triggerExecution", 0)),
        lag=sum(lag(last).values()),
        state_rows=sum(int(one["numRowsTotal"]) for one in last.get("stateOperators") or ()),
        watermark=(last.get("eventTime") or {}).get("watermark"),
    )


def _state(query: StreamingQuery) -> str:
    if query.isActive:
        status: Any = query.status
        return "running" if status["isDataAvailable"] or status["isTriggerActive"] else "waiting"
    return "ended" if query.exception() is None else "failed"


def progress_line(found: QueryProgress) -> str:
    """One line of text."""
    if found.batch is None:
        return f"{found.name}: {found.state}, no batch yet"
    parts = [f"batch {found.batch}", f"{found.rows:,} rows", f"{found.rows_per_s:,.0f} rows/s"]
    parts += [f"{found.duration_ms:,} ms", f"lag {found.lag:,}"]
    if found.state_rows:
        parts.append(f"state {found.state_rows:,} rows")
    if found.watermark:
        parts.append(f"watermark {found.watermark}")
    return f"{found.name}: {found.state}, {', '.join(parts)}"


def progress_table(progress: Iterable[QueryProgress]) -> Table:
    """A table with a line per query, for rich."""
    from rich.table import Table

    table = Table()
    for title in ("query", "state", "batch", "rows", "rows/s", "ms", "lag", "rows of state", "watermark"):
        right = title not in ("query", "state", "watermark")
        table.add_column(title, justify="right" if right else "left")
    for one in progress:
        numbers = (one.rows, round(one.rows_per_s), one.duration_ms, one.lag, one.state_rows)
        batch = "" if one.batch is None else str(one.batch)
        table.add_row(one.name, one.state, batch, *(f"{number:,}" for number in numbers), one.watermark or "")
    return table


def show_progress(
    queries: StreamingQuery | Sequence[StreamingQuery] | SparkSession,
    *,
    refresh_s: float = REFRESH_S,
    console: Console | None = None,
) -> None:
    """Show the progress of queries, or of all running queries of a session, until they have ended or Ctrl-C.

    The queries go on after Ctrl-C. In a terminal it is a table that changes in place; elsewhere each query gets a line
    whenever it has completed a batch.

        show_progress(query)
    """
    from rich.console import Console
    from rich.live import Live

    watched = _queries(queries)
    screen = console or Console()
    try:
        if not screen.is_terminal:
            _print_lines(watched, refresh_s, screen)
            return
        with Live(progress_table(map(progress_of, watched)), console=screen, refresh_per_second=4) as live:
            while _any_active(watched, refresh_s):
                live.update(progress_table(map(progress_of, watched)))
            live.update(progress_table(map(progress_of, watched)))
    except KeyboardInterrupt:
        return


def _print_lines(watched: Sequence[StreamingQuery], refresh_s: float, screen: Console) -> None:
    shown: dict[str, QueryProgress] = {}
    going = True
    while going:
        going = _any_active(watched, refresh_s)
        for query in watched:
            found = progress_of(query)
            if shown.get(str(query.id)) != found:
                shown[str(query.id)] = found
                screen.print(progress_line(found), highlight=False, soft_wrap=True)


def _queries(given: Any) -> list[StreamingQuery]:
    if hasattr(given, "streams"):
        return list(given.streams.active)
    return [given] if hasattr(given, "lastProgress") else list(given)


def _any_active(watched: Sequence[StreamingQuery], timeout_s: float) -> bool:
    """Wait for the end of a query, at most so long. Whether any query still runs."""
    from pyspark.errors import StreamingQueryException

    active = next((query for query in watched if query.isActive), None)
    if active is None:
        return False
    try:
        active.awaitTermination(timeout_s)  # type: ignore[arg-type]
    except StreamingQueryException:
        pass  # its state says so
    return any(query.isActive for query in watched)
