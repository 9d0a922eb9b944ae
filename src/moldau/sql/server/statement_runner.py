"""Statements of the REST API, run in threads with named limits.

Each request has a Spark session of its own in the server's JVM, so that views and settings of one request are unknown
to others. A request that takes too long is answered, and its Spark jobs are cancelled.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.host.clock import SystemRandomness
from moldau.host.event_log import event_logger
from moldau.service.errors import HttpError
from moldau.spark.session_holder import SessionHolder
from moldau.sql.catalogue import Catalogue
from moldau.sql.errors import SqlError
from moldau.sql.index.pull_queries import PullQueries
from moldau.sql.parser import parse
from moldau.sql.results import Notice, Result, ResultColumn, ResultRows
from moldau.sql.server.rest.json_values import json_row
from moldau.sql.server.server_settings import ServerSettings
from moldau.sql.statements import PrintStatement, SelectStatement, SetStatement, Statement
from moldau.sql.text_positions import TextPosition

if TYPE_CHECKING:
    from moldau.sql.session import SqlSession

log = event_logger(__name__)

T = TypeVar("T")

RETRY_AFTER: Final = {"Retry-After": "1"}
MAX_STATEMENTS: Final = 1_000
"""Statements in the text of one request."""


class StatementRunner:
    """Runs statements of requests. Used from the event loop."""

    def __init__(
        self, settings: ServerSettings, catalogue: Catalogue, holder: SessionHolder, indexes: PullQueries
    ) -> None:
        values = settings.values
        self._client = settings.client
        self._catalogue = catalogue
        self._holder = holder
        self._indexes = indexes
        self._max_statements: int = values["moldau.sql.max.statements"]
        self._timeout_s: float = values["moldau.sql.statement.timeout.ms"] / 1_000
        self.statement_max_rows: int = values["moldau.sql.statement.max.rows"]
        self.max_rows: int = values["moldau.sql.max.rows"]
        self._randomness = SystemRandomness()
        self._running = 0

    async def run(self, text: str, settings: Mapping[str, str]) -> list[dict[str, Any]]:
        """Run all statements of the text, one after another, and return their results.

        Raises SqlError for the first that fails: those before it have been run. HttpError: a limit.
        """
        statements = parse(text)
        if len(statements) > MAX_STATEMENTS:
            raise SqlError(f"the text has {len(statements)} statements, and a request may have {MAX_STATEMENTS}")
        return await self._limited(lambda group: self._run_all(statements, settings, group))

    async def _limited(self, work: Callable[[str], T]) -> T:
        """Run blocking work in a thread, within the limits of number and time. `work` gets the name of its jobs."""
        if self._running >= self._max_statements:
            raise HttpError(
                429,
                f"{self._running} requests with statements run already; the limit is moldau.sql.max.statements",
                RETRY_AFTER,
            )
        group = f"statements-{self._randomness.uuid().hex()[:12]}"
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(outcome: Callable[[], None]) -> None:
            self._running -= 1
            if not done.done():
                outcome()

        def serve() -> None:
            try:
                outcome = partial(done.set_result, work(group))
            except BaseException as raised:  # noqa: BLE001 - the waiting request gets it
                outcome = partial(done.set_exception, raised)
            try:
                loop.call_soon_threadsafe(settle, outcome)
            except RuntimeError:
                pass  # the loop is closed: nobody waits any more

        self._running += 1
        threading.Thread(target=serve, name="sql-statements", daemon=True).start()
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.shield(done)
        except TimeoutError:
            done.add_done_callback(lambda _: done.exception())  # nobody reads it, and asyncio would complain
            self.cancel(group)
            raise HttpError(
                504,
                f"the statements took more than {self._timeout_s:g} s; the limit is moldau.sql.statement.timeout.ms",
            ) from None
        except asyncio.CancelledError:
            done.add_done_callback(lambda _: done.exception())
            self.cancel(group)
            raise

    def cancel(self, group: str) -> None:
        """Cancel the Spark jobs of a request, in a thread: Spark may not answer."""
        threading.Thread(target=self._holder.cancel, args=(group,), name="sql-cancel", daemon=True).start()

    # -- in threads ----------------------------------------------------------------------------------------------------

    @contextmanager
    def session(self, settings: Mapping[str, str], group: str) -> Iterator[SqlSession]:
        """A session for one request, whose Spark jobs have this group."""
        from moldau.sql.session import SqlSession

        spark, _ = self._holder.session()
        spark.sparkContext.setJobGroup(group, "statements of a request")
        with SqlSession(self._client, catalogue=self._catalogue, spark=spark) as session:
            for name, value in settings.items():
                session.execute(SetStatement(f"SET '{name}' = …", TextPosition(), name, value))
            yield session

    def execute(self, session: SqlSession, statement: Statement) -> Result:
        """Run a statement: a question by key from an index, if there is one, everything else by the session."""
        if isinstance(statement, SelectStatement) and not session.settings.changed:
            found = self._indexes.answer(statement.query)
            if found is not None:
                return found
        return session.execute(statement)

    def _run_all(
        self, statements: Sequence[Statement], settings: Mapping[str, str], group: str
    ) -> list[dict[str, Any]]:
        with self.session(settings, group) as session:
            return [self._run_one(session, statement) for statement in statements]

    def _run_one(self, session: SqlSession, statement: Statement) -> dict[str, Any]:
        endless = isinstance(statement, SelectStatement) and statement.query.continuous
        if endless or (isinstance(statement, PrintStatement) and statement.limit is None):
            raise SqlError(
                "this statement has no end, and the answer to POST /statements must have one",
                line=statement.position.line,
                column=statement.position.column,
                hint="send it to POST /query, which answers row by row",
            )
        result = self.execute(session, statement)
        found: dict[str, Any] = {"statement": statement.text}
        if isinstance(result, Notice):
            return {**found, "message": result.text, "warnings": list(result.warnings)}
        if isinstance(result, ResultRows):
            return {**found, **self._rows(result)}
        try:
            changes = islice(result, self.statement_max_rows)
            rows = [json_row(change.row, result.columns) for change in changes]
        finally:
            result.stop()
        return {**found, "columns": columns_json(result.columns), "rows": rows, "truncated": False, "notes": []}

    def _rows(self, result: ResultRows) -> dict[str, Any]:
        rows = [json_row(row, result.columns) for row in islice(result.rows, self.statement_max_rows + 1)]
        return {
            "columns": columns_json(result.columns),
            "rows": rows[: self.statement_max_rows],
            "truncated": len(rows) > self.statement_max_rows,
            "notes": list(result.notes),
        }


def columns_json(columns: Sequence[ResultColumn]) -> list[dict[str, str]]:
    return [{"name": column.name, "type": column.type} for column in columns]
