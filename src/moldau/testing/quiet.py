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
_speakers = 0
_before: dict[str, int] = {}


def hush(level: int) -> None:
    """From the first broker on only lines of this level or above. A logger that was given a level keeps it."""
    global _speakers
    with _lock:
        _speakers += 1
        if _speakers > 1:
            return
        for name in LOGGERS:
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET:
                _before[name] = logger.level
                logger.setLevel(level)


def unhush() -> None:
    """With the last broker all is as it was."""
    global _speakers
    with _lock:
        _speakers -= 1
        if not _speakers:
            for name, level in _before.items():
                logging.getLogger(name).setLevel(level)
            _before.clear()
