"""Log levels of a worker, with Kafka's names for them: shown and changed by `/admin/loggers`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from moldau.connect.herder.errors import BadRequestError, NotFoundError
from moldau.connect.herder.results import LoggerLevel

ROOT: Final = "root"

LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
"""Kafka's levels, as numbers of Python's logging."""


def level_name(number: int) -> str:
    """Kafka's name of a level, the nearest one that shows as much."""
    return next((name for name, level in LEVELS.items() if number <= level), "OFF")


class WorkerLoggers:
    """The loggers of this process."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._modified: dict[str, int] = {}

    def levels(self) -> dict[str, LoggerLevel]:
        """The loggers that have a level of their own, by name, and the root."""
        names = [name for name, logger in _loggers().items() if logger.level != logging.NOTSET]
        return {name: self._level(name) for name in sorted({ROOT, *names})}

    def level(self, name: str) -> LoggerLevel:
        """The level of a logger, its own or that of its ancestor. NotFoundError if there is no such logger."""
        if name != ROOT and name not in _loggers():
            raise NotFoundError(f"Logger {name} not found.")
        return self._level(name)

    def _level(self, name: str) -> LoggerLevel:
        return LoggerLevel(level_name(_logger(name).getEffectiveLevel()), self._modified.get(name))

    def set(self, name: str, level: str) -> list[str]:
        """Set the level of a logger and all its descendants. Returns the names of those that were changed."""
        number = LEVELS.get(level.upper())
        if number is None:
            raise BadRequestError(f"invalid log level '{level}'; use one of {', '.join(LEVELS)}")
        known = list(_loggers())
        below = known if name == ROOT else [one for one in known if one.startswith(f"{name}.")]
        changed = sorted({name, *below})
        for one in changed:
            logger = _logger(one)
            if one == name or logger.level != logging.NOTSET:
                logger.setLevel(number)
            self._modified[one] = self._now_ms()
        return changed


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _loggers() -> dict[str, logging.Logger]:
    """The loggers that some module has asked for."""
    known = logging.root.manager.loggerDict
    return {name: one for name, one in known.items() if isinstance(one, logging.Logger)}
