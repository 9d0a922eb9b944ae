"""Replicas during changes of a topic: growth, moves, retention, compaction, throttled copies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from moldau import Admin, ConfigResource, Producer
from moldau.broker.broker import Broker
from moldau.cluster.reassignments import Reassignment
from moldau.testing.cluster import Cluster
from tests.replication.scripted_partition import values
from tests.support.waiting import wait_until

TOPIC = "topic"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


def write(cluster: Cluster, *texts: str, key: str | None = None, index: int = 0, timestamp: int | None = None) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=0) as producer:
        name = None if key is None else key.encode()
        for text in texts:
            producer.send(TOPIC, text.encode(), name, partition=index, timestamp=timestamp)
        producer.flush(30)


def stored(cluster: Cluster, broker: int, index: int = 0) -> list[str] | None:
    def look(served: Broker) -> list[str] | None:
        partition = served.replicas.find(TOPIC, index)
        return None if partition is None else values(partition.log)

    return cluster.brokers[broker].look(look)


def is_empty(cluster: Cluster, broker: int) -> bool:
    return stored(cluster, broker) == []


def test_added_partitions_are_replicated(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, 1, 3)
    write(cluster, "a")
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_partitions({TOPIC: 3})
    cluster.wait_until(lambda image: len(image.topics[TOPIC].partitions) == 3, "the topic has grown")
    for index in (1, 2):
        write(cluster, f"in {index}", index=index)
        assert [stored(cluster, broker, index) for broker in range(3)] == [[f"in {index}"]] * 3


def test_a_reassigned_partition_is_copied_to_the_new_brokers_and_removed_from_the_old_ones(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, 1, 1)
    here = cluster.leader_of(TOPIC)
    there = (here + 1) % 3
    write(cluster, *map(str, range(100)))
    moved = Reassignment(TOPIC, 0, (there,))
    cluster.brokers[here].carry_out(lambda served: served.metadata.reassign([moved]))
    cluster.wait_until(lambda image: image.topics[TOPIC].partitions[0].replicas == (there,), "the partition has moved")
    wait_until(lambda: stored(cluster, here) is None, "the old log is deleted")
    assert stored(cluster, there) == [str(number) for number in range(100)]
    write(cluster, "more")
    assert stored(cluster, there) == [*(str(number) for number in range(100)), "more"]


def test_an_added_replica_copies_a_compacted_log(cluster: Cluster) -> None:
    settings = {"cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.01}
    cluster.create_topic(TOPIC, 1, 1, settings)
    here = cluster.leader_of(TOPIC)
    began_ms = cluster.brokers[here].now_ms
    for number in range(5):
        write(cluster, str(number), key="k", timestamp=began_ms + 1000 * number)
    write(cluster, "last", key="other", timestamp=began_ms + 9000)
    cluster.brokers[here].advance(60)
    wait_until(lambda: len(stored(cluster, here) or []) < 6, "the log was compacted")
    everywhere = Reassignment(TOPIC, 0, tuple((here + step) % 3 for step in range(3)))
    cluster.brokers[here].carry_out(lambda served: served.metadata.reassign([everywhere]))
    cluster.wait_in_sync()
    cluster.wait_until(lambda image: len(image.topics[TOPIC].partitions[0].isr) == 3, "all replicas have the log")
    assert stored(cluster, (here + 1) % 3) == stored(cluster, (here + 2) % 3) == stored(cluster, here)


def test_old_segments_are_deleted_on_every_replica(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, 1, 3, {"retention.ms": 10_000, "segment.ms": 100})
    write(cluster, "old")
    write(cluster, "also old")
    for broker in cluster.brokers:
        broker.advance(minutes=10)
    for broker in range(3):
        wait_until(partial(is_empty, cluster, broker), f"the segment is deleted on broker {broker}")
    write(cluster, "new")
    cluster.wait_in_sync()
    assert [stored(cluster, broker) for broker in range(3)] == [["new"]] * 3


def test_a_throttled_copy_is_slow_until_the_throttle_is_removed() -> None:
    with Cluster(2, {"replica.fetch.max.bytes": 30_000}) as cluster:
        cluster.create_topic(TOPIC, 1, 1, {"leader.replication.throttled.replicas": "*"})
        here = cluster.leader_of(TOPIC)
        there = 1 - here
        write(cluster, *(["x" * 20_000] * 20))
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            leader = ConfigResource.broker(here)
            admin.alter_configs({leader: {"leader.replication.throttled.rate": "1000"}})
            moved = Reassignment(TOPIC, 0, (there,))
            cluster.brokers[here].carry_out(lambda served: served.metadata.reassign([moved]))
            wait_until(lambda: stored(cluster, there), "the first answer")
            assert len(stored(cluster, there) or []) < 20
            assert not cluster.brokers[here].look(lambda served: may_send(served, there)), (
                "the throttle must last for twenty seconds"
            )
            admin.alter_configs({leader: {"leader.replication.throttled.rate": None}})
        cluster.wait_until(
            lambda image: image.topics[TOPIC].partitions[0].replicas == (there,), "the partition has moved"
        )
        assert len(stored(cluster, there) or []) == 20


def may_send(served: Broker, replica: int) -> bool:
    partition = served.replicas.find(TOPIC, 0)
    assert partition is not None
    return served.replicas.throttles.may_send(partition, replica)


def test_high_watermarks_survive_a_restart(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, 1, 3)
    write(cluster, "a", "b")
    leader = cluster.leader_of(TOPIC)
    follower = cluster.brokers[(leader + 1) % 3]

    def high_watermark(served: Broker) -> int:
        partition = served.replicas.find(TOPIC, 0)
        return -1 if partition is None else partition.high_watermark

    wait_until(lambda: follower.look(high_watermark) == 2, "the broker has the high watermark")
    follower.stop()
    for broker in cluster.live:
        broker.stop()
    follower.start()
    assert follower.look(high_watermark) == 2
    assert stored(cluster, follower.node_id) == ["a", "b"]
