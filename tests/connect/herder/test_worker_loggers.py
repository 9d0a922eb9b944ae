"""Log levels of a worker, with Kafka's names."""

from __future__ import annotations

import logging

import pytest

from moldau.connect.herder import BadRequestError, NotFoundError
from moldau.connect.herder.results import LoggerLevel
from moldau.connect.herder.worker_loggers import WorkerLoggers, level_name


def test_a_level_is_set_for_a_logger_and_those_below_it(request: pytest.FixtureRequest) -> None:
    top = f"levels.{request.node.name}"
    for name in (top, f"{top}.below", f"{top}else"):
        logging.getLogger(name).setLevel(logging.WARNING)
    loggers = WorkerLoggers(lambda: 7)
    assert loggers.level(top) == LoggerLevel("WARN", None)
    assert loggers.set(top, "debug") == [top, f"{top}.below"]
    levels = loggers.levels()
    assert levels[top] == levels[f"{top}.below"] == LoggerLevel("DEBUG", 7)
    assert levels[f"{top}else"] == LoggerLevel("WARN", None)
    assert "root" in levels


def test_an_unknown_logger_and_an_unknown_level_are_refused() -> None:
    loggers = WorkerLoggers(lambda: 7)
    with pytest.raises(NotFoundError, match=r"Logger no\.such\.logger not found"):
        loggers.level("no.such.logger")
    with pytest.raises(BadRequestError, match="invalid log level 'LOUD'"):
        loggers.set("no.such.logger", "LOUD")


@pytest.mark.parametrize(("number", "name"), [(1, "TRACE"), (10, "DEBUG"), (15, "INFO"), (30, "WARN"), (99, "OFF")])
def test_every_level_of_python_has_a_name_of_kafka(number: int, name: str) -> None:
    assert level_name(number) == name
