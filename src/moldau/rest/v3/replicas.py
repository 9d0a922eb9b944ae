"""Replicas of a partition (API v3)."""

from __future__ import annotations

from typing import Any

from moldau.client.admin import PartitionDescription
from moldau.rest.endpoints import ProxyCall, ProxyEndpoint
from moldau.rest.errors import not_found
from moldau.rest.v3.partitions import PARTITION, known_partition
from moldau.rest.v3.resources import crn, listing, related, resource, url

TAG = "Partitions"


async def list_replicas(call: ProxyCall) -> Any:
    topic, partition = await known_partition(call)
    found = [replica(call, topic, partition, broker) for broker in partition.replicas]
    return listing("KafkaReplicaList", url(call, "topics", topic, "partitions", partition.index, "replicas"), found)


async def get_replica(call: ProxyCall) -> Any:
    topic, partition = await known_partition(call)
    broker = call.path["broker_id"]
    if broker not in partition.replicas:
        raise not_found(f"{topic}-{partition.index} has no replica on broker {broker}")
    return replica(call, topic, partition, broker)


def replica(call: ProxyCall, topic: str, partition: PartitionDescription, broker: int) -> dict[str, Any]:
    return resource(
        "KafkaReplica",
        url(call, "topics", topic, "partitions", partition.index, "replicas", broker),
        crn(call, "topic", topic, "partition", partition.index, "replica", broker),
        cluster_id=call.session.cluster_id,
        topic_name=topic,
        partition_id=partition.index,
        broker_id=broker,
        is_leader=broker == partition.leader,
        is_in_sync=broker in partition.isr,
        broker=related(call, "brokers", broker),
    )


ENDPOINTS = (
    ProxyEndpoint("GET", f"{PARTITION}/replicas", list_replicas, "List the replicas of a partition", TAG),
    ProxyEndpoint("GET", f"{PARTITION}/replicas/{{broker_id}}", get_replica, "Get a replica", TAG),
)
