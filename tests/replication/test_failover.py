"""Clusters that lose brokers: acknowledged records survive once and in order, and writing continues."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau import Admin, Consumer, Producer, TopicPartition
from moldau.broker.broker import Broker
from moldau.client.errors import NotEnoughReplicas
from moldau.replication.partition import Partition
from moldau.testing.cluster import Cluster
from tests.replication.scripted_partition import content, values
from tests.support.waiting import wait_until
from tests.unit.log.support import batch

TOPIC = "orders"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        cluster.create_topic(TOPIC, 1, 3, {"min.insync.replicas": "2"})
        yield cluster


@pytest.fixture
def producer(cluster: Cluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=0) as producer:
        yield producer


def send(producer: Producer, *texts: str) -> None:
    for future in [producer.send(TOPIC, text.encode(), partition=0) for text in texts]:
        future.result(30)


def stored(cluster: Cluster, broker: int) -> list[str]:
    return cluster.brokers[broker].look(lambda served: values(partition_of(served).log))


def partition_of(served: Broker) -> Partition:
    partition = served.replicas.find(TOPIC, 0)
    assert partition is not None
    return partition


def same_everywhere(cluster: Cluster) -> None:
    """Wait until all live replicas are the same, byte for byte."""

    def contents() -> list[bytes]:
        return [
            broker.look(lambda served: b"" if (one := served.replicas.find(TOPIC, 0)) is None else content(one.log))
            for broker in cluster.live
        ]

    wait_until(lambda: len(set(contents())) == 1, "the replicas are the same")


def test_acknowledged_records_are_on_every_in_sync_replica(cluster: Cluster, producer: Producer) -> None:
    for number in range(20):
        send(producer, str(number))
        for broker in cluster.in_sync(TOPIC):
            assert stored(cluster, broker)[-1] == str(number)


def test_acknowledged_records_survive_the_leader_and_writing_continues(cluster: Cluster, producer: Producer) -> None:
    expected: list[str] = []
    for turn in range(3):
        texts = [f"{turn}-{number}" for number in range(50)]
        send(producer, *texts)
        expected += texts
        leader = cluster.leader_of(TOPIC)
        cluster.brokers[leader].crash()
        send(producer, f"after {turn}")
        expected.append(f"after {turn}")
        cluster.brokers[leader].start()
        cluster.wait_in_sync()
    same_everywhere(cluster)
    assert stored(cluster, 0) == expected


def test_a_producer_retries_unanswered_batches_without_duplicates(cluster: Cluster, producer: Producer) -> None:
    send(producer, "first")
    leader = cluster.leader_of(TOPIC)
    others = [one for one in range(3) if one != leader]
    for other in others:  # The followers have the records, but the leader cannot know it, so nothing is acknowledged.
        cluster.brokers[other].look(lambda served: served.replicas._fetchers.stop())
    waiting = [producer.send(TOPIC, str(number).encode(), partition=0) for number in range(10)]
    wait_until(lambda: len(stored(cluster, leader)) == 11, "the leader has the records")
    for other in others:
        cluster.brokers[other].restart()
    cluster.brokers[leader].crash()
    for future in waiting:
        future.result(30)
    cluster.brokers[leader].start()
    cluster.wait_in_sync()
    same_everywhere(cluster)
    assert stored(cluster, leader) == ["first", *map(str, range(10))]


def test_retried_batches_are_recognised_after_all_brokers_restarted(cluster: Cluster) -> None:
    def append(sequence: int) -> int:
        def at(served: Broker) -> int:
            again = batch(producer_id=7, sequence=sequence, timestamp=served.now_ms())
            result = partition_of(served).append(again, served.now_ms(), all_replicas=True)
            served.replicas.appended(partition_of(served))
            return result.first_offset

        return cluster.brokers[cluster.leader_of(TOPIC)].look(at)

    assert [append(sequence) for sequence in range(5)] == [0, 1, 2, 3, 4]
    same_everywhere(cluster)
    for broker in cluster.brokers:
        broker.restart()
        cluster.wait_in_sync()
    assert [append(sequence) for sequence in range(6)] == [0, 1, 2, 3, 4, 5]


def test_a_broker_that_was_away_catches_up_before_it_is_in_sync(cluster: Cluster, producer: Producer) -> None:
    away = (cluster.leader_of(TOPIC) + 1) % 3
    send(producer, "before")
    cluster.brokers[away].crash()
    cluster.wait_until(
        lambda image: away not in image.topics[TOPIC].partitions[0].isr, "the stopped broker is out of sync"
    )
    send(producer, *map(str, range(200)))
    cluster.brokers[away].start()
    cluster.wait_in_sync()
    assert stored(cluster, away) == ["before", *map(str, range(200))]


def test_with_too_few_in_sync_replicas_nothing_is_acknowledged(cluster: Cluster) -> None:
    leader = cluster.leader_of(TOPIC)
    for broker in cluster.brokers:
        if broker.node_id != leader:
            broker.crash()
    cluster.wait_until(
        lambda image: image.topics[TOPIC].partitions[0].isr == (leader,), "the leader is the only in-sync replica"
    )
    with (
        Producer(
            bootstrap_servers=cluster.bootstrap_servers, acks="all", retries=0, enable_idempotence=False
        ) as producer,
        pytest.raises(NotEnoughReplicas),
    ):
        producer.send(TOPIC, b"x", partition=0).result(30)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks=1) as careless:
        careless.send(TOPIC, b"y", partition=0).result(30)
    look = cluster.brokers[leader].look
    assert look(lambda served: partition_of(served).high_watermark) == 0, "an unreplicated record must not be visible"


def test_a_follower_that_hangs_leaves_the_isr_and_returns() -> None:
    with Cluster(3, {"replica.lag.time.max.ms": 400}) as cluster:
        cluster.create_topic(TOPIC, 1, 3, {"min.insync.replicas": "2"})
        hanging = (cluster.leader_of(TOPIC) + 1) % 3
        with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=0) as producer:
            send(producer, "a")
            cluster.brokers[hanging].look(lambda served: served.replicas._fetchers.stop())
            waiting = producer.send(TOPIC, b"b", partition=0)
            cluster.wait_until(
                lambda image: hanging not in image.topics[TOPIC].partitions[0].isr, "the follower has left the ISR"
            )
            waiting.result(30)
            cluster.brokers[hanging].restart()
            cluster.wait_in_sync()
            send(producer, "c")
        same_everywhere(cluster)


def test_a_broker_whose_session_ends_stops_leading_until_it_is_elected_again(
    cluster: Cluster, producer: Producer
) -> None:
    send(producer, "a")
    leader = cluster.leader_of(TOPIC)
    epoch = cluster.brokers[leader].look(lambda served: partition_of(served).leader_epoch)
    cluster.brokers[leader].expire_session()
    send(producer, "b")
    cluster.wait_in_sync()
    assert cluster.brokers[leader].look(lambda served: partition_of(served).leader_epoch) > epoch
    same_everywhere(cluster)
    assert stored(cluster, leader) == ["a", "b"]


def test_read_committed_consumers_see_only_decided_records_after_a_failover(cluster: Cluster) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0}
    with (
        Producer({**settings, "transactional.id": "one"}) as committing,
        Producer({**settings, "transactional.id": "two"}) as aborting,
        Producer({**settings, "transactional.id": "three"}) as undecided,
    ):
        for producer, text in ((committing, b"kept"), (aborting, b"given up"), (undecided, b"open")):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(TOPIC, text, partition=0).result(30)
        committing.commit_transaction()
        aborting.abort_transaction()
        leader = cluster.leader_of(TOPIC)
        cluster.brokers[leader].crash()
        cluster.wait_until(lambda image: image.topics[TOPIC].partitions[0].leader not in (leader, -1), "a new leader")
        partition = TopicPartition(TOPIC, 0)
        with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([partition])
            # The coordinator may write the markers of the other transactions only now.
            wait_until(lambda: consumer.end_offsets(partition)[partition] == 2, "records up to the open transaction")
            undecided.commit_transaction()
            found: list[bytes] = []
            wait_until(
                lambda: (
                    found.extend(one.value for one in consumer.poll(0.2) if one.value is not None) or len(found) >= 2
                ),
                "records of both committed transactions",
            )
            assert found == [b"kept", b"open"]


def test_a_topic_that_is_deleted_and_created_again_is_empty_on_every_broker(
    cluster: Cluster, producer: Producer
) -> None:
    send(producer, "old")
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_topics(TOPIC)
    cluster.wait_until(lambda image: TOPIC not in image.topics, "the topic is deleted")
    cluster.create_topic(TOPIC, 1, 3)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as another:
        send(another, "new")
    same_everywhere(cluster)
    assert stored(cluster, 0) == ["new"]
