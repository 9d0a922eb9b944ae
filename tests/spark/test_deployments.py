"""Source and sink on a standalone cluster, through Spark Connect, and in a declarative pipeline.

Each test starts its own JVMs, which takes longer than the test itself: only with full counts.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau import Admin, Consumer, TopicPartition
from tests.spark import topics
from tests.support.waiting import wait_until

JOB = Path(__file__).with_name("drain_job.py")
JOB_TIMEOUT_S = 600
START_TIMEOUT_S = 120
RECORDS = 1000
PARTITIONS = 4

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def _full_counts_only(soak: bool) -> None:
    if not soak:
        pytest.skip("with make soak: starts JVMs of its own")


@pytest.fixture
def filled(bootstrap: str, new_topic: Callable[..., str]) -> str:
    topic = new_topic(PARTITIONS)
    for partition in range(PARTITIONS):
        values = [b"%d" % number for number in range(partition, RECORDS, PARTITIONS)]
        topics.send(bootstrap, topic, values, partition=partition)
    return topic


@pytest.fixture
def target(new_topic: Callable[..., str]) -> str:
    return new_topic(3)


def has_every_number_doubled_once(bootstrap: str, topic: str) -> None:
    """Whether each number is there once, doubled: no record of another attempt is visible with read_uncommitted, and
    no open transaction blocks read_committed readers."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        everything = [TopicPartition(topic, index) for index in range(3)]
        consumer.assign(everything)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(*everything)
        found: list[int] = []

        def read_to_the_end() -> bool:
            found.extend(int(record.value) for record in consumer.poll(1.0))
            return all(consumer.position(one) >= ends[one] for one in everything)

        wait_until(read_to_the_end, f"{RECORDS} records, to the offsets {ends}", START_TIMEOUT_S)
    assert sorted(found) == list(range(0, 2 * RECORDS, 2))
    with Admin(bootstrap_servers=bootstrap) as admin:
        wait_until(lambda: not admin.list_transactions(states=["Ongoing"]), "no transaction is open", START_TIMEOUT_S)


def environment() -> dict[str, str]:
    python = str(Path(sys.executable))
    return {
        **os.environ,
        "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }


def run_job(*arguments: str) -> str:
    command = [sys.executable, str(JOB), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False, env=environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def spark_class(*arguments: str) -> list[str]:
    import pyspark

    return [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *arguments]


@contextlib.contextmanager
def daemon(log: Path, *arguments: str, ready: str) -> Iterator[str]:
    """Start a process of a cluster and return the match in its log when it is ready."""
    with log.open("wb") as output:
        process = subprocess.Popen(spark_class(*arguments), stdout=output, stderr=output, env=environment())
    try:

        def found() -> re.Match[str] | None:
            text = log.read_text(errors="replace")
            assert process.poll() is None, text
            return re.search(ready, text)

        yield wait_until(found, f"{ready!r} in {log}", START_TIMEOUT_S)[0]
    finally:
        process.terminate()
        process.wait(START_TIMEOUT_S)


@contextlib.contextmanager
def standalone_cluster(directory: Path) -> Iterator[str]:
    """One master and two workers of one core each. Returns the master's address."""
    master_class, worker_class = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
    place = ("--host", "127.0.0.1", "--webui-port", "0")
    with contextlib.ExitStack() as stack:
        started = daemon(directory / "master.log", master_class, *place, "--port", "0", ready=r"spark://127[\d.]+:\d+")
        address = stack.enter_context(started)
        for number in range(2):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"worker-{number}"))
            log = directory / f"worker-{number}.log"
            stack.enter_context(daemon(log, worker_class, *place, *size, address, ready="Successfully registered"))
        yield address


def test_a_standalone_cluster_of_two_workers_copies_a_topic_once(
    bootstrap: str, filled: str, target: str, tmp_path: Path
) -> None:
    with standalone_cluster(tmp_path) as address:
        output = run_job("master", address, bootstrap, filled, target, str(tmp_path))
    assert f"streamed {RECORDS} {RECORDS}" in output
    assert f"read {RECORDS}" in output
    has_every_number_doubled_once(bootstrap, target)


def test_spark_connect_copies_a_topic_once(bootstrap: str, filled: str, target: str, tmp_path: Path) -> None:
    output = run_job("remote", "local[2]", bootstrap, filled, target, str(tmp_path))
    assert f"streamed {RECORDS} {RECORDS}" in output
    assert f"read {RECORDS}" in output
    has_every_number_doubled_once(bootstrap, target)


def test_a_declarative_pipeline_copies_a_topic_once(bootstrap: str, filled: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: orders\nstorage: file://{tmp_path}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    )
    (tmp_path / "transformations" / "orders.py").write_text(
        f"""
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()

@dp.table
def orders() -> DataFrame:
    reader = spark.readStream.format("moldau").option("kafka.bootstrap.servers", "{bootstrap}")
    return reader.option("subscribe", "{filled}").option("startingOffsets", "earliest").load()

dp.create_sink("doubled", "moldau", {{"kafka.bootstrap.servers": "{bootstrap}", "topic": "{target}"}})

@dp.append_flow(target="doubled")
def into_topic() -> DataFrame:
    rows = spark.readStream.table("orders")
    return rows.selectExpr("CAST(2 * CAST(CAST(value AS STRING) AS BIGINT) AS STRING) AS value")

@dp.materialized_view
def totals() -> DataFrame:
    return spark.read.table("orders").groupBy("topic").count()
"""
    )
    settings = ["--conf", f"spark.sql.warehouse.dir={tmp_path}/tables", "--conf", "spark.ui.enabled=false"]
    done = subprocess.run(
        ["spark-pipelines", "run", *settings],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=JOB_TIMEOUT_S,
        check=False,
        env=environment(),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    import pyarrow.parquet as pq

    totals = pq.read_table(str(tmp_path / "tables" / "totals")).to_pylist()
    assert totals == [{"topic": filled, "count": RECORDS}], done.stdout + done.stderr
    has_every_number_doubled_once(bootstrap, target)
