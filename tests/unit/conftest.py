"""Unit tests hear what a broker's parts log, also while a broker of the whole run's has hushed them."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from moldau.testing import quiet


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in quiet.LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.NOTSET)
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
