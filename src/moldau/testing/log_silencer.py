"""Quiet logging for brokers in a test process, because tests provoke most log messages on purpose."""

from __future__ import annotations

import logging
from threading import Lock

LOGGERS = tuple(
    f"moldau.{package}"
    for package in ("broker", "cluster", "groups", "host", "log", "net", "replication", "transactions")
)
"""The loggers of a broker. Those of the clients belong to their users."""

_lock = Lock()
_asked: list[int] = []
_muted: list[logging.Logger] = []


def mute(level: int) -> None:
    """Log only messages of this level or above while a broker runs; of several brokers the lowest level wins. A logger
    with an explicit level keeps it."""
    with _lock:
        if not _asked:
            loggers = map(logging.getLogger, LOGGERS)
            _muted.extend(logger for logger in loggers if logger.level == logging.NOTSET)
        _asked.append(level)
        _apply()


def unmute(level: int) -> None:
    """Restore the loggers after the last broker."""
    with _lock:
        _asked.remove(level)
        _apply()
        if not _asked:
            _muted.clear()


def _apply() -> None:
    level = min(_asked, default=logging.NOTSET)
    for logger in _muted:
        logger.setLevel(level)
