"""Run of one statement in a thread of its own, so that Ctrl-C ends the statement at any moment.

Spark's calls block. A KeyboardInterrupt in the middle of one would leave its connection to the JVM in an unknown state.
Therefore the statement runs in a thread, and the caller takes what it produces from a bounded queue. `stop` cancels
Spark's jobs, or ends a continuous result, and the thread ends by itself.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from moldau.sql.results import Notice, Result, ResultColumn, ResultRows, RowChange
from moldau.sql.statements import Statement

MAX_WAITING: Final = 10_000
"""Rows that may wait to be shown. The statement waits when the terminal or the pipe is slower than that."""
MAX_TAKEN: Final = 1_000
"""Rows that are shown at once."""
POLL_S: Final = 0.1
STOP_S: Final = 10.0
"""How long a caller waits for a stopped statement to end. Otherwise it ends later, without anyone who waits."""
CANCEL_S: Final = 0.2
"""The time between two attempts to cancel. The first one may come before Spark has begun the job."""


_NUMBERS: Final = itertools.count(1)


class RunSession(Protocol):
    """The part of SqlSession that a run needs."""

    def execute(self, statement: Statement, tag: str) -> Result:
        """Run a statement. Spark's jobs of this thread have the tag from here on."""
        ...

    def cancel(self, tag: str) -> None:
        """End the jobs with this tag that run now. A job that begins later is not ended."""
        ...


@dataclass(frozen=True)
class Began:
    """A result with rows has begun."""

    columns: Sequence[ResultColumn]
    key: tuple[int, ...]
    continuous: bool


@dataclass(frozen=True)
class Ended:
    """The statement is done. `error`: why it failed."""

    notes: tuple[str, ...] = ()
    error: Exception | None = None


Event = Notice | Began | RowChange | Ended


class StatementRun:
    """One run of a statement. `events` gives what it produces."""

    def __init__(self, session: Callable[[], RunSession], statement: Statement) -> None:
        """`session` may block until Spark has started; it is called in the run's thread."""
        self._get_session = session
        self._statement = statement
        self._tag = f"moldau-sql-{next(_NUMBERS)}"
        self._events: queue.Queue[Event] = queue.Queue(MAX_WAITING)
        self._stopped = threading.Event()
        self._session: RunSession | None = None
        self._stop_result: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="moldau-sql-statement", daemon=True)
        self._thread.start()

    def events(self) -> Iterator[list[Event]]:
        """What the statement produces, in lists. An empty list: nothing for now. The last one ends with Ended."""
        while True:
            found: list[Event] = []
            with contextlib.suppress(queue.Empty):
                found.append(self._events.get(timeout=POLL_S))
                while len(found) < MAX_TAKEN:
                    found.append(self._events.get_nowait())
            yield found
            if found and isinstance(found[-1], Ended):
                return

    def stop(self) -> None:
        """End the statement. Returns when its thread has ended, or after STOP_S."""
        self._stopped.set()
        with self._lock:
            session, stop_result = self._session, self._stop_result
        if session is None:
            return  # it waits for Spark, and will find that it was stopped
        if stop_result is not None:
            stop_result()
        cancelling = threading.Thread(target=self._cancel, args=(session,), name="moldau-sql-cancel", daemon=True)
        cancelling.start()
        cancelling.join(STOP_S)

    def _cancel(self, session: RunSession) -> None:
        """Cancel until the statement has ended: each time, Spark ends only the jobs that it knows."""
        while self._thread.is_alive():
            with contextlib.suppress(Exception):  # Spark may be stopping
                session.cancel(self._tag)
            self._thread.join(CANCEL_S)

    def _run(self) -> None:
        notes: tuple[str, ...] = ()
        error: Exception | None = None
        try:
            session = self._get_session()
            with self._lock:
                self._session = session
            if not self._stopped.is_set():
                notes = self._show(session.execute(self._statement, self._tag))
        except Exception as failure:  # noqa: BLE001 - the caller shows it
            error = failure
        self._put(Ended(notes, error))

    def _show(self, result: Result) -> tuple[str, ...]:
        if isinstance(result, Notice):
            self._put(result)
            return ()
        if isinstance(result, ResultRows):
            self._put(Began(result.columns, (), continuous=False))
            for row in result.rows:
                if not self._put(RowChange(row)):
                    break
            return tuple(result.notes)  # complete only now
        with self._lock:
            self._stop_result = result.stop
        if self._stopped.is_set():
            result.stop()
        self._put(Began(result.columns, result.key, continuous=True))
        for change in result:
            if not self._put(change):
                result.stop()
                break
        return ()

    def _put(self, event: Event) -> bool:
        """Whether the event was taken; not after `stop`."""
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._events.put(event, timeout=POLL_S)
                return True
        return False
