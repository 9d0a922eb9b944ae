"""Exactly-once pipelines whose processes are killed at any point, or resume after they were replaced."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau import Producer
from tests.client.transactions.pipeline import FENCED, STAGES
from tests.client.transactions.reading import committed

ROOT = Path(__file__).resolve().parents[3]
PARTITIONS = 2
END_TIMEOUT_S = 90.0


class Pipeline:
    """One process of `pipeline.py`."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.client.transactions.pipeline", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, stage: str, times: int = 1) -> bool:
        """Read its output until it has printed this line so many times. False if it ends before."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            times -= line.strip() == stage
            if not times:
                return True
        return False

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def end(self) -> int:
        """Read the rest of its output, and return its exit code."""
        self.process.communicate(timeout=END_TIMEOUT_S)
        return self.process.returncode


@pytest.fixture
def start() -> Iterator[Callable[..., Pipeline]]:
    started: list[Pipeline] = []

    def begin(*arguments: object) -> Pipeline:
        started.append(Pipeline(*map(str, arguments)))
        return started[-1]

    yield begin
    for one in started:
        one.kill()


def filled(bootstrap: str, topic: str, records: int) -> list[bytes]:
    """Write records to every partition. Returns the expected output by partition."""
    per_partition = records // PARTITIONS
    with Producer(bootstrap_servers=bootstrap) as producer:
        for partition in range(PARTITIONS):
            for number in range(per_partition):
                producer.send(topic, f"{partition}-{number}-abc".encode(), key=b"key", partition=partition)
        producer.flush(60)
    return [f"{partition}-{number}-ABC".encode() for partition in range(PARTITIONS) for number in range(per_partition)]


@pytest.mark.timeout(300)
def test_a_pipeline_killed_at_any_point_copies_each_record_once_and_in_order(
    bootstrap: str,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    start: Callable[..., Pipeline],
    count: Callable[[int, int], int],
    seed: int,
) -> None:
    chance = random.Random(seed)
    kills = count(3, 100)
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    expected = filled(bootstrap, source, 150 * (kills + 1))
    arguments = (bootstrap, source, target, unused_name(), len(expected))
    for _ in range(kills):
        pipeline = start(*arguments)
        if not pipeline.wait_for(chance.choice(STAGES), chance.randint(1, 3)):
            assert pipeline.end() == 0  # the process had finished before this step
        pipeline.kill()
    last = start(*arguments)
    assert last.end() == 0
    assert committed(bootstrap, target, PARTITIONS) == expected


@pytest.mark.timeout(300)
def test_a_process_that_was_replaced_while_paused_can_write_nothing(
    bootstrap: str,
    new_topic: Callable[..., str],
    unused_name: Callable[[], str],
    start: Callable[..., Pipeline],
    seed: int,
) -> None:
    source, target = new_topic(PARTITIONS), new_topic(PARTITIONS)
    expected = filled(bootstrap, source, 200)
    arguments = (bootstrap, source, target, unused_name(), len(expected))
    ghost = start(*arguments)
    assert ghost.wait_for(random.Random(seed).choice(["sent", "flushed", "offsets"]), 2)
    ghost.send_signal(signal.SIGSTOP)
    heir = start(*arguments)
    assert heir.end() == 0
    ghost.send_signal(signal.SIGCONT)
    # fenced by the transaction coordinator or by the group coordinator, depending on its next request
    assert ghost.end() in (FENCED, 1)
    assert committed(bootstrap, target, PARTITIONS) == expected
