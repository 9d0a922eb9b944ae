"""One Spark session for all tests of this folder, because its start takes longer than most tests.

Many tests of the source need no Spark: its readers are plain objects, and the tests make Spark's calls. Tests that need
the engine (planning, checkpoints, triggers, Arrow in the JVM) use the fixture `spark`.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.compat.apache_kafka.jars import JarsUnavailableError, fetch_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = Path(__file__).with_name("pom.xml")
"""Spark's own Kafka connector, for comparison. If it cannot be fetched, tests that need it are skipped."""

CONFIGURATION = {
    # Two tasks at a time, and three attempts per task. Without the second number there is one attempt.
    "spark.master": "local[2,3]",
    "spark.app.name": "moldau-tests",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # This JVM runs for a minute only: the full compiler and a parallel collector cost more than they save.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # The same session tests readers with and without filters.
    "spark.sql.python.filterPushdown.enabled": "false",
    "spark.sql.streaming.pollingDelay": "50ms",
    # Checkpoints of tests need not survive a crash of the machine.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


TIMEOUT_S = 600
"""The first test that uses Spark also waits for Maven, for the start of the JVM, and for its compiler."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs_java)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def _connector_jars() -> tuple[str, str]:
    """A list for `spark.jars`, or the reason why there is none."""
    try:
        return ",".join(str(jar) for jar in fetch_jars(CONNECTOR).directory.iterdir()), ""
    except JarsUnavailableError as reason:
        return "", str(reason)


@pytest.fixture(scope="session")
def connector(_connector_jars: tuple[str, str]) -> None:
    """For tests of Spark's own connector, `format("kafka")`."""
    jars, reason = _connector_jars
    if not jars:
        pytest.skip(f"Spark's own Kafka connector cannot be had: {reason}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, _connector_jars: tuple[str, str]) -> Iterator[SparkSession]:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    jars, _ = _connector_jars
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own
        from pyspark.sql import SparkSession

        # Spark's Python workers use the interpreter of the tests, which has the packages.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        directory = tmp_path_factory.mktemp("spark")
        builder = SparkSession.builder.config(map=CONFIGURATION)
        builder = builder.config("spark.local.dir", str(directory / "local"))
        builder = builder.config("spark.jars", jars)
        session = builder.config("spark.sql.warehouse.dir", str(directory / "tables")).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def _clients() -> Iterator[None]:
    """Close the clients of readers that a test calls itself. They stay open in the process, as in Spark's workers."""
    yield
    from moldau.spark.fetching import close_clients

    close_clients()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """The checkpoint directory of the test's streaming query."""
    return str(tmp_path / "checkpoint")
