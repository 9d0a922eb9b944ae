"""Source and sink on a standalone cluster, through Spark Connect, and in a declarative pipeline.

Each test starts its own JVMs, which takes longer than the test itself: only with full counts.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau import Admin, Consumer, TopicPartition
from tests.spark import topics
from tests.spark.spark_cluster import START_TIMEOUT_S, environment, standalone_cluster
from tests.support.waiting import wait_until

JOB = Path(__file__).with_name("drain_job.py")
JOB_TIMEOUT_S = 600
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


def run_job(*arguments: str) -> str:
    command = [sys.executable, str(JOB), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False, env=environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
