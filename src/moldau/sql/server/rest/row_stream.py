"""Rows of one query as lines of JSON, from the thread that computes them to the response that sends them.

The first line has the columns. Each further line is a row: `{"row": [...]}`, with `"deleted": true` for a row of a
table that is gone. The last line has the number of rows, or the error that ended the query.

The buffer between both sides is bounded: a client that reads slowly slows the query down. When the client is gone, the
query is stopped, and its thread ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from moldau.host.event_log import event_logger
from moldau.sql.errors import SqlError
from moldau.sql.results import Notice, Result, ResultRows
from moldau.sql.server.rest.errors import sql_error_body, statement_error_body
from moldau.sql.server.rest.json_values import json_line, json_row
from moldau.sql.server.statement_runner import columns_json

log = event_logger(__name__)

MAX_LINES: Final = 10_000
"""Lines that wait for the client."""


class StreamStopped(Exception):
    """The client is gone, or the server stops."""


class RowStream:
    """One answer of POST /query. `open` runs in a thread of its own; `lines` on the event loop."""

    def __init__(
        self, open_result: Callable[[], AbstractContextManager[Result]], max_rows: int, on_end: Callable[[], None]
    ) -> None:
        """`open_result` runs the statement, and blocks. `on_end` is called in the loop when the thread has ended."""
        self._open_result = open_result
        self._max_rows = max_rows
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._filled = asyncio.Event()
        self._room = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._stop: Callable[[], None] | None = None
        self._stopped = False
        self._ended = False
        self.error: SqlError | None = None
        """The error that came before the first line."""

    def start(self) -> None:
        threading.Thread(target=self._serve, name="sql-rows", daemon=True).start()

    def stop(self) -> None:
        """End the query. Any thread may call it, more than once."""
        with self._room:
            if self._stopped:
                return
            self._stopped = True
            stop = self._stop
            self._room.notify_all()
        if stop is not None:
            threading.Thread(target=stop, name="sql-stop-rows", daemon=True).start()

    async def began(self) -> None:
        """Wait for the first line. Raises the SqlError that came instead."""
        await self._filled.wait()
        if self.error is not None:
            raise self.error

    async def lines(self) -> AsyncIterator[bytes]:
        """All lines; what is there is given at once."""
        try:
            while True:
                await self._filled.wait()
                self._filled.clear()
                with self._room:
                    chunk, ended = b"".join(self._lines), self._ended
                    self._lines.clear()
                    self._room.notify_all()
                if chunk:
                    yield chunk
                if ended:
                    return
        finally:
            self.stop()

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        count = 0
        try:
            with self._open_result() as result:
                for line in self._answer(result):
                    self._put(line)
                    count += 1
        except StreamStopped:
            pass
        except SqlError as error:
            if count == 0:
                self.error = error
            self._last(json_line(statement_error_body(error)))
        except Exception:  # a bug: the client learns that, and the log has the reason
            log.exception("query failed")
            self._last(json_line(sql_error_body(500, "internal error; the log of the server has the reason")))
        finally:
            with self._room:
                self._ended = True
            self._tell(self._filled.set)
            self._tell(self._on_end)

    def _answer(self, result: Result) -> Iterator[bytes]:
        if isinstance(result, Notice):
            raise SqlError("this statement has no rows", hint="send it to POST /statements")
        if isinstance(result, ResultRows):
            yield json_line({"columns": columns_json(result.columns), "key": []})
            yield from self._bounded(result)
            return
        with self._room:
            self._stop = result.stop
            stopped = self._stopped
        if stopped:
            result.stop()
            raise StreamStopped
        yield json_line({"columns": columns_json(result.columns), "key": list(result.key)})
        count = 0
        for change in result:
            count += 1
            yield json_line(
                {"row": json_row(change.row, result.columns), **({"deleted": True} if change.deleted else {})}
            )
        yield json_line({"rows": count, "notes": []})

    def _bounded(self, result: ResultRows) -> Iterator[bytes]:
        count = 0
        for row in result.rows:
            if count == self._max_rows:
                raise SqlError(
                    f"the result has more than {self._max_rows} rows, the limit of moldau.sql.max.rows",
                    hint="add a LIMIT",
                )
            count += 1
            yield json_line({"row": json_row(row, result.columns)})
        yield json_line({"rows": count, "notes": list(result.notes)})

    def _put(self, line: bytes) -> None:
        with self._room:
            while len(self._lines) >= MAX_LINES and not self._stopped:
                self._room.wait()
            if self._stopped:
                raise StreamStopped
            first = not self._lines
            self._lines.append(line)
        if first:
            self._tell(self._filled.set)

    def _last(self, line: bytes) -> None:
        with self._room:
            self._lines.append(line)

    def _tell(self, call: Callable[[], Any]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more
