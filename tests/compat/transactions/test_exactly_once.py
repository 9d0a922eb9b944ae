"""Consume-transform-produce, killed at random points: the output has every input record once and in order."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat import wire
from tests.compat.transactions import copier
from tests.compat.transactions.test_confluent_kafka import TIMEOUT_S, read
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection

PARTITIONS = 2
STEPS_AT_MOST = 40
"""Printed steps of a copier; it is killed at one of them."""

COPIER = Path(copier.__file__)


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(COPIER), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def steps(process: subprocess.Popen[str], most: int) -> list[str]:
    """Follow a copier for this many steps, or to its end."""
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        found.append(line.strip())
        if len(found) == most:
            break
    return found


@pytest.mark.parametrize("mode", ["assign", "subscribe"])
def test_a_copier_that_is_killed_copies_everything_exactly_once(
    tmp_path: Path, count: Callable[[int, int], int], mode: str
) -> None:
    kills = count(5, 100)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    inputs = [[b"%d-%06d" % (partition, number) for number in range(60 * kills)] for partition in range(PARTITIONS)]
    with BrokerProcess(
        tmp_path / "data", {"transaction.state.log.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
    ) as broker:
        with RawConnection(broker.bootstrap) as raw:
            for topic in ("source", "sink"):
                wire.create_topic(raw, topic, PARTITIONS, {})
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "log_level": 0})
        arguments = (broker.bootstrap, "source", "sink", "copier", mode)
        for number in range(kills):
            for partition, values in enumerate(inputs):
                for value in values[number * 60 : number * 60 + 60]:
                    producer.produce("source", value, partition=partition)
            assert producer.flush(TIMEOUT_S) == 0
            with running(*arguments) as process:
                seen = steps(process, chance.randint(1, STEPS_AT_MOST))
                assert seen, "the copier did not start"
                if chance.random() < 0.3:  # kill the broker as well, before the copier
                    broker.kill()
                    broker.start()
        with running(*arguments) as process:
            assert steps(process, 10**6)[-1:] == ["done"]
        assert [read(broker.bootstrap, "sink", partition) for partition in range(PARTITIONS)] == inputs
