"""Our clients while brokers die, restart and hand over leadership: no loss, no duplicates, no reordering."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer as ConfluentProducer

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.client.admin import ElectionType
from moldau.client.errors import LogTruncated, MoldauError
from moldau.settings.replication import RACK_AWARE
from moldau.testing.cluster import Cluster
from tests.support.waiting import wait_until

PARTITIONS = 3
PATIENCE_S = 60.0
IN_FLIGHT = 20
"""The number of records that are sent before the first one is awaited."""

SETTINGS = {
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "auto.leader.rebalance.enable": "false",
    "replica.selector.class": RACK_AWARE,
}
RACKS = ["north", "south", "west"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers. Every test leaves all of them running and in sync."""
    with Cluster(3, SETTINGS, racks=RACKS) as running:
        yield running


class Traffic:
    """A writer and a reader in threads; the written numbers increase in every partition."""

    def __init__(self, cluster: Cluster, topic: str, **consumer: object) -> None:
        self._cluster = cluster
        self._topic = topic
        self._consumer = consumer
        self._enough = threading.Event()
        self._all_read = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._read)]
        self.acknowledged = 0
        self.seen: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.errors: list[Exception] = []
        self.longest_wait_s = 0.0
        """The longest time between two acknowledgements."""

    def _write(self) -> None:
        waiting = []
        last = time.monotonic()
        try:
            with Producer(bootstrap_servers=self._cluster.bootstrap_servers, acks="all", linger_ms=1) as producer:
                number = 0
                while not self._enough.is_set() or waiting:
                    while len(waiting) < IN_FLIGHT and not self._enough.is_set():
                        value = b"%d" % (number // PARTITIONS)
                        waiting.append(producer.send(self._topic, value, partition=number % PARTITIONS))
                        number += 1
                    waiting.pop(0).result(PATIENCE_S)
                    self.acknowledged += 1
                    now = time.monotonic()
                    self.longest_wait_s, last = max(self.longest_wait_s, now - last), now
        except (MoldauError, TimeoutError) as error:
            self.errors.append(error)

    def _read(self) -> None:
        settings = {"bootstrap_servers": self._cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
        try:
            with Consumer(**settings, **self._consumer) as consumer:
                if "group_id" in self._consumer:
                    consumer.subscribe([self._topic])
                else:
                    consumer.assign([(self._topic, index) for index in range(PARTITIONS)])
                while not self._all_read.is_set():
                    for record in consumer.poll(0.05):
                        assert record.value is not None
                        self.seen[record.partition].append(int(record.value))
        except (MoldauError, TimeoutError) as error:
            self.errors.append(error)

    def wait_for_progress(self, records: int = 50) -> None:
        """Return when this many more records have been written and read."""
        written, read = self.acknowledged + records, sum(map(len, self.seen)) + records
        self._wait(lambda: self.acknowledged >= written and sum(map(len, self.seen)) >= read)

    def _wait(self, holds: Callable[[], bool]) -> None:
        wait_until(lambda: holds() or self.errors, "records are written and read", PATIENCE_S)

    def end(self) -> None:
        """Stop, wait until all acknowledged records are read, and check them."""
        self._enough.set()
        self._threads[0].join(PATIENCE_S)
        self._wait(lambda: sum(map(len, self.seen)) >= self.acknowledged)
        self._all_read.set()
        self._threads[1].join(PATIENCE_S)
        assert not self.errors
        for numbers in self.seen:
            assert numbers == list(range(len(numbers))), "not each record once and in order"
        assert sum(map(len, self.seen)) == self.acknowledged

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        self.wait_for_progress()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._all_read.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)


@contextmanager
def traffic(cluster: Cluster, topic: str, **consumer: object) -> Iterator[Traffic]:
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    cluster.wait_in_sync()
    with Traffic(cluster, topic, **consumer) as running:
        yield running


def test_leaders_crash_one_after_another_and_every_record_is_there_once_and_in_order(cluster: Cluster) -> None:
    with traffic(cluster, "crashes") as running:
        for number in range(6):
            leader = cluster.brokers[cluster.leader_of("crashes", number % PARTITIONS)]
            leader.crash()
            running.wait_for_progress()
            leader.start()
            cluster.wait_in_sync()
            running.wait_for_progress()
        running.end()


def test_a_rolling_restart_is_not_noticed_by_applications(cluster: Cluster) -> None:
    with traffic(cluster, "rolling", group_id="rolling-readers") as running:
        for broker in cluster.brokers:
            broker.restart()
            cluster.wait_in_sync()
            running.wait_for_progress()
        running.end()
        assert running.longest_wait_s < 3, "a client waited for a time-out instead of following the new leader"


def test_a_crash_delays_clients_little_longer_than_the_session_of_the_broker(cluster: Cluster) -> None:
    with traffic(cluster, "late") as running:
        leader = cluster.brokers[cluster.leader_of("late", 0)]
        leader.crash(noticed_after_s=1.0)
        running.wait_for_progress()
        leader.start()
        cluster.wait_in_sync()
        running.end()
        assert 0.5 < running.longest_wait_s < 4


def test_a_reader_stays_with_the_replica_of_its_rack_until_that_dies(cluster: Cluster) -> None:
    topic, near = "near", cluster.brokers[RACKS.index("south")]
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics(NewTopic(topic, assignments=[[0, near.node_id, 2]]))
    cluster.wait_in_sync()
    settings = {"client_id": "reader", "client_rack": "south", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, **settings) as consumer:
        consumer.assign([(topic, 0)])
        with near.faults.fail_next("Fetch", "NOT_LEADER_OR_FOLLOWER", client_id="reader") as asked:
            write(cluster, topic, b"1", b"2")
            assert read(consumer, 2) == [b"1", b"2"]
            asked.wait()
        near.crash()
        write(cluster, topic, b"3")
        assert read(consumer, 1) == [b"3"]
    near.start()
    cluster.wait_in_sync()


def test_committed_offsets_survive_their_coordinator(cluster: Cluster) -> None:
    cluster.create_topic("committed", partitions=1, replication_factor=3)
    partition = TopicPartition("committed", 0)
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="committers") as consumer:
        consumer.assign([partition])
        for offset, broker in enumerate(cluster.brokers, 1):  # one of these brokers is the coordinator, then another
            consumer.commit({partition: offset})
            broker.restart()
            found = consumer.committed(partition)[partition]
            assert found is not None
            assert found.offset == offset
            cluster.wait_in_sync()


