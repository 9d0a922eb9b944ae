"""Changes of a continuous query for a shell: rows come as they change, in no checkpoint that stays."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final

from moldau.sql.continuous import spark_plans
from moldau.sql.continuous.failures import failure
from moldau.sql.continuous.plans import DELETED, ContinuousPlan
from moldau.sql.continuous.running import begin
from moldau.sql.errors import SqlError
from moldau.sql.results import ResultColumn, RowChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

MAX_WAITING_ROWS: Final = 10_000
"""Rows that Spark has ready before the reader takes one; then the micro-batch waits."""
MAX_SHOWN_KEYS: Final = 100_000
"""Keys of rows that were given to the reader. Up to here, only rows that it has seen are reported as deleted."""
WAIT_S: Final = 0.1
STOP_S: Final = 10.0
"""How long `stop` waits for the current micro-batch to give its next row."""


class LiveChanges:
    """A running query. One thread iterates; `stop` may be called from any."""

    def __init__(self, plan: ContinuousPlan) -> None:
        self._plan = plan
        names = [column.name for column in plan.columns]
        self._key = tuple(names.index(name) for name in plan.key)
        self._rows: queue.Queue[RowChange] = queue.Queue(MAX_WAITING_ROWS)
        self._stopped = Event()
        self._ending = Lock()
        self._in_batch = Lock()
        self._shown: set[str] = set()
        self._failed: SqlError | None = None
        self._checkpoint: str | None = spark_plans.new_directory(plan.spark)
        try:
            self._query: StreamingQuery = begin(plan, self._checkpoint, f"moldau-sql-{id(self)}", self._batch)
        except BaseException:
            self._remove_checkpoint()
            raise

    @property
    def columns(self) -> Sequence[ResultColumn]:
        return self._plan.columns

    @property
    def key(self) -> tuple[int, ...]:
        return self._key

    def __iter__(self) -> Iterator[RowChange]:
        left = self._plan.query.limit
        try:
            while left is None or left > 0:
                change = self._next()
                if change is None:
                    return
                if self._is_news(change):
                    yield change
                    left = None if left is None else left - 1
        finally:
            self.stop()

    def stop(self) -> None:
        self._stopped.set()
        with self._ending:
            if self._checkpoint is not None:
                # A query that is stopped inside our function fails with a trace on the console. It returns at the next
                # row, and does nothing in later micro-batches.
                idle = self._in_batch.acquire(timeout=STOP_S)
                self._query.stop()
                if idle:
                    self._in_batch.release()
                self._remove_checkpoint()

    @property
    def reports(self) -> Sequence[Any]:
        """Spark's last reports of the query, for `progress_facts`."""
        return self._query.recentProgress

    def _next(self) -> RowChange | None:
        """The next row; None if the query was stopped."""
        while not self._stopped.is_set():
            active = self._query.isActive
            try:
                return self._rows.get(timeout=WAIT_S)
            except queue.Empty:
                if (self._failed is not None or not active) and not self._stopped.is_set():
                    raise self._failure() from None
        return None

    def _failure(self) -> SqlError:
        if self._failed is not None:
            return self._failed
        error = self._query.exception()
        if error is None:
            return SqlError("the query has ended, and Spark does not say why")
        return failure(error, self._plan.query, self._plan.spark)

    def _is_news(self, change: RowChange) -> bool:
        """False for a deleted row that the reader has never seen: it did not match before either."""
        if not self._key:
            return True
        name = repr([change.row[index] for index in self._key])
        if change.deleted:
            known = name in self._shown or len(self._shown) >= MAX_SHOWN_KEYS
            self._shown.discard(name)
            return known
        if len(self._shown) < MAX_SHOWN_KEYS:
            self._shown.add(name)
        return True

    def _batch(self, frame: DataFrame, number: int) -> None:
        """Spark calls it with the result of each micro-batch."""
        if not self._in_batch.acquire(blocking=False):
            return  # `stop` holds it, and Spark ends the query only when this function has returned
        try:
            if not self._stopped.is_set() and self._failed is None:
                self._rows_of(frame)
        except Exception as error:  # noqa: BLE001 - whatever it is, the reader gets it, not Spark's console
            self._failed = failure(error, self._plan.query, self._plan.spark)
        finally:
            self._in_batch.release()

    def _rows_of(self, frame: DataFrame) -> None:
        has_deleted = DELETED in frame.columns[len(self._plan.columns) :]
        for row in frame.toLocalIterator():
            if self._stopped.is_set():
                return
            values = tuple(row)
            self._put(RowChange(values[:-1], bool(values[-1])) if has_deleted else RowChange(values))

    def _put(self, change: RowChange) -> None:
        while not self._stopped.is_set():
            try:
                self._rows.put(change, timeout=WAIT_S)
            except queue.Full:
                continue
            return

    def _remove_checkpoint(self) -> None:
        if self._checkpoint is not None:
            spark_plans.remove_directory(self._plan.spark, self._checkpoint)
            self._checkpoint = None
