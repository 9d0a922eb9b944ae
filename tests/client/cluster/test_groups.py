"""Groups whose coordinator moves: members and offsets stay, and waiting requests name the new coordinator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau import Consumer, Producer, TopicPartition
from moldau.cluster.image import CONSUMER_OFFSETS
from moldau.testing import Cluster
from moldau.wire.errors import ErrorCode as E
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.list_groups import ListGroupsRequest
from tests.compat import wire
from tests.support.raw import RawConnection
from tests.support.waiting import wait_until

TOPIC, GROUP = "orders", "shipping"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        cluster.create_topic(TOPIC, 2)
        with Producer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
            for partition in (0, 1):
                for number in range(10):
                    producer.send(TOPIC, b"%d" % number, partition=partition)
        yield cluster


def member(cluster: Cluster, **settings: object) -> Consumer:
    return Consumer(
        TOPIC,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=10,
        **settings,
    )


def move_coordinator(cluster: Cluster) -> int:
    return cluster.move_leader(CONSUMER_OFFSETS, cluster.coordinator_partition(CONSUMER_OFFSETS, GROUP))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_keeps_its_generation_when_the_coordinator_moves(cluster: Cluster, protocol: str) -> None:
    with member(cluster, group_protocol=protocol) as consumer:
        wait_until(lambda: consumer.poll(0.1))
        joined = consumer.group_metadata()
        for _ in range(3):
            before = cluster.group_coordinator(GROUP)
            assert move_coordinator(cluster) != before
            consumer.commit(timeout=30)
        after = consumer.group_metadata()
        assert (after.generation_id, after.member_id) == (joined.generation_id, joined.member_id)


def test_a_static_member_keeps_its_assignment_at_another_coordinator(cluster: Cluster) -> None:
    with member(cluster, group_instance_id="one", session_timeout_ms=30_000) as consumer:
        wait_until(lambda: consumer.poll(0.1))
        place, joined = consumer.assignment(), consumer.group_metadata()
    move_coordinator(cluster)
    with member(cluster, group_instance_id="one", session_timeout_ms=30_000) as consumer:
        wait_until(lambda: consumer.poll(0.1))
        assert consumer.assignment() == place
        assert consumer.group_metadata().generation_id == joined.generation_id


def test_committed_offsets_are_where_the_coordinator_is(cluster: Cluster) -> None:
    with member(cluster) as consumer:
        wait_until(lambda: consumer.poll(0.1))
        for offset in range(1, 6):
            consumer.commit({TopicPartition(TOPIC, 0): offset}, timeout=30)
            move_coordinator(cluster)
            found = consumer.committed(TopicPartition(TOPIC, 0), timeout=30)
            assert found[TopicPartition(TOPIC, 0)].offset == offset


def test_a_broker_lists_the_groups_that_it_coordinates_and_no_others(cluster: Cluster) -> None:
    with member(cluster) as consumer:
        wait_until(lambda: consumer.poll(0.1))
        for _ in range(2):
            coordinator = cluster.group_coordinator(GROUP)
            for broker in cluster.brokers:
                with RawConnection(broker.bootstrap_servers) as raw:
                    wait_until(lambda raw=raw: wire.ask(raw, ListGroupsRequest()).error_code == E.NONE)
                    listed = [group.group_id for group in wire.ask(raw, ListGroupsRequest()).groups]
                assert listed == ([GROUP] if broker.node_id == coordinator else [])
            move_coordinator(cluster)


def test_every_broker_names_the_same_coordinator(cluster: Cluster) -> None:
    request = FindCoordinatorRequest(key=GROUP)
    connections = [RawConnection(broker.bootstrap_servers) for broker in cluster.brokers]
    wait_until(lambda: wire.ask(connections[0], request, 3).error_code == E.NONE)
    cluster.wait_until(lambda image: CONSUMER_OFFSETS in image.topics)
    answers = [wire.ask(raw, request, 3) for raw in connections]
    coordinator = cluster.group_coordinator(GROUP)
    port = int(cluster.brokers[coordinator].bootstrap_servers.rpartition(":")[2])
    assert {(one.node_id, one.port) for one in answers} == {(coordinator, port)}
    assert (
        len(cluster.brokers[0].look(lambda served: served.image.topics[CONSUMER_OFFSETS].partitions[0].replicas)) == 3
    )
    for raw in connections:
        raw.close()


def test_two_brokers_that_create_the_offsets_topic_at_the_same_time_make_one_topic(cluster: Cluster) -> None:
    request = FindCoordinatorRequest(key=GROUP)
    connections = [RawConnection(broker.bootstrap_servers) for broker in cluster.brokers]
    for raw in connections:
        raw.send(wire.APIS[request.API_KEY].key, 3, request.encode(3))
    for raw in connections:
        raw.receive(wire.APIS[request.API_KEY].key, 3, wire.APIS[request.API_KEY].response_type())
    for raw in connections:
        wait_until(lambda raw=raw: wire.ask(raw, request, 3).error_code == E.NONE)
        raw.close()
