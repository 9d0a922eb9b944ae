"""kill -9 while producers write: no acknowledged record is missing, and the next start needs no help."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection
from tests.system import calls
from tests.system.ledger import Ledger
from tests.system.producers import NumberingProducer, Progress

PRODUCERS = 3
PARTITIONS = 3
MOST_RECORDS_PER_RUN = 20_000
CLEAN_STOP_EVERY = 3
"""Every third run of the broker ends by SIGTERM instead of SIGKILL, also while producers write."""

# The smallest segments, so that some kills happen while a segment is rolled; and a topic that syncs before each answer.
TOPICS = {"plain": {"segment.bytes": "1048576"}, "synced": {"segment.bytes": "1048576", "flush.messages": "1"}}

RETRYING = {
    "enable.idempotence": False,
    "acks": "all",
    "linger.ms": 1,
    "message.timeout.ms": 60_000,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "queue.buffering.max.messages": 2_000,
    "log_level": 0,
}

# Frequent checkpoints, so that recovery does not always start at the beginning of the log.
SETTINGS = {"log.flush.offset.checkpoint.interval.ms": "50"}


@pytest.mark.timeout(120)
def test_no_acknowledged_record_is_missing_after_the_broker_was_killed_while_it_wrote(
    tmp_path: Path, seed: int, count: Callable[[int, int], int]
) -> None:
    kills = count(5, 50)
    rng = random.Random(seed)
    broker = BrokerProcess(tmp_path / "data", SETTINGS)
    ledgers = [Ledger(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
    progress = Progress()
    with broker:
        ids = create_topics(broker)
        run = 0
        while kills:
            run += 1
            producers = [NumberingProducer(broker.bootstrap, ledgers, progress, rng.random()) for _ in range(PRODUCERS)]
            progress.reach(rng.randrange(1, MOST_RECORDS_PER_RUN))
            if run % CLEAN_STOP_EVERY:
                broker.kill()
                kills -= 1
            else:
                assert broker.stop() == 0, broker.log
            for producer in producers:
                producer.join()
            broker.start()
            check(broker, ledgers, ids)
    assert "handler" not in broker.log
    assert "ERROR" not in broker.log


def test_a_producer_that_retries_delivers_everything_despite_kills(
    tmp_path: Path, seed: int, count: Callable[[int, int], int]
) -> None:
    rng = random.Random(seed)
    delivered: list[tuple[int, int, bytes]] = []
    failed: list[object] = []

    def report(error: object, message: Message) -> None:
        if error is None:
            delivered.append((message.partition() or 0, message.offset() or 0, message.value() or b""))
        else:
            failed.append(error)

    with BrokerProcess(tmp_path / "data") as broker:
        create_topics(broker)
        producer = Producer({"bootstrap.servers": broker.bootstrap, **RETRYING})
        number = 0
        for _ in range(count(2, 20)):
            target = len(delivered) + rng.randrange(1, 5_000)
            while len(delivered) < target:
                try:
                    producer.produce("plain", b"%d" % number, partition=number % PARTITIONS, on_delivery=report)
                    number += 1
                except BufferError:
                    producer.poll(0.01)
                producer.poll(0)
            broker.kill()
            broker.start()
        assert producer.flush(60) == 0
        assert not failed
        assert len(delivered) == number
        with RawConnection(broker.bootstrap) as connection:
            found = [
                {record.offset: record.value for record in calls.read_all(connection, "plain", partition)}
                for partition in range(PARTITIONS)
            ]
        for partition, offset, value in delivered:
            assert found[partition][offset] == value


def create_topics(broker: BrokerProcess) -> dict[str, bytes]:
    with RawConnection(broker.bootstrap) as connection:
        return {name: calls.create_topic(connection, name, PARTITIONS, configs) for name, configs in TOPICS.items()}


def check(broker: BrokerProcess, ledgers: list[Ledger], ids: dict[str, bytes]) -> None:
    with RawConnection(broker.bootstrap) as connection:
        known = {topic.name: topic.topic_id for topic in calls.metadata(connection).topics}
        assert known == ids
        for ledger in ledgers:
            ledger.check(calls.read_all(connection, ledger.topic, ledger.partition))
