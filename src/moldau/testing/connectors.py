"""Connectors in tests: an engine in the test's own process, without REST API and without a group of workers.

    from moldau.testing import Broker, Connectors

    with Broker() as broker, Connectors(broker.bootstrap_servers, {"Weather": Weather}) as connectors:
        connectors.start("weather", {"connector.class": "Weather", "topic": "weather"})
        connectors.wait_for_records("weather", 100)

Connectors run as in `moldau connect`, on a Spark session of their own, which takes some seconds to start. Share one
`Connectors` between the tests of a module. The classes that are given need not be installed: Spark gets a copy of them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from moldau.connect.connector import Connector
    from moldau.connect.engine import StatusReport

TIMEOUT_S: Final = 60.0
PAUSE_S: Final = 0.02

SETTINGS: Final[Mapping[str, str]] = {
    "group.id": "connect-tests",
    "offset.storage.topic": "connect-offsets",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
SPARK: Final[Mapping[str, str]] = {
    "spark.master": "local[4]",
    # A test runs for seconds: optimising the JVM's code would take longer than it saves.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class ConnectorFailed(AssertionError):
    """A connector that has failed while a test waited for it, with the trace of its status."""


class Connectors:
    """Connectors of a test, with the classes that it defines and those that are installed."""

    def __init__(
        self,
        bootstrap_servers: str,
        classes: Mapping[str, type[Connector]] | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        spark: Mapping[str, str] | None = None,
    ) -> None:
        """`classes`: by the name for `connector.class`. `settings` are a worker's, `spark` are Spark's."""
        from moldau.connect.engine.engine import Engine

        self._classes = dict(classes or {})
        for one in self._classes.values():
            _send_by_value(one)
        worker = {**SETTINGS, "bootstrap.servers": bootstrap_servers, **(settings or {})}
        self._engine = Engine(worker, {**SPARK, **(spark or {})}, load=self._load)

    def _load(self, name: str) -> type[Connector]:
        from moldau.connect.built_in_plugins import CONNECTORS
        from moldau.connect.plugins import installed

        found = self._classes.get(name)
        return found if found is not None else installed().load(name, *CONNECTORS)

    def start(self, name: str, config: Mapping[str, str]) -> None:
        """Run a connector, or give a running one another configuration."""
        self._engine.start(name, {"name": name, **config})

    def stop(self, name: str) -> None:
        """End a connector, and return when nothing of it runs. Its offsets stay."""
        self._engine.stop(name).result(TIMEOUT_S)

    def status(self, name: str) -> StatusReport | None:
        return self._engine.state(name)

    def wait_for_records(self, name: str, count: int, timeout_s: float = TIMEOUT_S) -> StatusReport:
        """Wait until the connector has processed that many records since its start. ConnectorFailed if it fails."""
        from moldau.connect.engine import ConnectorState

        deadline = time.monotonic() + timeout_s
        while True:
            status = self._engine.state(name)
            if status is not None and status.progress.records >= count:
                return status
            if status is not None and status.state is ConnectorState.FAILED:
                raise ConnectorFailed(f"connector {name} has failed:\n{status.trace}")
            if time.monotonic() > deadline:
                raise ConnectorFailed(f"connector {name} has not processed {count} records in {timeout_s} s: {status}")
            time.sleep(PAUSE_S)

    def close(self) -> None:
        """Stop all connectors and the Spark session."""
        self._engine.close().result(TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _send_by_value(connector: type[Any]) -> None:
    """Let Spark copy the class itself: its Python processes may not be able to import a test module."""
    from pyspark import cloudpickle

    module = sys.modules.get(connector.__module__)
    if module is not None and not connector.__module__.startswith("moldau."):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
