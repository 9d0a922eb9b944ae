"""Engines for tests: one Spark session per module, connectors that are found by entry points."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from moldau import Consumer, TopicPartition
from moldau.connect.engine import ConnectorState, StatusReport
from moldau.connect.engine.engine import Engine
from tests.support.waiting import wait_until

PLUGINS = str(Path(__file__).parent / "plugins")
SPARK = {
    "spark.master": "local[8]",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executorEnv.PYTHONPATH": PLUGINS,
}
END_S = 150.0
"""Longer than a Spark session and its first batch take on a busy machine."""
TEXT = {"key.converter": "Text", "value.converter": "Text", "header.converter": "Text"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and {"worker", "new_worker"} & set(
            getattr(item, "fixturenames", ())
        ):
            item.add_marker(pytest.mark.needs_java)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session", autouse=True)
def _plugins() -> Iterator[None]:
    """Make the connectors of these tests known, here and in Spark's Python processes."""
    from moldau.connect.plugins import installed

    before = os.environ.get("PYTHONPATH")
    sys.path.insert(0, PLUGINS)
    os.environ["PYTHONPATH"] = PLUGINS if before is None else f"{PLUGINS}{os.pathsep}{before}"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    installed.cache_clear()
    yield
    sys.path.remove(PLUGINS)
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
    installed.cache_clear()


def eventually(condition: Callable[[], Any], what: str = "", timeout_s: float = END_S) -> Any:
    """As `wait_until`, for conditions that a Spark job brings about."""
    return wait_until(condition, what, timeout_s)


class Worker:
    """An engine with everything that it has reported."""

    def __init__(self, bootstrap: str, group: str = "tests", **settings: Any) -> None:
        self.reports: list[StatusReport] = []
        worker: Mapping[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "offset.storage.topic": "connect-offsets",
            **TEXT,
            **settings,
        }
        self.engine = Engine(worker, SPARK, self.reports.append)

    def states(self, name: str) -> list[ConnectorState]:
        return [one.state for one in self.reports if one.name == name]

    def wait_for(self, name: str, state: ConnectorState, timeout_s: float = END_S) -> StatusReport:
        def reached() -> StatusReport | None:
            found = self.engine.state(name)
            return found if found is not None and found.state is state else None

        return wait_until(reached, f"{name} is {state}: {self.engine.state(name)}", timeout_s)

    def wait_for_report(self, name: str, state: ConnectorState, timeout_s: float = END_S) -> StatusReport:
        """The first report of a state that does not last: it may be over before anybody looks."""

        def reported() -> StatusReport | None:
            return next((one for one in self.reports if one.name == name and one.state is state), None)

        return wait_until(reported, f"{name} was {state}: {self.states(name)}", timeout_s)

    def records(self, name: str) -> int:
        found = self.engine.state(name)
        return 0 if found is None else found.progress.records

    def trace(self, name: str) -> str | None:
        found = self.engine.state(name)
        return None if found is None else found.trace

    def stop(self, *names: str) -> None:
        for done in [self.engine.stop(name) for name in names]:
            done.result(END_S)

    def close(self) -> None:
        self.engine.close().result(END_S)


@pytest.fixture(scope="module")
def worker(bootstrap: str, _plugins: None) -> Iterator[Worker]:
    """An engine that all tests of a module share, and with it a Spark session."""
    made = Worker(bootstrap)
    yield made
    made.close()


@pytest.fixture
def faults(tmp_path: Path) -> Path:
    directory = tmp_path / "faults"
    directory.mkdir()
    return directory


@pytest.fixture
def read(bootstrap: str) -> Callable[..., list[Any]]:
    """`read(topic, isolation="read_committed")`: all records of a topic, partition by partition."""

    def records(topic: str, isolation: str = "read_committed") -> list[Any]:
        return all_records(bootstrap, topic, isolation)

    return records


def all_records(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[Any]:
    settings = {"bootstrap.servers": bootstrap, "isolation.level": isolation, "auto.offset.reset": "earliest"}
    with Consumer(settings) as consumer:
        partitions = [TopicPartition(topic, one.index) for one in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(*partitions)
        found: list[Any] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            found += consumer.poll(timeout=1.0)
    return found


def values_of(records: list[Any]) -> list[str]:
    return [record.value.decode() for record in records]
