"""One Spark session, one broker and one SQL session for the tests of this folder.

    sql("SELECT count(*) AS n FROM orders")     rows as dictionaries; other statements give their result
    records("orders", [({"id": 1}, "key")])     writes records, and waits for them

Names of relations are unique per test (`unused_name`, `name`), so that tests do not see each other's.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from moldau.sql.session import SqlSession

CONFIGURATION = {
    "spark.master": "local[2]",
    "spark.app.name": "moldau-sql-tests",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # This JVM runs for a minute only: the full compiler and a parallel collector cost more than they save.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.pollingDelay": "50ms",
    # Checkpoints of tests need not survive a crash of the machine.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
TIMEOUT_S = 600
"""The first test that uses Spark also waits for the start of the JVM, and for its compiler."""
SPARK_FIXTURES = frozenset({"spark", "session", "sql"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        used = SPARK_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if Path(__file__).parent in item.path.parents and used:
            item.add_marker(pytest.mark.needs_java)
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if shutil.which("java") is None:
        pytest.skip("java is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        directory = tmp_path_factory.mktemp("spark")
        builder = SparkSession.builder.config(map=CONFIGURATION)
        builder = builder.config("spark.local.dir", str(directory / "local"))
        started = builder.config("spark.sql.warehouse.dir", str(directory / "tables")).getOrCreate()
    started.sparkContext.setLogLevel("OFF")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def sql_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for all tests of this folder that do not stop it. Topics are not created by accident."""
    settings = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}
    with BrokerProcess(tmp_path_factory.mktemp("sql") / "data", settings=settings) as broker:
        yield broker
        assert broker.alive(), broker.log


@pytest.fixture(scope="session")
def client_settings(sql_broker: BrokerProcess) -> dict[str, str]:
    return {"bootstrap.servers": sql_broker.bootstrap}


@pytest.fixture(scope="session")
def session(spark: SparkSession, client_settings: dict[str, str]) -> Iterator[SqlSession]:
    from moldau.spark.fetching import close_clients
    from moldau.sql.session import SqlSession

    with SqlSession(client_settings, spark=spark) as opened:
        yield opened
    close_clients()


@pytest.fixture
def sql(session: SqlSession) -> Callable[[str], Any]:
    """`sql(text)`: run statements; the result of the last one, as a list of dictionaries if it is rows."""
    from moldau.sql.parser import parse
    from moldau.sql.results import ResultRows

    def run(text: str) -> Any:
        result: Any = None
        for statement in parse(text):
            result = session.execute(statement)
            if isinstance(result, ResultRows):
                names = [column.name for column in result.columns]
                result = [dict(zip(names, row, strict=True)) for row in result.rows]
        return result

    return run


@pytest.fixture
def name() -> str:
    """A name of a relation that no other test has, without characters that need quotes."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def records(client_settings: dict[str, str]) -> Callable[..., None]:
    """`records(topic, [(value, key), …], partitions=1)`: create the topic if needed, and write records.

    A value or a key is bytes, text, None, or anything else, which is written as JSON. A third and a fourth item of a
    record are its partition and its timestamp in milliseconds.
    """
    from moldau import Admin, NewTopic, Producer

    def write(topic: str, rows: Iterable[tuple[Any, ...]], partitions: int = 1, **configs: str) -> None:
        with Admin(client_settings) as admin:
            if topic not in {one.name for one in admin.list_topics()}:
                admin.create_topics([NewTopic(topic, partitions, configs=configs)])
        with Producer({**client_settings, "linger.ms": 5}) as producer:
            for row in rows:
                value, key, partition, timestamp = (*row, None, None, None)[:4]
                producer.send(topic, _bytes(value), _bytes(key), partition=partition, timestamp=timestamp)

    return write


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()
