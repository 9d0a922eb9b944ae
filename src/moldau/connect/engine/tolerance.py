"""Error handling of the steps of a task: retries, tolerance, and the search for exactly the bad rows of a batch.

A step that names its bad rows (`RowError`) is called again without them. For any other error the batch is divided in
halves until each bad row is alone. An error about the world and not about a row (`RetriableError`, no memory) is never
tolerated: it fails the batch, and the connector is tried again later.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self, TypeVar

import pyarrow as pa

from moldau.client.errors import MoldauError
from moldau.connect.connector import RetriableError
from moldau.connect.engine.run_settings import ErrorSettings
from moldau.connect.errors import DataError, RowError, Stage

FIRST_DELAY_MS: Final = 300
"""The first pause before a step is tried again, as in Kafka Connect. It doubles up to errors.retry.delay.max.ms."""
MAX_LOGGED: Final = 100
"""Errors per task and batch that are logged; the others are counted."""
DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"
"""The name for errors in data, which programs that read dead letters know."""


class ToleranceExceeded(MoldauError):
    """An error in a record, and `errors.tolerance` is none."""


class RowSet(Protocol):
    """Rows that can be divided: a `ConnectBatch`, or a `pyarrow.RecordBatch`."""

    @property
    def num_rows(self) -> int: ...

    def slice(self, first: int, length: int) -> Self: ...

    def filter(self, keep: pa.BooleanArray) -> Self: ...


R = TypeVar("R", bound=RowSet)
T = TypeVar("T")


class StagedError(Exception):
    """An error of one stage inside of a step that has several."""

    def __init__(self, stage: Stage, class_name: str, cause: Exception) -> None:
        super().__init__(str(cause))
        self.stage = stage
        self.class_name = class_name
        self.cause = cause


@dataclass(frozen=True)
class BadRow:
    """One record that a step could not process."""

    rows: Any
    """One row: the `ConnectBatch` or the `pyarrow.RecordBatch`."""
    stage: Stage
    class_name: str
    error_class: str
    message: str
    trace: str


@dataclass
class ErrorHandler:
    """The errors of one task. `sleep` and `monotonic` are those of the process."""

    settings: ErrorSettings
    sleep: Callable[[float], None]
    monotonic: Callable[[], float]
    report: Callable[[BadRow], None]
    """Called with each tolerated row."""
    describe: Callable[[Any], str] = lambda rows: ""
    """Where a row comes from, for messages."""
    skipped: int = 0
    retries: int = 0
    logged: list[str] = field(default_factory=list)

    def apply(self, step: Callable[[R], list[T]], rows: R, stage: Stage, class_name: str) -> list[T]:
        """The results of a step for all good rows, in order."""
        if not rows.num_rows:
            return []
        try:
            return self._retried(step, rows)
        except (RetriableError, MemoryError, ToleranceExceeded):
            raise
        except RowError as error:
            return self._without(step, rows, error, stage, class_name)
        except Exception as error:  # noqa: BLE001 - a step of somebody else may raise anything
            if rows.num_rows == 1:
                self._bad(rows, error, stage, class_name)
                return []
            half = rows.num_rows // 2
            found = self.apply(step, rows.slice(0, half), stage, class_name)
            return found + self.apply(step, rows.slice(half, rows.num_rows - half), stage, class_name)

    def _retried(self, step: Callable[[R], list[T]], rows: R) -> list[T]:
        began, delay_ms = self.monotonic(), FIRST_DELAY_MS
        while True:
            try:
                return step(rows)
            except RetriableError:
                limit = self.settings.retry_timeout_ms
                if limit >= 0 and (self.monotonic() - began) * 1000 + delay_ms > limit:
                    raise
                self.retries += 1
                self.sleep(min(delay_ms, self.settings.retry_delay_max_ms) / 1000)
                delay_ms = min(2 * delay_ms, self.settings.retry_delay_max_ms)

    def _without(
        self, step: Callable[[R], list[T]], rows: R, error: RowError, stage: Stage, class_name: str
    ) -> list[T]:
        """Report the rows that the error names; the results of the others."""
        bad = [row for row in error.rows if 0 <= row < rows.num_rows]
        if not bad:
            raise error
        inner = error.__cause__ if isinstance(error.__cause__, StagedError) else None
        for row in bad:
            self._reject(
                rows.slice(row, 1),
                error.stage or stage,
                inner.class_name if inner is not None else class_name,
                DATA_EXCEPTION,
                error.reasons[row],
                error.reasons[row],
            )
        keep = [True] * rows.num_rows
        for row in bad:
            keep[row] = False
        return self.apply(step, rows.filter(pa.array(keep)), stage, class_name)

    def _bad(self, rows: Any, error: Exception, stage: Stage, class_name: str) -> None:
        if isinstance(error, StagedError):
            stage, class_name, error = error.stage, error.class_name, error.cause
        name = DATA_EXCEPTION if isinstance(error, DataError) else qualified_name(type(error))
        trace = "".join(traceback.format_exception(error)).rstrip()
        self._reject(rows, stage, class_name, name, str(error), trace)

    def _reject(self, rows: Any, stage: Stage, class_name: str, error_class: str, message: str, trace: str) -> None:
        where = self.describe(rows)
        if not self.settings.tolerate:
            raise ToleranceExceeded(
                f"Tolerance exceeded in error handler: {stage.value} ({class_name}) failed{where}: {message}. To skip "
                "such records, set errors.tolerance=all"
            )
        self.skipped += 1
        if self.settings.log and len(self.logged) < MAX_LOGGED:
            record = where if self.settings.log_messages else ""
            self.logged.append(f"{stage.value} ({class_name}){record}: {message}")
        self.report(BadRow(rows, stage, class_name, error_class, message, trace))

    def reject(self, rows: Any, error: Exception, stage: Stage, class_name: str) -> None:
        """Report rows that a connector itself could not write, each on its own."""
        for row in range(rows.num_rows):
            self._bad(rows.slice(row, 1), error, stage, class_name)


def in_stage(stage: Stage, class_name: str, call: Callable[[], Sequence[T]]) -> Sequence[T]:
    """Call a part of a step, and say in its errors which part it was."""
    try:
        return call()
    except RowError as error:
        raise RowError(error.reasons, stage) from StagedError(stage, class_name, error)
    except (RetriableError, MemoryError):
        raise
    except Exception as error:
        raise StagedError(stage, class_name, error) from error


def qualified_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
