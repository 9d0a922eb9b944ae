"""Takeover between two Connect processes: nothing is lost or doubled where exactly once is promised.

A source writes numbers to a topic at a steady rate, and a sink writes the topic to Parquet files. Then the process that
runs them is killed, or stopped until the other one has taken over and woken up again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing import Broker
from tests.compat.apache_kafka.processes import free_port
from tests.support.connect_worker import ConnectWorker
from tests.support.waiting import wait_until
from tests.system.connect.numbers_pipeline import BOTH, TIMEOUT_S, begin, check_every_number_once, rows

ROWS = 24_000


@contextlib.contextmanager
def two_workers() -> Iterator[tuple[Broker, ConnectWorker, ConnectWorker]]:
    with Broker() as broker:
        first, second = (ConnectWorker(broker.bootstrap_servers, free_port()) for _ in range(2))
        with first, second:
            yield broker, first, second


def owner(asked: ConnectWorker, name: str) -> str:
    worker_id: str = asked.status(name)["connector"]["worker_id"]
    return worker_id


@pytest.mark.needs_java
@pytest.mark.timeout(300)
@pytest.mark.parametrize("end", ["killed", "stopped and continued"])
def test_the_other_process_takes_over_and_every_number_is_there_once(tmp_path: Path, end: str) -> None:
    directory = tmp_path / "numbers"
    with two_workers() as (broker, first, second):
        begin(broker, first, directory, ROWS)
        wait_until(lambda: len(rows(directory)) > 0, "the first numbers are in files", TIMEOUT_S)
        victim, other = (first, second) if owner(first, BOTH[0]) == first.worker_id else (second, first)
        if end == "killed":
            victim.kill()
        else:
            victim.freeze()
        for name in BOTH:
            other.wait_running(name, on=other)
        if end != "killed":
            wait_until(
                lambda: len(rows(directory)) > ROWS // 2, "the other process has done much of the work", TIMEOUT_S
            )
            victim.thaw()
        check_every_number_once(broker, directory, ROWS)
        if end != "killed":  # the process that slept is a healthy member again, and both end cleanly
            wait_until(lambda: {owner(victim, name) for name in BOTH}, "the process that slept answers")
