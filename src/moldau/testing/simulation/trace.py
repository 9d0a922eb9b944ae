"""Trace of a simulation: everything that happened, in order, to replay a run and to compare two runs."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from moldau.host.event_log import event_of, facts_of
from moldau.testing.simulation.loop import BEGINNING_S, CURRENT_PROCESS, SimulatedLoop

LOGGER = "moldau"


class Line(NamedTuple):
    """One event."""

    at_s: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_s:12.6f}  {self.who:<14} {self.what}"


class Trace:
    """All lines of one run."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.lines: list[Line] = []

    def add(self, who: object, what: str) -> None:
        self.lines.append(Line(self.now_s(), str(who), what))

    def now_s(self) -> float:
        """Seconds since the beginning."""
        return self._loop.time() - BEGINNING_S

    def digest(self) -> str:
        """Equal for two runs with the same events at the same times."""
        whole = hashlib.sha256()
        for line in self.lines:
            whole.update(f"{line.at_s!r} {line.who} {line.what}\n".encode())
        return whole.hexdigest()[:32]

    def around(self, at_s: float, before: int = 12, after: int = 3) -> list[Line]:
        """The lines just before and after a time."""
        index = next((i for i, line in enumerate(self.lines) if line.at_s > at_s), len(self.lines))
        return self.lines[max(0, index - before) : index + after]


class LogListener(logging.Handler):
    """Adds the log messages of the simulated code to the trace, with virtual times, and keeps logged exceptions."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(logging.INFO)
        self._trace = trace
        self.failures: list[tuple[float, str, BaseException]] = []
        """Exceptions that were logged as errors."""

    def emit(self, record: logging.LogRecord) -> None:
        extras = " ".join(f"{key}={value}" for key, value in facts_of(record).items())
        error = record.exc_info[1] if record.exc_info else None
        told = f" [{type(error).__name__}: {error}]" if error is not None else ""
        level = "" if record.levelno < logging.WARNING else f"{record.levelname}: "
        who = CURRENT_PROCESS.get() or "simulation"
        self._trace.add(who, f"{level}{event_of(record)} {extras}".rstrip() + told)
        if error is not None and record.levelno >= logging.ERROR:
            self.failures.append((self._trace.now_s(), str(who), error))


@contextmanager
def listening(listener: LogListener) -> Iterator[None]:
    """Send Moldau's log messages to the trace only."""
    logger: Any = logging.getLogger(LOGGER)
    before = (logger.level, logger.propagate, list(logger.handlers), logger.disabled)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers[:] = [listener]
    logger.disabled = False
    try:
        yield
    finally:
        level, logger.propagate, handlers, logger.disabled = before
        logger.setLevel(level)
        logger.handlers[:] = handlers
