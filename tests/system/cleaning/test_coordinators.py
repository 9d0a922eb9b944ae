"""Compaction of the coordinators' topics: a coordinator restores the same state from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.raw import RawConnection
from tests.system import calls
from tests.system.cleaning.compacted_topic import WatchedBroker

PARTITIONS = 100
FILL = "x" * 200
OFFSETS_TOPIC = "partition=__consumer_offsets-0"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.segment.bytes": str(1 << 20),
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.min.cleanable.ratio": "0.05",
}


class Filler:
    """A group that commits a hundred offsets at a time, with growing values."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "filler", "enable.auto.commit": False})
        self.offset = 0

    def commit(self, times: int) -> None:
        for _ in range(times):
            self.offset += 1
            self._consumer.commit(
                offsets=[TopicPartition("data", index, self.offset, metadata=FILL) for index in range(PARTITIONS)],
                asynchronous=False,
            )

    def close(self) -> None:
        self._consumer.close()


def committed(bootstrap: str, group: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        wanted = [TopicPartition("data", index) for index in range(partitions)]
        return [one.offset for one in consumer.committed(wanted, timeout=30)]
    finally:
        consumer.close()


@pytest.mark.timeout(180)
def test_committed_offsets_are_the_same_after_their_log_was_compacted(tmp_path: Path) -> None:
    broker = WatchedBroker(tmp_path, SETTINGS)
    with broker, RawConnection(broker.bootstrap) as connection:
        calls.create_topic(connection, "data", PARTITIONS)
        filler = Filler(broker.bootstrap)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
        member = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "in-transactions"})
        producer.init_transactions(30)
        expected = -1001
        for turn in range(30):
            filler.commit(3)
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                [TopicPartition("data", 0, turn)], member.consumer_group_metadata(), 30
            )
            if turn % 3:
                producer.commit_transaction(30)
                expected = turn
            else:
                producer.abort_transaction(30)
        member.close()
        line = broker.wait_for(OFFSETS_TOPIC)
        sizes = dict(re.findall(r"bytes_(before|after)=(\d+)", line))
        assert int(sizes["after"]) < int(sizes["before"])
        since = len(broker.lines)
        filler.commit(80)
        broker.wait_for(OFFSETS_TOPIC, since=since)
        filler.close()
        broker.kill()
    with WatchedBroker(tmp_path, SETTINGS) as again:
        assert committed(again.bootstrap, "filler", PARTITIONS) == [filler.offset] * PARTITIONS
        assert committed(again.bootstrap, "in-transactions", 1) == [expected]
        assert "Traceback" not in again.log
