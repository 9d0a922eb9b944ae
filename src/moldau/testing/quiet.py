"""Keeps brokers inside of a test's process from talking: their log lines are about what the test does on purpose."""

from __future__ import annotations

import logging
from threading import Lock

LOGGERS = tuple(
    f"moldau.{package}"
    for package in ("broker", "cluster", "groups", "host", "log", "net", "replication", "transactions")
)
"""Whose voice a broker has. The clients' is their users'."""

_lock = Lock()
_asked: list[int] = []
_muted: list[logging.Logger] = []


def hush(level: int) -> None:
    """While a broker runs, only lines of this level or above; of several brokers the most talkative one decides. A
    logger that somebody gave a level keeps it."""
    with _lock:
        if not _asked:
            loggers = map(logging.getLogger, LOGGERS)
            _muted.extend(logger for logger in loggers if logger.level == logging.NOTSET)
        _asked.append(level)
        _apply()


def unhush(level: int) -> None:
    """With the last broker all is as it was."""
    with _lock:
        _asked.remove(level)
        _apply()
        if not _asked:
            _muted.clear()


def _apply() -> None:
    level = min(_asked, default=logging.NOTSET)
    for logger in _muted:
        logger.setLevel(level)
