"""Rows of one query as lines of JSON: order, bounds, and what happens when the client goes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from moldau.sql.errors import SqlError
from moldau.sql.results import Notice, Result, ResultColumn, ResultRows, RowChange
from moldau.sql.server.rest import row_stream
from moldau.sql.server.rest.row_stream import RowStream

COLUMNS = (ResultColumn("n", "bigint"),)
TIMEOUT_S = 60.0


class Changes:
    """A continuous result that a test feeds."""

    def __init__(self, changes: Iterator[RowChange]) -> None:
        self._changes = changes
        self.stopped = threading.Event()

    @property
    def columns(self) -> Sequence[ResultColumn]:
        return COLUMNS

    @property
    def key(self) -> tuple[int, ...]:
        return (0,)

    def __iter__(self) -> Iterator[RowChange]:
        for change in self._changes:
            if self.stopped.is_set():
                return
            yield change

    def stop(self) -> None:
        self.stopped.set()


def bounded(count: int) -> ResultRows:
    return ResultRows(COLUMNS, iter([(number,) for number in range(count)]), ("a note",))


class Opened:
    """A stream over a result, and whether its session was closed."""

    def __init__(self, result: Result | Callable[[], Result], max_rows: int = 1_000_000) -> None:
        self.closed = threading.Event()
        self.ended = asyncio.Event()

        @contextmanager
        def open_result() -> Iterator[Result]:
            try:
                yield result() if callable(result) else result
            finally:
                self.closed.set()

        self.stream = RowStream(open_result, max_rows, self.ended.set)
        self.stream.start()

    async def all(self) -> list[Any]:
        async with asyncio.timeout(TIMEOUT_S):
            chunks = [chunk async for chunk in self.stream.lines()]
            await self.ended.wait()
        return [json.loads(line) for line in b"".join(chunks).splitlines()]


def test_a_bounded_result_has_columns_rows_and_an_end() -> None:
    async def run() -> None:
        opened = Opened(bounded(3))
        await opened.stream.began()
        assert await opened.all() == [
            {"columns": [{"name": "n", "type": "bigint"}], "key": []},
            {"row": [0]},
            {"row": [1]},
            {"row": [2]},
            {"rows": 3, "notes": ["a note"]},
        ]
        assert opened.closed.is_set()

    asyncio.run(run())


def test_changes_name_their_key_and_deleted_rows() -> None:
    async def run() -> None:
        opened = Opened(Changes(iter([RowChange((1,)), RowChange((1,), deleted=True)])))
        assert (await opened.all())[:3] == [
            {"columns": [{"name": "n", "type": "bigint"}], "key": [0]},
            {"row": [1]},
            {"row": [1], "deleted": True},
        ]

    asyncio.run(run())


def test_more_rows_than_the_limit_end_with_an_error_that_names_it() -> None:
    async def run() -> None:
        lines = await Opened(bounded(4), max_rows=3).all()
        assert lines[3] == {"row": [2]}
        assert "moldau.sql.max.rows" in lines[4]["error"]
        assert len(lines) == 5

    asyncio.run(run())


def test_an_error_before_the_first_row_is_raised() -> None:
    async def run() -> None:
        def fail() -> Result:
            raise SqlError("no column x", line=1, column=8)

        with pytest.raises(SqlError, match="line 1, column 8: no column x"):
            await Opened(fail).stream.began()
        with pytest.raises(SqlError, match="POST /statements"):
            await Opened(Notice("done")).stream.began()

    asyncio.run(run())


def test_an_error_later_is_the_last_line() -> None:
    def changes() -> Iterator[RowChange]:
        yield RowChange((1,))
        raise SqlError("bad cast", hint="use try_cast")

    async def run() -> None:
        lines = await Opened(Changes(changes())).all()
        assert lines[-1] == {"error": "bad cast", "line": None, "column": None, "hint": "use try_cast"}

    asyncio.run(run())


def test_a_bug_is_told_without_its_message() -> None:
    def changes() -> Iterator[RowChange]:
        yield RowChange((1,))
        raise RuntimeError("password=secret")

    async def run() -> None:
        lines = await Opened(Changes(changes())).all()
        assert "internal error" in lines[-1]["error"]
        assert "secret" not in str(lines)

    asyncio.run(run())


def test_a_client_that_goes_stops_the_query_and_its_thread() -> None:
    more = threading.Event()

    def changes() -> Iterator[RowChange]:
        yield RowChange((1,))
        more.wait(TIMEOUT_S)
        yield RowChange((2,))

    async def run() -> None:
        result = Changes(changes())
        opened = Opened(result)
        lines = opened.stream.lines()
        await anext(lines)
        await lines.aclose()  # type: ignore[attr-defined]
        await asyncio.to_thread(result.stopped.wait, TIMEOUT_S)
        more.set()
        async with asyncio.timeout(TIMEOUT_S):
            await opened.ended.wait()
        assert opened.closed.is_set()

    asyncio.run(run())


def test_a_slow_client_slows_the_query_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "MAX_LINES", 10)
    made = 0

    def changes() -> Iterator[RowChange]:
        nonlocal made
        for number in range(1_000):
            made += 1
            yield RowChange((number,))

    async def run() -> None:
        opened = Opened(Changes(changes()))
        await opened.stream.began()
        lines = opened.stream.lines()
        await anext(lines)
        assert made <= 40
        opened.stream.stop()
        async with asyncio.timeout(TIMEOUT_S):
            await opened.ended.wait()
        assert made <= 40

    asyncio.run(run())
