"""A topic whose reads take half a second: only its own readers wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

import pytest

from moldau.wire.errors import ErrorCode
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.system import calls
from tests.system.slow_broker import SLOW_S

ROOT = Path(__file__).resolve().parents[2]

THREADS = 4
SLOW_READERS = 5
"""More readers than the broker has threads."""

QUICK_CLIENTS = 2
ROUNDS = 2
CHUNK = 200
QUICK_CALLS = 3 * CHUNK
"""Calls per round, at least."""

SLOW_READS = 3
ATTEMPTS = 3
"""A tolerance, since the percentiles are about a millisecond and the cores are shared. Blocking shows in every call."""

BLOCKED_S = 0.8 * SLOW_S
"""A call that takes this long was blocked by a slow read on the loop, or waited for a thread."""

PATIENCE_S = 60
BATCHES = 400
LARGE_VALUE = b"v" * 4_000
SMALL_SEGMENTS = {"segment.bytes": "1048576"}
VALUE = b"x" * 100


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with topics of several segments. After a restart, none of their files is open."""
    environment = {"PYTHONPATH": str(ROOT)}
    settings = {"moldau.threads": str(THREADS)}
    with BrokerProcess(
        tmp_path / "data", settings, environment=environment, module="tests.system.slow_broker"
    ) as process:
        with RawConnection(process.bootstrap) as connection:
            for topic in ("slow", "control", "cold", "quick"):
                calls.create_topic(connection, topic, QUICK_CLIENTS, SMALL_SEGMENTS)
            for topic in ("slow", "control", "cold"):
                for _ in range(BATCHES):
                    calls.produce(connection, topic, 0, [LARGE_VALUE])
        assert process.stop() == 0
        yield process.start()


class Workers:
    """Threads that repeat a call, each on its own connection, and measure each call."""

    def __init__(
        self, bootstrap: str, count: int, work: Callable[[RawConnection, int], None], pause_s: float = 0
    ) -> None:
        self._work = work
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._progress = threading.Condition()
        self.times: list[tuple[float, float]] = []
        """(began, ended)"""
        self._connections = [RawConnection(bootstrap) for _ in range(count)]
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for connection in self._connections:
            connection.close()
        if self._failures and error is None:
            raise self._failures[0]

    def _run(self, number: int) -> None:
        connection = self._connections[number]
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                self._work(connection, number)
                with self._progress:
                    self.times.append((began, time.monotonic()))
                    self._progress.notify_all()
                self._stop.wait(self._pause_s)
        except BaseException as failure:  # noqa: BLE001 - raised again at the end
            self._failures.append(failure)

    def reach(self, count: int) -> None:
        """Return when all threads together have made this many calls."""
        with self._progress:
            assert self._progress.wait_for(lambda: len(self.times) >= count or self._failures, PATIENCE_S)

    @property
    def durations(self) -> list[float]:
        return sorted(ended - began for began, ended in self.times)

    def p99s(self) -> list[float]:
        """The 99th percentile of each CHUNK consecutive calls, so that rounds of different lengths can be compared."""
        in_order = [ended - began for began, ended in self.times]
        chunks = [sorted(in_order[at : at + CHUNK]) for at in range(0, len(in_order) - CHUNK + 1, CHUNK)]
        return [chunk[CHUNK * 99 // 100] for chunk in chunks]


def read_from(topic: str) -> Callable[[RawConnection, int], None]:
    def work(connection: RawConnection, _: int) -> None:
        # one batch: the first batch is returned even if it is larger than the limit
        answer = calls.fetch(connection, topic, 0, 1, max_bytes=1)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
        assert calls.records_in(answer.records)

    return work


def write_and_read(connection: RawConnection, number: int) -> None:
    offset = calls.produce(connection, "quick", number, [VALUE])
    answer = calls.fetch(connection, "quick", number, offset)
    assert [record.value for record in calls.records_in(answer.records)] == [VALUE]


def test_clients_of_other_topics_keep_their_pace_while_one_topic_takes_half_a_second_a_read(
    broker: BrokerProcess, count: Callable[[int, int], int]
) -> None:
    measured = []
    for _ in range(ATTEMPTS):
        quiet, disturbed = measure(broker, rounds=count(ROUNDS, 10 * ROUNDS))
        if disturbed <= 2 * quiet:
            return
        measured.append((quiet, disturbed))
    raise AssertionError(f"p99 without and with slow reads: {measured}")


def measure(broker: BrokerProcess, rounds: int) -> tuple[float, float]:
    """The 99th percentile of clients of another topic, without and with slow reads at the same time; medians of
    rounds."""
    p99s: dict[str, list[float]] = {"control": [], "slow": []}
    for _ in range(rounds):
        # The same readers at the same pace, first of a topic in memory and then of the slow one.
        for topic in p99s:
            with (
                Workers(broker.bootstrap, SLOW_READERS, read_from(topic), pause_s=SLOW_S) as readers,
                Workers(broker.bootstrap, QUICK_CLIENTS, write_and_read) as quick,
                Workers(broker.bootstrap, 1, read_from("cold"), pause_s=0.05) as cold,
            ):
                readers.reach(SLOW_READS)
                quick.reach(QUICK_CALLS)
                slow_reads = list(readers.times)  # calls that began and ended while a slow read was in progress
            p99s[topic] += quick.p99s()
            assert quick.durations[-1] < BLOCKED_S, "the event loop waited for the disk"
            assert cold.durations[-1] < BLOCKED_S, "the slow topic used all threads"
            if topic == "slow":
                assert readers.durations[0] >= SLOW_S, "the slow topic was not slow: the test checks nothing"
                for began, ended in slow_reads:
                    during = sum(began <= a and b <= ended for a, b in quick.times)
                    assert during > 20, f"{during} others were served while a slow read took {ended - began:.2f} s"
    return median(p99s["control"]), median(p99s["slow"])
