"""Full and failing disks of single brokers: the cluster continues without their replicas and adds them again."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moldau import Admin, NewTopic, Producer
from moldau.broker.broker import Broker
from moldau.cluster.image import ClusterImage
from moldau.host.syscalls import Buffer
from moldau.replication.partition import Partition
from moldau.testing.cluster import Cluster, ClusterBroker
from tests.replication.scripted_partition import values
from tests.support.waiting import wait_until

TOPIC = "orders"


@contextmanager
def writes_fail(broker: ClusterBroker, number: int, below: str = "/") -> Iterator[None]:
    """All writes of the broker to files in this directory fail with this error number."""

    def calls(served: Broker) -> Any:
        return served.replicas.dirs.fs._calls

    def refuse(served: Broker) -> None:
        real = calls(served).pwritev

        def pwritev(fd: int, buffers: Sequence[Buffer], position: int) -> int:
            if os.readlink(f"/proc/self/fd/{fd}").startswith(below):
                raise OSError(number, os.strerror(number))
            written: int = real(fd, buffers, position)
            return written

        calls(served).pwritev = pwritev

    broker.look(refuse)
    try:
        yield
    finally:
        if broker.runs:
            broker.look(lambda served: delattr(calls(served), "pwritev"))


def producer_of(cluster: Cluster) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=0, retry_backoff_ms=10)


def partition_of(served: Broker, index: int) -> Partition:
    partition = served.replicas.find(TOPIC, index)
    assert partition is not None
    return partition


def stored(broker: ClusterBroker, index: int = 0) -> list[str]:
    return broker.look(lambda served: values(partition_of(served, index).log))


def in_sync(image: ClusterImage, index: int = 0) -> tuple[int, ...]:
    return image.topics[TOPIC].partitions[index].isr


def test_a_follower_with_a_full_disk_leaves_the_isr_and_returns_when_there_is_room() -> None:
    with Cluster(3, {"replica.lag.time.max.ms": 400}) as cluster:
        cluster.create_topic(TOPIC, 1, 3, {"min.insync.replicas": "2"})
        leader = cluster.leader_of(TOPIC)
        full = cluster.brokers[(leader + 1) % 3]
        with producer_of(cluster) as producer:
            producer.send(TOPIC, b"before", partition=0).result(30)
            wait_until(lambda: stored(full) == ["before"], "the follower has the record")
            with writes_fail(full, errno.ENOSPC):
                producer.send(TOPIC, b"while it is full", partition=0).result(30)  # after it has left the ISR
                assert full.node_id not in in_sync(cluster.brokers[leader].look(lambda served: served.image))
                assert stored(full) == ["before"]
                producer.send(TOPIC, b"without it", partition=0).result(30)
            cluster.wait_in_sync()
            assert stored(full) == ["before", "while it is full", "without it"]
            producer.send(TOPIC, b"with it", partition=0).result(30)
        assert cluster.leader_of(TOPIC) == leader
        assert stored(full)[-1] == "with it"


def test_leaders_in_a_failed_directory_move_and_those_in_the_other_directory_stay(
    tmp_path: Path,
) -> None:
    cluster = Cluster(3, data=tmp_path)
    for one in cluster.brokers:
        one._settings["log.dirs"] = ",".join(str(tmp_path / f"{one.node_id}-{place}") for place in "ab")
    with cluster:
        cluster.create_topic(TOPIC, 6, 3, {"min.insync.replicas": "2"})
        broker = cluster.brokers[0]
        failing = str(tmp_path / "0-a")
        places = broker.look(lambda served: [partition_of(served, index).log.directory for index in range(6)])
        hit = [index for index, place in enumerate(places) if place.startswith(failing)]
        led = [index for index in range(6) if cluster.leader_of(TOPIC, index) == 0]
        assert set(led) & set(hit), "no partition to move"
        assert set(led) - set(hit), "no partition to keep"
        with producer_of(cluster) as producer:
            with writes_fail(broker, errno.EIO, failing):
                for index in range(6):
                    producer.send(TOPIC, b"meanwhile", partition=index).result(30)
                cluster.wait_until(
                    lambda image: [index for index in range(6) if 0 not in in_sync(image, index)] == hit,
                    "the replicas of the directory are out of sync",
                )
                for index in led:
                    assert (cluster.leader_of(TOPIC, index) == 0) == (index not in hit)
            broker.restart()
            cluster.wait_in_sync()
            for index in range(6):
                producer.send(TOPIC, b"afterwards", partition=index).result(30)
                assert stored(broker, index) == ["meanwhile", "afterwards"]


def test_a_partition_that_its_leader_cannot_create_gets_another_leader_and_is_created_when_there_is_room() -> None:
    with Cluster(3, {"replica.lag.time.max.ms": 400}) as cluster:
        first = cluster.brokers[0]
        topic = NewTopic(TOPIC, configs={"min.insync.replicas": "2"}, assignments=[[0, 1, 2], [1, 0, 2]])
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin, producer_of(cluster) as producer:
            with writes_fail(first, errno.ENOSPC):
                admin.create_topics(topic)
                cluster.wait_until(
                    lambda image: TOPIC in image.topics and [in_sync(image, index) for index in (0, 1)] == 2 * [(1, 2)],
                    "the broker with the full disk is not in the ISR",
                )
                for index in (0, 1):
                    assert cluster.leader_of(TOPIC, index) == 1
                    producer.send(TOPIC, b"without it", partition=index).result(30)
            cluster.wait_in_sync()
        for index in (0, 1):
            assert stored(first, index) == ["without it"]
