"""Brokers (API v3), and the replicas that each of them has."""

from __future__ import annotations

from typing import Any

from moldau.client.data_types import Node
from moldau.rest.endpoints import ProxyCall, ProxyEndpoint
from moldau.rest.errors import not_found
from moldau.rest.v3.replicas import replica
from moldau.rest.v3.resources import CLUSTER, check_cluster, crn, listing, related, resource, url
from moldau.rest.v3.topics import described_topics

TAG = "Brokers"
BROKER = f"{CLUSTER}/brokers/{{broker_id}}"


async def list_brokers(call: ProxyCall) -> Any:
    check_cluster(call)
    found = await (await call.session.admin()).describe_cluster()
    return listing("KafkaBrokerList", url(call, "brokers"), [_broker(call, node) for node in found.brokers])


async def get_broker(call: ProxyCall) -> Any:
    return _broker(call, await known_broker(call))


async def list_broker_replicas(call: ProxyCall) -> Any:
    node = await known_broker(call)
    admin = await call.session.admin()
    names = [topic.name for topic in await admin.list_topics(include_internal=True)]
    found = [
        replica(call, topic.name, partition, node.id)
        for topic in await described_topics(call, names)
        for partition in topic.partitions
        if node.id in partition.replicas
    ]
    return listing("KafkaReplicaList", url(call, "brokers", node.id, "partition-replicas"), found)


async def known_broker(call: ProxyCall) -> Node:
    """The broker of the request. ProxyError 404: there is none."""
    check_cluster(call)
    wanted = call.path["broker_id"]
    found = await (await call.session.admin()).describe_cluster()
    node = next((node for node in found.brokers if node.id == wanted), None)
    if node is None:
        raise not_found(f"there is no broker {wanted}")
    return node


def _broker(call: ProxyCall, node: Node) -> dict[str, Any]:
    return resource(
        "KafkaBroker",
        url(call, "brokers", node.id),
        crn(call, "broker", node.id),
        cluster_id=call.session.cluster_id,
        broker_id=node.id,
        host=node.host,
        port=node.port,
        rack=node.rack,
        configs=related(call, "brokers", node.id, "configs"),
        partition_replicas=related(call, "brokers", node.id, "partition-replicas"),
    )


ENDPOINTS = (
    ProxyEndpoint("GET", f"{CLUSTER}/brokers", list_brokers, "List brokers", TAG),
    ProxyEndpoint("GET", BROKER, get_broker, "Get a broker", TAG),
    ProxyEndpoint("GET", f"{BROKER}/partition-replicas", list_broker_replicas, "List the replicas of a broker", TAG),
)
