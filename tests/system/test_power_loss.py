"""Power loss: unsynced bytes are lost, torn or garbage, and the broker starts with the rest.

With `flush.messages=1` every acknowledged record survives. Without it the log is a clean prefix of the sent records.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.wire.errors import ErrorCode
from tests.support.raw import RawConnection
from tests.system import calls
from tests.system.in_process_broker import InProcessBroker, Machine
from tests.system.ledger import Ledger
from tests.system.producers import NumberingProducer, Progress

PARTITIONS = 2
PRODUCERS = 2
POWER_LOSSES = 4
MOST_RECORDS_PER_RUN = 1_500
TOPICS = {
    "synced": {"flush.messages": "1"},
    "grouped": {"flush.messages": "7"},
    "timed": {"flush.ms": "5"},
    "plain": {},
}
SURVIVING = frozenset(("synced",))
SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "20"}


@pytest.mark.timeout(120)
def test_flushed_acknowledged_records_survive_and_the_log_is_a_clean_prefix(
    tmp_path: Path, seed: int, count: Callable[[int, int], int]
) -> None:
    rng = random.Random(seed)
    lost = 0
    for machine_number in range(count(12, 1_000)):
        data = tmp_path / str(machine_number)
        machine = Machine()
        ledgers = [Ledger(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
        for run in range(POWER_LOSSES + 1):
            with InProcessBroker(machine.fs, data, settings=SETTINGS) as broker:
                with RawConnection(broker.bootstrap) as connection:
                    if run == 0:
                        for name, configs in TOPICS.items():
                            calls.create_topic(connection, name, PARTITIONS, configs)
                    for ledger in ledgers:
                        lost += check(connection, ledger)
                if run == POWER_LOSSES:
                    break
                progress = Progress()
                producers = [
                    NumberingProducer(broker.bootstrap, ledgers, progress, rng.random()) for _ in range(PRODUCERS)
                ]
                progress.reach(rng.randrange(1, MOST_RECORDS_PER_RUN))
                machine.cut_power()
            for producer in producers:
                producer.join(unless=ErrorCode.KAFKA_STORAGE_ERROR)
            machine.power_on(rng.randrange(1 << 32))
    assert lost, "no power loss lost a record: the test checks nothing"


def check(connection: RawConnection, ledger: Ledger) -> int:
    """Check the log against the ledger. Returns how many unflushed records were lost."""
    records = calls.read_all(connection, ledger.topic, ledger.partition)
    acked = ledger.acked
    if ledger.topic not in SURVIVING:
        ledger.forget_from(len(records))
    ledger.check(records)
    return acked - ledger.acked
