"""Admin requests to any broker of a cluster: each broker serves them, and all brokers show the same result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.testing.cluster import Cluster
from moldau.wire.errors import ErrorCode
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestPartition,
    AlterPartitionReassignmentsRequestTopic,
)
from moldau.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from moldau.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from moldau.wire.messages.describe_cluster import DescribeClusterRequest
from moldau.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
)
from moldau.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.compat.wire import ask
from tests.support.raw import RawConnection

TOPIC_RESOURCE = 2
SETTINGS = {"auto.leader.rebalance.enable": "false", "offsets.topic.num.partitions": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Four brokers in two racks. Every test leaves all of them running and in sync."""
    with Cluster(4, SETTINGS, racks=["north", "south", "north", "south"]) as running:
        yield running


def response_of(cluster: Cluster, node: int, request: Any) -> Any:
    with RawConnection(cluster.brokers[node].bootstrap_servers) as connection:
        return ask(connection, request)


def test_every_broker_creates_alters_moves_and_deletes_topics(cluster: Cluster) -> None:
    for node in range(4):
        name = f"by-{node}"
        new = CreateTopicsRequestTopic(name=name, num_partitions=2, replication_factor=2)
        (made,) = response_of(cluster, node, CreateTopicsRequest(topics=[new])).topics
        assert made.error_code == 0, made
        more = CreatePartitionsRequestTopic(name=name, count=3, assignments=None)
        (grown,) = response_of(cluster, (node + 1) % 4, CreatePartitionsRequest(topics=[more])).results
        assert grown.error_code == 0, grown
        setting = IncrementalAlterConfigsRequestConfig(name="retention.ms", config_operation=0, value="1000")
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configs=[setting]
        )
        (altered,) = response_of(
            cluster, (node + 2) % 4, IncrementalAlterConfigsRequest(resources=[resource])
        ).responses
        assert altered.error_code == 0, altered
        part = AlterPartitionReassignmentsRequestPartition(partition_index=2, replicas=[node, (node + 1) % 4])
        wanted = AlterPartitionReassignmentsRequestTopic(name=name, partitions=[part])
        moved = response_of(cluster, (node + 3) % 4, AlterPartitionReassignmentsRequest(topics=[wanted]))
        assert moved.responses[0].partitions[0].error_code == 0, moved
        cluster.wait_until(
            lambda image, name=name, node=node: (
                len(image.topics[name].partitions) == 3
                and image.topics[name].partitions[2].replicas == (node, (node + 1) % 4)
                and image.topics[name].configs == {"retention.ms": "1000"}
            ),
            "all brokers know the changes",
        )
        (gone,) = response_of(
            cluster, node, DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name=name)])
        ).responses
        assert gone.error_code == 0, gone
        cluster.wait_until(lambda image, name=name: name not in image.topics, "all brokers have deleted the topic")


def test_all_brokers_describe_the_cluster_alike(cluster: Cluster) -> None:
    cluster.create_topic("agreed", partitions=4, replication_factor=3)
    cluster.wait_in_sync()
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="agreed")])
    first = response_of(cluster, 0, asked)
    assert [(one.node_id, one.rack) for one in first.brokers] == [
        (0, "north"),
        (1, "south"),
        (2, "north"),
        (3, "south"),
    ]
    assert first.controller_id in range(4)
    assert all(response_of(cluster, node, asked) == first for node in range(1, 4))
    described = response_of(cluster, 0, DescribeClusterRequest())
    assert described.controller_id == first.controller_id
    assert all(response_of(cluster, node, DescribeClusterRequest()) == described for node in range(1, 4))


def test_replicas_of_a_stopped_broker_are_offline_and_eligible_leaders_are_listed(cluster: Cluster) -> None:
    cluster.create_topic("away", partitions=4, replication_factor=4, configs={"min.insync.replicas": 4})
    cluster.wait_in_sync()
    cluster.brokers[2].crash()
    try:
        cluster.wait_until(lambda image: all(2 not in one.isr for one in image.topics["away"].partitions))
        request = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequestTopic(name="away")])
        for node in (0, 1, 3):
            (topic,) = response_of(cluster, node, request).topics
            for one in topic.partitions:
                assert one.error_code == ErrorCode.NONE
                assert one.leader_id != 2
                assert one.offline_replicas == [2]
                assert one.eligible_leader_replicas == [2], (
                    "a replica that leaves the ISR below min.insync.replicas must stay eligible"
                )
            assert [broker.broker_id for broker in response_of(cluster, node, DescribeClusterRequest()).brokers] == [
                0,
                1,
                3,
            ]
    finally:
        cluster.brokers[2].start()
        cluster.wait_in_sync()
