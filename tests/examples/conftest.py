"""Case studies on a broker of their own, with a fixed number of records."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moldau.examples.pipeline_process import study_place
from moldau.examples.place import Place
from moldau.examples.run import create_topics
from moldau.examples.study import Study
from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 600
"""The first test that uses Spark also waits for the start of the JVM, and for its compiler."""
HOUR_MS = 3_600_000
RATE = 2.0
"""Records per second of the records' own time: slow enough that sessions end and sensors fall silent in 300 records."""
SEED = 7


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs_java)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session in this process, for tests of single functions."""
    from moldau.examples.pipeline_process import start_spark

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own
        session = start_spark()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """The place of all studies of a test. Each study gets a directory in it."""
    with Broker({"transaction.two.phase.commit.enable": True}) as broker:
        yield Place({"bootstrap.servers": broker.bootstrap_servers}, tmp_path / "studies")


@pytest.fixture
def generated(place: Place) -> Callable[[Study, int], Place]:
    """`generated(study, records)`: create the topics of a study and send records. Returns the study's place."""

    def generate(study: Study, records: int) -> Place:
        own = study_place(place, study)
        own.directory.mkdir(parents=True)
        create_topics(study, own, fresh=False)
        # Records are at least an hour old. The same minute and second in each run gives the same windows.
        begin_ms = (time.time_ns() // 1_000_000 // HOUR_MS - 1) * HOUR_MS
        with study.sender(own) as send:
            for record in islice(study.records(SEED, begin_ms, RATE), records):
                send(record)
        return own

    return generate
