"""Copiers that are paused in a transaction and resume after they were replaced, while brokers fail.

tests/compat/transactions has the tests in which copiers are killed anywhere.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from tests.compat.transactions import copier
from tests.compat.transactions.test_confluent_kafka import TIMEOUT_S, read
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until
from tests.system import calls

PARTITIONS = 2
RECORDS_A_ROUND = 80
"""Each partition has at least eight transactions; a copier is paused in one of the first."""

FREEZES_IN = (1, 2, 3)
STEPS = ("transaction", "flush", "offsets", "commit")
SETTINGS = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "3"}


class Copier:
    """A copier process whose output is read step by step."""

    def __init__(self, bootstrap: str, *stops_at: str) -> None:
        command = [sys.executable, copier.__file__, bootstrap, "source", "sink", "copier", "assign", *stops_at]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.complaints = ""
        self._reader = threading.Thread(target=self._read_complaints, daemon=True)
        self._reader.start()

    def _read_complaints(self) -> None:
        assert self.process.stderr is not None
        self.complaints = self.process.stderr.read()

    def follow(self, step: str, times: int = 1) -> None:
        """Return when the copier has printed this line so many times."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == step:
                times -= 1
                if not times:
                    return
        self.wait()
        raise AssertionError(f"ended before step {step}: {self.complaints}")

    def wait_until_stopped(self) -> None:
        """Return when the copier has stopped itself, at exactly the step that it was given."""
        watched = psutil.Process(self.process.pid)
        wait_until(lambda: watched.status() == psutil.STATUS_STOPPED, "the copier has stopped itself", TIMEOUT_S)

    def wait(self) -> int:
        code = self.process.wait(TIMEOUT_S)
        self._reader.join(TIMEOUT_S)
        return code


@contextmanager
def copying(bootstrap: str, *stops_at: str) -> Iterator[Copier]:
    found = Copier(bootstrap, *stops_at)
    with found.process:
        try:
            yield found
        finally:
            found.process.kill()


@pytest.mark.timeout(120)
def test_a_paused_copier_is_fenced_when_it_resumes_and_every_input_is_copied_once(
    tmp_path: Path, seed: int, count: Callable[[int, int], int]
) -> None:
    rng = random.Random(seed)
    inputs: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    with BrokerProcess(tmp_path / "data", SETTINGS) as broker:
        with RawConnection(broker.bootstrap) as connection:
            for topic in ("source", "sink"):
                calls.create_topic(connection, topic, PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "log_level": 0})
        for number in range(count(2, 60)):
            for partition, values in enumerate(inputs):
                for _ in range(RECORDS_A_ROUND):
                    values.append(b"%d-%06d" % (partition, len(values)))
                    producer.produce("source", values[-1], partition=partition)
            assert producer.flush(TIMEOUT_S) == 0
            with copying(broker.bootstrap, rng.choice(STEPS), str(rng.choice(FREEZES_IN))) as zombie:
                zombie.wait_until_stopped()
                with copying(broker.bootstrap) as successor:
                    successor.follow(rng.choice(STEPS), rng.choice(FREEZES_IN))
                    restart(broker, number)
                    if rng.random() < 0.5:  # it resumes while the successor works, or after the successor has finished
                        zombie.process.send_signal(signal.SIGCONT)
                    successor.follow("done")
                    assert successor.wait() == 0, successor.complaints
                zombie.process.send_signal(signal.SIGCONT)
                assert zombie.wait() != 0, "the fenced copier has committed"
                assert "fenced" in zombie.complaints.lower(), zombie.complaints
        assert [read(broker.bootstrap, "sink", partition) for partition in range(PARTITIONS)] == inputs
    assert "handler" not in broker.log
    assert "ERROR" not in broker.log


def restart(broker: BrokerProcess, number: int) -> None:
    """The broker is killed in the first round, stopped cleanly in the second, and left running for two rounds."""
    if number % 4 == 0:
        broker.kill()
        broker.start()
    elif number % 4 == 1:
        assert broker.stop() == 0, broker.log
        broker.start()
