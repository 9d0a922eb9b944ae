"""Runs of a new project on Spark: killed in the middle and continued, watched and stopped from outside, and failures.

Each run starts a JVM, which takes longer than what it does. The short form has one scenario with two runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import uuid
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau import Consumer, TopicPartition
from moldau.pipelines.new_project import create_project
from moldau.pipelines.run_status import LOST
from moldau.pipelines.state_files import ProjectState
from tests.spark.spark_cluster import daemon, environment, standalone_cluster
from tests.support.waiting import wait_until

WAIT_S = 400
QUICK_JVM = """
  # A JVM that runs for a minute only: the full compiler and a parallel collector cost more than they save.
  spark.driver.extraJavaOptions: -XX:+UseSerialGC -XX:TieredStopAtLevel=1
  spark.driver.memory: 1g
"""

MANY_SESSIONS = """
from moldau.pipelines import runner
runner.UPDATES_PER_SESSION = 1
from moldau.__main__ import main
main()
"""
"""The command, with a new session of Spark for each update, which otherwise happens after a hundred."""

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(1200)]


class Shop:
    """A project that `moldau pipeline new` wrote, and the commands of somebody who uses it."""

    def __init__(self, parent: Path, bootstrap: str) -> None:
        self.name = f"shop-{uuid.uuid4().hex[:8]}"
        self.directory = create_project(parent, self.name)
        spec = self.directory / "spark-pipeline.yml"
        spec.write_text(spec.read_text() + QUICK_JVM)
        self.environment = {**os.environ, "MOLDAU_BOOTSTRAP_SERVERS": bootstrap, "PYTHONUNBUFFERED": "1"}
        self.bootstrap = bootstrap
        self.state = ProjectState(self.directory / ".moldau")
        self.sent: list[dict[str, Any]] = []

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "moldau", "pipeline", *arguments]
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-c", MANY_SESSIONS, "pipeline", "run", "--master", "local[2]", *arguments]
        with (self.directory / "output.txt").open("a") as output:
            process = subprocess.Popen(
                command, cwd=self.directory, env=self.environment, stdout=output, stderr=output, text=True
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def generate(self, count: int) -> None:
        first = len(self.sent)
        command = ["generate.py", "--orders", str(count), "--first", str(first), "--seed", str(first)]
        subprocess.run([sys.executable, *command], cwd=self.directory, env=self.environment, check=True, timeout=WAIT_S)
        generator: dict[str, Any] = {"__name__": "generate"}
        exec((self.directory / "generate.py").read_text(), generator)
        self.sent += generator["orders"](count, first, first)

    def status(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.poll() is None, self.output()
        found = self.state.read_status()
        return found if found is not None and found["pid"] == process.pid else {"updates": 0, "datasets": []}

    def output(self) -> str:
        return (self.directory / "output.txt").read_text()

    # The numbers that must come out, from the orders that were sent.

    @property
    def valid(self) -> list[dict[str, Any]]:
        return [order for order in self.sent if order["quantity"] > 0]

    def large_ids(self) -> list[int]:
        return sorted(order["id"] for order in self.valid if order["quantity"] * order["price"] >= 10_000)

    def revenue(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for order in self.valid:
            found[order["product"]] += order["quantity"] * order["price"]
        return dict(found)

    def revenue_in_table(self) -> dict[str, int]:
        import pyarrow.parquet as pq

        rows = pq.read_table(self.directory / "storage" / "tables" / "sales").to_pylist()
        return {row["product"]: row["revenue"] for row in rows}

    def ids_in_topic(self) -> list[int]:
        topic = f"{self.name}-large-orders"
        with Consumer(bootstrap_servers=self.bootstrap, isolation_level="read_committed") as consumer:
            partitions = [TopicPartition(topic, one.index) for one in consumer.list_topics()[topic]]
            consumer.assign(partitions)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(*partitions)
            found: list[int] = []

            def read_to_the_end() -> bool:
                found.extend(json.loads(record.value)["id"] for record in consumer.poll(0.5))
                return all(consumer.position(one) >= ends[one] for one in partitions)

            wait_until(read_to_the_end, f"everything up to {ends}")
        return sorted(found)


@pytest.fixture
def shop(tmp_path: Path, bootstrap: str) -> Shop:
    return Shop(tmp_path, bootstrap)


def state_of(status: dict[str, Any], dataset: str) -> str:
    return next((one["state"] for one in status["datasets"] if one["name"] == dataset), "")


def test_a_pipeline_that_is_killed_continues_and_writes_exactly_once(
    shop: Shop, count: Callable[[int, int], int]
) -> None:
    shop.generate(120)
    complete = count(0, 1)  # updates before the one that is killed
    with shop.running() as process:
        wait_until(lambda: shop.status(process)["updates"] >= complete, "the first update", WAIT_S)
        if complete:
            shop.generate(200)

        def writes_or_has_written() -> bool:
            status = shop.status(process)
            return status["updates"] > complete or state_of(status, "large_orders") == "running"

        wait_until(writes_or_has_written, "an update writes to the topic", WAIT_S)
        process.send_signal(signal.SIGKILL)
        process.wait()
    lost = shop.command("status", "-o", "json")
    assert lost.returncode == 1 and json.loads(lost.stdout)["state"] == LOST
    shop.generate(80)
    with shop.running() as process:
        wait_until(lambda: shop.status(process)["updates"] >= 1, "an update after the restart", WAIT_S)
        seen = shop.command("status")
        assert seen.returncode == 0 and "streaming table" in seen.stdout
        second = shop.command("run", "--once")
        assert second.returncode == 1 and f"already run by process {process.pid}" in second.stderr
        picture = shop.command("graph", "--file", "-")
        texts = [element.text for element in ET.fromstring(picture.stdout).iter("{http://www.w3.org/2000/svg}text")]
        assert {f"{shop.name}-orders", "valid_orders", "sales"} <= set(texts), texts
        assert shop.command("stop").stdout == f"{shop.name} has stopped\n"
        assert process.wait(WAIT_S) == 0, shop.output()
    assert shop.ids_in_topic() == shop.large_ids()
    assert shop.revenue_in_table() == shop.revenue()
    status = shop.state.read_status()
    assert status is not None and status["state"] == "stopped" and status["error"] is None
    assert shop.state.picture.read_text().startswith("<svg")
    assert shop.command("stop").returncode == 1, "nothing runs any more"


@pytest.fixture
def full_counts(soak: bool) -> None:
    if not soak:
        pytest.skip("with make soak: starts JVMs of its own")


@pytest.mark.usefixtures("full_counts")
def test_the_test_of_the_template_passes(shop: Shop) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pipeline.py"]
    done = subprocess.run(
        command, cwd=shop.directory, env=shop.environment, capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("full_counts")
def test_runs_with_once_continue_and_a_full_refresh_starts_again(shop: Shop) -> None:
    for count in (50, 70):
        shop.generate(count)
        done = shop.command("run", "--once", "--master", "local[2]")
        assert done.returncode == 0, done.stderr
        assert shop.ids_in_topic() == shop.large_ids()
        assert shop.revenue_in_table() == shop.revenue()
    done = shop.command("run", "--once", "--full-refresh", "--master", "local[2]")
    assert done.returncode == 0, done.stderr
    assert shop.revenue_in_table() == shop.revenue()
    assert shop.ids_in_topic() == sorted(2 * shop.large_ids()), "a sink writes all its rows again"


@pytest.mark.usefixtures("full_counts")
def test_a_pipeline_runs_on_a_standalone_cluster(shop: Shop, tmp_path: Path) -> None:
    shop.generate(50)
    shop.environment |= environment()
    with standalone_cluster(tmp_path) as address:
        done = shop.command("run", "--once", "--master", address)
    assert done.returncode == 0, done.stderr
    assert shop.ids_in_topic() == shop.large_ids()


@pytest.mark.usefixtures("full_counts")
def test_a_pipeline_runs_on_a_spark_connect_server(shop: Shop, tmp_path: Path) -> None:
    shop.generate(50)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "spark.master": "local[2]",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(tmp_path / "tables"),
        "spark.ui.enabled": "false",
    }
    options = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    submit, server = "org.apache.spark.deploy.SparkSubmit", "org.apache.spark.sql.connect.service.SparkConnectServer"
    with daemon(tmp_path / "server.log", submit, "--class", server, *options, "spark-internal", ready="started at"):
        done = shop.command("run", "--once", "--remote", f"sc://127.0.0.1:{port}")
    assert done.returncode == 0, done.stderr
    assert shop.ids_in_topic() == shop.large_ids()


@pytest.mark.usefixtures("full_counts")
def test_demonstration_data_is_made_and_the_first_ctrl_c_ends_cleanly(shop: Shop) -> None:
    with shop.running() as process:
        wait_until(lambda: shop.status(process)["updates"] >= 1, "the first update", WAIT_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0, shop.output()
    assert "generate.py creates them" in shop.output()
    assert shop.ids_in_topic()


CASES = {
    "a statement that is not SQL": (
        "transformations/sales.sql",
        "WHERE quantity > 0",
        "WERE quantity > > 0",
        "transformations/sales.sql:5:",
    ),
    "a column that does not exist": (
        "transformations/sales.sql",
        "sum(amount)",
        "sum(amuont)",
        "transformations/sales.sql:9:",
    ),
    "an error in Python": (
        "transformations/orders.py",
        'write_topic("large_orders"',
        'write_topik("large_orders"',
        "transformations/orders.py:16: NameError: name 'write_topik' is not defined",
    ),
    "a topic that does not exist": (
        "spark-pipeline.yml",
        "  moldau.pipeline.demo.data: generate.py",
        "",
        "transformations/orders.py:10: orders failed: topic NAME-orders does not exist at ",
    ),
    "rows that fail": (
        "transformations/sales.sql",
        "quantity * price AS amount",
        "quantity / (quantity - quantity) AS amount",
        "valid_orders failed: ",
    ),
}


@pytest.mark.usefixtures("full_counts")
@pytest.mark.parametrize("case", CASES)
def test_a_failure_names_the_dataset_the_line_and_the_reason(shop: Shop, case: str) -> None:
    file, before, after, expected = CASES[case]
    path = shop.directory / file
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    if case == "rows that fail":
        shop.generate(20)
    done = shop.command("run", "--once", "--master", "local[2]")
    assert done.returncode == 1, done.stdout
    assert expected.replace("NAME", shop.name) in done.stderr
    assert done.stderr.count("\n") == 1, "one line"
    assert "Traceback" not in done.stderr and "org.apache" not in done.stderr
    status = shop.command("status", "-o", "json")
    assert status.returncode == 1 and json.loads(status.stdout)["state"] == "failed"
