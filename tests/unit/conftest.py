"""Logging in unit tests: loggers are at full level, also if a broker of the same run has disabled them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from moldau.testing import log_silencer


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in log_silencer.LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
