"""One SQL server in this process, on the Spark session and the broker of the tests of SQL.

server.define("totals", "CREATE TABLE …", sources, target)     writes a query to the catalogue
server.wait_state("totals", "RUNNING")
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from moldau.spark.session_holder import SessionHolder
from moldau.sql.catalogue import Catalogue
from moldau.sql.declarations import Declaration
from moldau.sql.queries import QueryDefinition
from moldau.sql.server.command import serve_settings
from moldau.sql.server.sql_server import SqlServer
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 120.0
SETTINGS = (
    "session.timeout.ms=6000",
    "heartbeat.interval.ms=500",
    "moldau.sql.restart.pause.ms=100",
    "moldau.sql.restart.max.failures=3",
    "moldau.sql.report.interval.ms=200",
    "moldau.sql.statement.max.rows=5",
    "moldau.sql.max.rows=50",
    "moldau.sql.max.streams=2",
)


class SharedSession(SessionHolder):
    """The session of the tests, which goes on after the server."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__("tests", {})
        self._session, self.generation = spark, 1

    def close(self) -> None:
        pass

    def kill(self) -> None:
        raise AssertionError("the JVM of the tests does not answer")


class ServerThread:
    """A server with its own event loop, and the catalogue of its cluster."""

    def __init__(self, bootstrap: str, state: Path, spark: SparkSession, *assignments: str) -> None:
        self.bootstrap = bootstrap
        self.state = state
        self._settings = serve_settings(
            properties="",
            environment={},
            bootstrap=bootstrap,
            port=0,
            state_dir=str(state),
            assignments=[*SETTINGS, *assignments],
        )
        self._holder = SharedSession(spark)
        self._ready = threading.Event()
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread = threading.Thread(target=self._serve, name="sql server of the tests")
        self.error: BaseException | None = None
        self.url = ""
        self.catalogue = Catalogue({"bootstrap.servers": bootstrap})
        self.client = httpx.Client(timeout=TIMEOUT_S)

    def _serve(self) -> None:
        async def main() -> None:
            stop = asyncio.Event()
            self._stop = asyncio.get_running_loop(), stop

            def ready(addresses: Any) -> None:
                self.url = addresses[0].url
                self._ready.set()

            await SqlServer(self._settings, self._holder).run(stop, ready)

        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - the test gets it
            self.error = error
        finally:
            self._ready.set()

    def start(self) -> ServerThread:
        self._thread.start()
        assert self._ready.wait(TIMEOUT_S)
        if self.error is not None:
            raise self.error
        self.client.base_url = httpx.URL(self.url)
        self.catalogue.open()
        return self

    def stop(self) -> None:
        self.client.close()
        self.catalogue.close()
        if self._stop is not None and self._thread.is_alive():
            loop, stop = self._stop
            loop.call_soon_threadsafe(stop.set)
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def wait_role(self, role: str) -> None:
        wait_until(lambda: self.client.get("/health").json()["role"] == role, f"role {role}", TIMEOUT_S)

    # -- queries -------------------------------------------------------------------------------------------------------

    def define(self, name: str, sql: str, sources: list[Declaration], target: Declaration, **settings: str) -> str:
        """Write a query to the catalogue, as a session does, and return its id."""
        query_id = uuid.uuid4().hex
        now_ms = int(time.time() * 1_000)
        definition = QueryDefinition(name, query_id, sql, target, tuple(sources), settings, created_ms=now_ms)
        self.catalogue.put_query(definition)
        return query_id

    def query(self, name: str) -> dict[str, Any]:
        answer = self.client.get(f"/queries/{name}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def status(self, name: str) -> dict[str, Any]:
        return self.query(name)["status"] or {"state": None}

    def wait_state(self, name: str, state: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            status = self.status(name)
            assert state == "FAILED" or status["state"] != "FAILED", status["trace"]
            return status if status["state"] == state else None

        found: dict[str, Any] = wait_until(reached, f"{name} is {state}", TIMEOUT_S)
        return found


@pytest.fixture(scope="package")
def server_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of their own: servers run every query of a cluster, also those of other tests."""
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}
    with BrokerProcess(tmp_path_factory.mktemp("sql-server") / "data", settings=settings) as broker:
        yield broker


@pytest.fixture(scope="package")
def client_settings(server_broker: BrokerProcess) -> dict[str, str]:
    return {"bootstrap.servers": server_broker.bootstrap}


@pytest.fixture(scope="package")
def server(
    spark: SparkSession, server_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerThread]:
    from moldau.spark.fetching import close_clients

    running = ServerThread(server_broker.bootstrap, tmp_path_factory.mktemp("sql-state"), spark)
    try:
        running.start().wait_role("leader")
        yield running
    finally:
        running.stop()
        close_clients()


@pytest.fixture
def read(client_settings: dict[str, str]) -> Callable[[str], list[tuple[bytes | None, bytes | None]]]:
    """`read(topic)`: the keys and values of all committed records."""

    def all_records(topic: str) -> list[tuple[bytes | None, bytes | None]]:
        from moldau import Consumer, TopicPartition

        settings = {**client_settings, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        with Consumer(settings) as consumer:
            partitions = [TopicPartition(topic, one.index) for one in consumer.partitions_for(topic) or ()]
            consumer.assign(partitions)
            ends = consumer.end_offsets(*partitions)
            found = []
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                found += [(record.key, record.value) for record in consumer.poll(0.1)]
            return found

    return all_records
