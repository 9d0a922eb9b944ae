"""Exactly-once sink under kills: kill -9 of the driver, a Python worker or the broker, at random points.

A separate Spark copies numbers from topic to topic and from there into a Parquet table, while more numbers arrive. At
the end each number is in the topic once and in order, and once in the table.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import psutil
import pytest

from moldau import Admin, Consumer, Producer, TopicPartition
from moldau.client.admin import NewTopic
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

JOB = Path(__file__).with_name("copy_job.py")
SOURCE, TARGET = "numbers", "copies"
PARTITIONS = 2
A_STEP = 600
"""The number of records that are written to the source before each kill: a few batches of the job."""
PATIENCE_S = 240.0
STOP_TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.05

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600)]


class Job:
    """The Spark job in its own process group: driver and JVM end together, Python workers shortly afterwards."""

    def __init__(self, broker: BrokerProcess, directory: Path, how: str) -> None:
        self._log = directory / "job.log"
        command = [sys.executable, str(JOB), broker.bootstrap, SOURCE, TARGET, str(directory), how]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-8_000:]

    def workers(self) -> list[psutil.Process]:
        """The Python processes that Spark's daemons have forked to run tasks."""
        daemons = [one for one in self._below(psutil.Process(self._process.pid)) if _is_daemon(one)]
        pids = {one.pid for one in daemons}
        return [worker for daemon in daemons for worker in self._below(daemon) if worker.pid in pids]

    def _below(self, process: psutil.Process) -> list[psutil.Process]:
        try:
            found: list[psutil.Process] = process.children(recursive=True)
        except psutil.NoSuchProcess:  # the process has ended in the meantime
            return []
        return found

    def kill(self) -> None:
        """Kill the whole process group by SIGKILL."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def stop(self) -> int:
        """Stop cleanly, by ending its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(STOP_TIMEOUT_S)


class KillScenario:
    """Broker, job, and the numbers written so far."""

    def __init__(self, broker: BrokerProcess, directory: Path, chance: random.Random, how: str) -> None:
        self.broker = broker
        self._directory = directory
        self.how = how
        self._chance = chance
        self._kills = self._restarts = 0
        self.sent = 0
        self.job = Job(broker, directory, how)

    def write_more(self) -> None:
        with Producer(bootstrap_servers=self.broker.bootstrap) as producer:
            for number in range(self.sent, self.sent + A_STEP):
                producer.send(SOURCE, b"%d" % number, partition=number % PARTITIONS)
        self.sent += A_STEP

    # -- what is there ---------------------------------------------------------------------------------------------

    def visible(self, partition: int) -> list[int]:
        """The committed records of a partition of the copy, in order."""
        place = TopicPartition(TARGET, partition)
        found: list[int] = []
        settings = {"bootstrap.servers": self.broker.bootstrap, "isolation.level": "read_committed"}
        with Consumer(settings) as consumer:
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            end = consumer.end_offsets(place)[place]
            while consumer.position(place) < end:
                found += [int(record.value) for record in consumer.poll(timeout=1)]
        return found

    def visible_count(self) -> int:
        return sum(len(self.visible(partition)) for partition in range(PARTITIONS))

    def in_table(self) -> list[int]:
        """The rows of the table, by Spark's own log of committed files."""
        import pyarrow.parquet as pq

        log = self._directory / "table" / "_spark_metadata"
        entries = [path for path in log.glob("[0-9]*") if path.suffix in ("", ".compact")] if log.exists() else []
        entries.sort(key=lambda path: int(path.stem))
        compacted = [place for place, path in enumerate(entries) if path.suffix]
        files = [file for path in entries[compacted[-1] if compacted else 0 :] for file in _added_files(path)]
        return sorted(number for file in files for number in pq.read_table(file)["number"].to_pylist())

    def still_open(self) -> list[str]:
        with Admin(bootstrap_servers=self.broker.bootstrap) as admin:
            return [one.id for one in admin.list_transactions(states=["Ongoing"])]

    def wait_until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for the condition. A job that ends after a kill is started again, as an operator would do."""

        def look() -> Any:
            if self.job.ended and not condition():
                assert self._restarts < self._kills, f"the job ended without a kill before {what}:\n{self.job.log}"
                self._restarts += 1
                self.job = Job(self.broker, self._directory, self.how)
            return condition()

        try:
            wait_until(look, what, PATIENCE_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.job.log}") from error

    # -- kills -----------------------------------------------------------------------------------------------------

    def kill_driver(self) -> None:
        self.job.kill()
        self.job = Job(self.broker, self._directory, self.how)

    def kill_worker(self) -> None:
        """Kill a Python worker: of a source, of the sink, or an idle one. It may end by itself before the kill."""
        self.wait_until(self.job.workers, "there are Python workers")
        for worker in self._chance.sample(self.job.workers(), 1):
            with suppress(psutil.NoSuchProcess):
                worker.kill()

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def step(self, kill: Callable[[], None]) -> None:
        """Write more numbers, and kill a process while they are copied."""
        before = self.visible_count()
        self.write_more()
        share = self._chance.random() * 0.8
        self.wait_until(lambda: self.visible_count() >= before + share * A_STEP, "the copy has reached this row")
        self._kills += 1
        kill()


def _is_daemon(process: psutil.Process) -> bool:
    """Whether this is a daemon for tasks or its child, which has the same command line. Other processes belong to the
    driver."""
    try:
        return bool(process.cmdline()[-2:] == ["pyspark.daemon", "pyspark.worker"])
    except psutil.Error:  # the process has ended in the meantime
        return False


def _added_files(log_entry: Path) -> list[str]:
    """The files that an entry of a file sink's log adds: one version line, then one line of JSON per file."""
    lines = [json.loads(line) for line in log_entry.read_text().splitlines()[1:]]
    return [unquote(urlparse(line["path"]).path) for line in lines if line.get("action", "add") == "add"]


@pytest.fixture(params=["format", "write_updates"])
def scenario(request: pytest.FixtureRequest, tmp_path: Path, seed: int) -> Iterator[KillScenario]:
    """Rows are written by the sink, or by `foreachBatch`."""
    settings = {"transaction.two.phase.commit.enable": "true", "auto.create.topics.enable": "false"}
    with BrokerProcess(tmp_path / "data", settings) as broker:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(SOURCE, PARTITIONS), NewTopic(TARGET, PARTITIONS)])
        scenario = KillScenario(broker, tmp_path, random.Random(seed), request.param)
        try:
            yield scenario
        finally:
            scenario.job.kill()


def test_every_number_is_copied_once_whatever_is_killed(
    scenario: KillScenario, seed: int, count: Callable[[int, int], int]
) -> None:
    kinds = [scenario.kill_worker, scenario.kill_broker, scenario.kill_driver]
    chance = random.Random(seed)
    chance.shuffle(kinds)
    # Only the driver's part of write_updates differs from the sink.
    if scenario.how == "write_updates":
        kinds.sort(key=lambda kind: kind != scenario.kill_driver)
    kills = [kinds[place % len(kinds)] for place in range(count(1, 50))]
    chance.shuffle(kills)
    for kill in kills:
        scenario.step(kill)
    scenario.write_more()
    expected = list(range(scenario.sent))
    scenario.wait_until(lambda: len(scenario.in_table()) >= len(expected), "all rows are in the table")
    scenario.wait_until(lambda: not scenario.still_open(), "no transaction is open")
    assert scenario.job.stop() == 0, scenario.job.log
    assert scenario.in_table() == expected
    for partition in range(PARTITIONS):
        assert scenario.visible(partition) == expected[partition::PARTITIONS]
    assert scenario.still_open() == []