@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_consumers_of_a_log_that_an_unclean_election_has_truncated(cluster: Cluster, reset: str) -> None:
    """Records that the new leader does not have are lost. Consumers continue at the truncation or get an error with
    its offset."""
    topic = f"cut-{reset}"
    partition = TopicPartition(topic, 0)
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics(NewTopic(topic, assignments=[[0, 1]], configs={"min.insync.replicas": "1"}))
        cluster.wait_in_sync()
        settings = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": reset}
        with Consumer(**settings) as consumer:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            write(cluster, topic, b"a", b"b")
            assert read(consumer, 2) == [b"a", b"b"]
            cluster.brokers[1].stop()
            write(cluster, topic, b"lost", b"lost")
            assert read(consumer, 2) == [b"lost", b"lost"]
            cluster.brokers[0].crash()
            cluster.brokers[1].start()
            cluster.wait_until(lambda image: 1 in image.brokers and 0 not in image.brokers)
            admin.elect_leaders(ElectionType.UNCLEAN, partition)
            write(cluster, topic, b"c")
            if reset == "none":
                with pytest.raises(LogTruncated) as cut:
                    read(consumer, 1)
                assert (cut.value.position, cut.value.truncated_to) == (4, 2)
                consumer.seek(partition, cut.value.truncated_to)
            assert read(consumer, 1) == [b"c"]
        cluster.brokers[0].start()
        cluster.wait_in_sync()


def test_a_topic_with_fewer_replicas_than_min_insync_replicas_takes_acks_all(cluster: Cluster) -> None:
    """Kafka requires the smaller of replication factor and min.insync.replicas. Otherwise an idempotent producer would
    retry forever with 2 required replicas of 1."""
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics(NewTopic("alone", assignments=[[0], [1], [2]]))
    errors: list[object] = []
    other = ConfluentProducer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "delivery.timeout.ms": int(PATIENCE_S * 1000),
        }
    )
    for partition in range(PARTITIONS):
        other.produce("alone", b"theirs", partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert other.flush(PATIENCE_S) == 0
    assert errors == [None] * PARTITIONS
    write(cluster, "alone", b"ours")
    assert [
        one.look(lambda served: sum(each.under_min_isr for each in served.replicas)) for one in cluster.brokers
    ] == [
        0,
        0,
        0,
    ]


def write(cluster: Cluster, topic: str, *values: bytes) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        for value in values:
            producer.send(topic, value).result(PATIENCE_S)


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []

    def enough() -> bool:
        found.extend(record.value for record in consumer.poll(0.1))
        return len(found) >= count

    wait_until(enough, f"{count} records", PATIENCE_S)
    return found
